"""The tables of a mirror as the first version made them. Never edited: what changed since is in mirror.schema."""

FIRST_TABLES = (
    """
    CREATE TABLE mirror (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        epoch INTEGER NOT NULL,
        fold_version INTEGER NOT NULL,
        pass_wanted_at REAL NOT NULL DEFAULT 0,
        pass_began_at REAL NOT NULL DEFAULT 0,
        pass_ended_at REAL NOT NULL DEFAULT 0,
        report TEXT NOT NULL DEFAULT '{}',
        error TEXT NOT NULL DEFAULT ''
    ) STRICT
    """,
    """
    CREATE TABLE folder (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        raw BLOB NOT NULL UNIQUE,
        name TEXT NOT NULL UNIQUE,
        delimiter TEXT,
        attributes TEXT NOT NULL DEFAULT '[]',
        role TEXT NOT NULL DEFAULT '',
        selectable INTEGER NOT NULL DEFAULT 1,
        wanted INTEGER NOT NULL DEFAULT 1,
        missing INTEGER NOT NULL DEFAULT 0,
        generation INTEGER NOT NULL DEFAULT 0,
        uidvalidity INTEGER,
        uidnext INTEGER,
        highestmodseq INTEGER,
        upstream_messages INTEGER,
        enumerated INTEGER NOT NULL DEFAULT 0,
        reconciled_at REAL,
        as_of REAL,
        error TEXT NOT NULL DEFAULT ''
    ) STRICT
    """,
    """
    CREATE TABLE content (
        id INTEGER PRIMARY KEY,
        state INTEGER NOT NULL DEFAULT 0,
        internaldate INTEGER NOT NULL,
        internaldate_zone INTEGER NOT NULL,
        size INTEGER NOT NULL,
        digest BLOB,
        content_version INTEGER NOT NULL DEFAULT 0,
        orphaned_at REAL,
        subject TEXT NOT NULL DEFAULT '',
        sent INTEGER,
        sent_zone INTEGER,
        sent_day INTEGER NOT NULL DEFAULT 0,
        subject_key TEXT NOT NULL DEFAULT '',
        from_key TEXT NOT NULL DEFAULT '',
        to_key TEXT NOT NULL DEFAULT '',
        sender TEXT NOT NULL DEFAULT '[]',
        recipient TEXT NOT NULL DEFAULT '[]',
        cc TEXT NOT NULL DEFAULT '[]',
        bcc TEXT NOT NULL DEFAULT '[]',
        reply_to TEXT NOT NULL DEFAULT '[]',
        message_id TEXT NOT NULL DEFAULT '',
        in_reply_to TEXT NOT NULL DEFAULT '',
        refs TEXT NOT NULL DEFAULT '[]',
        preview TEXT NOT NULL DEFAULT '',
        attachments TEXT NOT NULL DEFAULT '[]',
        findings TEXT NOT NULL DEFAULT '{}'
    ) STRICT
    """,
    "CREATE INDEX content_pending ON content (id) WHERE state < 2",
    """
    CREATE INDEX content_skewed ON content (sent_day)
    WHERE abs(sent_day - (internaldate + 60 * internaldate_zone) / 86400) > 2
    """,
    """
    CREATE INDEX content_spill ON content ((id >> 3) - (internaldate - 946684800) / 60)
    WHERE (id >> 3) > (internaldate - 946684800) / 60
    """,
    "CREATE INDEX content_by_subject ON content (subject_key, id DESC)",
    "CREATE INDEX content_by_from ON content (from_key, id DESC)",
    "CREATE INDEX content_by_to ON content (to_key, id DESC)",
    "CREATE INDEX content_by_date ON content (coalesce(sent, internaldate), id DESC)",
    "CREATE INDEX content_digest ON content (digest) WHERE digest IS NOT NULL",
    "CREATE INDEX content_message_id ON content (message_id) WHERE message_id <> ''",
    "CREATE INDEX content_orphan ON content (orphaned_at) WHERE orphaned_at IS NOT NULL",
    """
    CREATE TABLE body (
        content INTEGER PRIMARY KEY REFERENCES content (id) ON DELETE CASCADE,
        text TEXT NOT NULL,
        headers TEXT NOT NULL DEFAULT '[]',
        html BLOB,
        normalised BLOB,
        source BLOB
    ) STRICT
    """,
    """
    CREATE TABLE message (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        folder INTEGER NOT NULL REFERENCES folder (id) ON DELETE CASCADE,
        content INTEGER NOT NULL REFERENCES content (id),
        uid INTEGER NOT NULL,
        generation INTEGER NOT NULL,
        flags TEXT NOT NULL DEFAULT '[]',
        modseq INTEGER NOT NULL DEFAULT 0,
        flags_written_at REAL NOT NULL DEFAULT 0
    ) STRICT
    """,
    "CREATE UNIQUE INDEX message_walk ON message (folder, content, uid)",
    "CREATE UNIQUE INDEX message_uid ON message (folder, uid)",
    "CREATE INDEX message_content ON message (content)",
    """CREATE INDEX message_unseen ON message (folder, content, flags) WHERE instr(flags, '"\\\\Seen"') = 0""",
    """CREATE INDEX message_flagged ON message (folder, content, flags) WHERE instr(flags, '"\\\\Flagged"') > 0""",
    """CREATE INDEX message_answered ON message (folder, content, flags) WHERE instr(flags, '"\\\\Answered"') > 0""",
    """CREATE INDEX message_deleted ON message (folder, content, flags) WHERE instr(flags, '"\\\\Deleted"') > 0""",
    """CREATE INDEX message_draft ON message (folder, content, flags) WHERE instr(flags, '"\\\\Draft"') > 0""",
    """
    CREATE TABLE departed (
        message INTEGER PRIMARY KEY,
        content INTEGER NOT NULL REFERENCES content (id) ON DELETE CASCADE,
        at REAL NOT NULL
    ) STRICT
    """,
    "CREATE INDEX departed_content ON departed (content)",
    """
    CREATE TABLE attempt (
        content INTEGER PRIMARY KEY REFERENCES content (id) ON DELETE CASCADE,
        crashes INTEGER NOT NULL DEFAULT 0,
        failures INTEGER NOT NULL DEFAULT 0,
        reason TEXT NOT NULL DEFAULT '',
        next_try REAL NOT NULL DEFAULT 0,
        running INTEGER NOT NULL DEFAULT 0
    ) STRICT
    """,
    "CREATE TABLE wanted (content INTEGER PRIMARY KEY, at REAL NOT NULL) STRICT",
    """
    CREATE VIEW folded AS
    SELECT content.id AS id, fold(content.subject) AS subject, fold(people(content.sender)) AS sender,
        fold(people(content.recipient)) AS recipient,
        fold(people(content.cc) || ' ' || people(content.bcc)) AS copied,
        fold(coalesce(body.text, '')) AS body
    FROM content LEFT JOIN body ON body.content = content.id
    WHERE content.state >= 2
    """,
    """
    CREATE VIRTUAL TABLE fts USING fts5 (
        subject, sender, recipient, copied, body, content='folded', content_rowid='id', tokenize='ascii'
    )
    """,
    """
    CREATE TABLE word (
        id INTEGER PRIMARY KEY,
        term TEXT NOT NULL UNIQUE,
        documents INTEGER NOT NULL,
        subjects INTEGER NOT NULL,
        people INTEGER NOT NULL
    ) STRICT
    """,
    "CREATE INDEX word_people ON word (term, people) WHERE people > 0",
    """
    CREATE VIRTUAL TABLE word_trigram USING fts5 (
        term, content='word', content_rowid='id', columnsize=0, tokenize='trigram case_sensitive 1'
    )
    """,
)
