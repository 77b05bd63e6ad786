"""The mirror: IMAP in, a sanitized and searchable SQLite file out."""
