"""What a content policy leaves out of texts: redaction, links, quoted history. Pure."""
