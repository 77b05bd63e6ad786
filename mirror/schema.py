"""The tables of a mirror: the only DDL. A shipped migration is never edited; a change is one more at the end.

mirror.first_schema has the first one.

content id   minutes since 2000 of the INTERNALDATE, shifted left by SPILL_BITS; a full minute spills upward. So
             "newest first" is a reverse walk of the primary key, and the id is the default page cursor.
message uid  the upstream uid within the folder's current uidvalidity; below 0 while a changed UIDVALIDITY is worked
             through and the message has none yet.
message state  its content's, kept equal by triggers, so that what a folder lacks is an index of its own.
state        mirror.mirrored.State: 0 enumerated, 1 headers, 2 text (indexed), 3 html too.
form         the HTML of contents that have some. What was stored before there was this table is in body.html.
normalised   the small well-formed HTML that waits for the sanitizer; never served, gone at state 3.
email_id     what the server calls the mail itself (RFC 8474 EMAILID, X-GM-MSGID): a copy of it is not fetched again.
distrusted   {capability: [seconds since 1970 until which it is not used, why]}: what the server announced and broke.
fetched      octets received on the UTC day fetched_on (days since 1970); fetched_ever: since the mirror was made.
fetch_rate   octets of texts a second, when texts were fetched last. daily_bytes: the day's limit, 0 for none.
mirrored_from  the lowest content id that is fetched (sync.since).
closed_until  0, or the server refuses to open the folder, and until then it is not asked again (seconds since 1970).
resets       changes of UIDVALIDITY in a row, without a pass between them that found it unchanged; reset_at: the last.
running      how a parse was under way: 0 not, 1 in a batch, 4 among few, 2 alone; 3 a batch was interrupted, so among
             few next time; 5 that was interrupted too, so alone.
fts          external content over the view `folded`: fold() of the clean text, tokenizer ascii. The body is the first
             column: FTS5 writes two octets less for each of its words.
word         every distinct word of fts but for those in fresh_words, and how many contents have it at all (about), in
             the subject, among the people; word_trigram finds words by three letters of them, and says nothing of where
             these stand.
trigram      the trigrams that word_trigram holds, read from it.
fresh_words  a row for each transaction of a backlog: words of fts that word may lack, with blanks around each (amount:
             how many); those that stand in subjects and among people; counts, as JSON, to be added to word's (subjects,
             people, documents).
line         FTS5 without content: pieces of the words in header lines (mirror.grams) of contents from mirror.lines_from
             on, which is lower than every id when none is left to take in.
universal    words that nearly every text has, up to 12, and those that turned out not to be (lacking_from NULL); '' is
             there until an older mirror's texts were looked at. seen: texts that told; lacked: of these without it.
lacking      the contents from lacking_from on whose text lacks a universal word (mirror.query.lacking).
keyword      which messages of a folder have a keyword, kept by triggers; system flags have the partial indexes below.
content_skewed and content_spill hold the exceptions to "a content's id follows from its dates", so that searches by
             date need not walk everything. message_unseen … message_draft: the messages that a search by flag wants.
"""

import sqlite3
from collections.abc import Collection
from functools import cache

from sqlite_utils import Database, Migrations

from mirror.errors import MirrorTooNew
from mirror.first_schema import FIRST_TABLES
from mirror.migrating import migrate_file, names_of

SPILL_BITS = 3

migrations = Migrations("mirror")


@migrations()
def create_mirror(db: Database) -> None:
    """Folders, messages over shared content, bodies, and the full-text index."""
    for statement in FIRST_TABLES:
        db.execute(statement)


@migrations()
def keep_attachments(db: Database) -> None:
    """Attachments kept offline: files by digest, and which part of which content each is."""
    db.execute("CREATE TABLE blob (digest BLOB PRIMARY KEY, size INTEGER NOT NULL) STRICT")
    db.execute(
        "CREATE TABLE attachment_blob ("
        " content INTEGER NOT NULL REFERENCES content (id) ON DELETE CASCADE,"
        " part TEXT NOT NULL,"
        " digest BLOB NOT NULL REFERENCES blob (digest),"
        " PRIMARY KEY (content, part)) STRICT, WITHOUT ROWID"
    )
    db.execute("CREATE INDEX attachment_blob_digest ON attachment_blob (digest)")
    db.execute("CREATE INDEX content_outdated ON content (content_version, id) WHERE state >= 2")


@migrations()
def index_pending_by_folder(db: Database) -> None:
    """What each folder still lacks, in order, without a walk over the others; what a server calls mails and folders."""
    for statement in _SECOND:
        db.execute(statement)


_SECOND = (
    "ALTER TABLE message ADD COLUMN state INTEGER NOT NULL DEFAULT 0",
    "UPDATE message SET state = (SELECT state FROM content WHERE content.id = message.content)",
    "CREATE INDEX message_textless ON message (folder, content) WHERE state < 2",
    "CREATE INDEX message_headerless ON message (folder, content) WHERE state < 1",
    """
    CREATE TRIGGER message_state_of_new AFTER INSERT ON message
    WHEN new.state <> (SELECT state FROM content WHERE id = new.content)
    BEGIN
        UPDATE message SET state = (SELECT state FROM content WHERE id = new.content) WHERE id = new.id;
    END
    """,
    """
    CREATE TRIGGER message_state_of_merged AFTER UPDATE OF content ON message
    BEGIN
        UPDATE message SET state = (SELECT state FROM content WHERE id = new.content) WHERE id = new.id;
    END
    """,
    """
    CREATE TRIGGER message_state_of_filled AFTER UPDATE OF state ON content WHEN new.state <> old.state
    BEGIN
        UPDATE message SET state = new.state WHERE content = new.id;
    END
    """,
    "CREATE INDEX body_normalised ON body (content) WHERE normalised IS NOT NULL",
    "ALTER TABLE content ADD COLUMN email_id TEXT",
    "CREATE INDEX content_email_id ON content (email_id) WHERE email_id IS NOT NULL",
    "ALTER TABLE folder ADD COLUMN mailbox_id TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE mirror ADD COLUMN rung TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE mirror ADD COLUMN distrusted TEXT NOT NULL DEFAULT '{}'",
    "ALTER TABLE mirror ADD COLUMN fetched_on INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE mirror ADD COLUMN fetched INTEGER NOT NULL DEFAULT 0",
)


@migrations()
def pack_index(db: Database) -> None:
    """An index a third smaller, to be made anew from the texts; messages by keyword."""
    for statement in _THIRD:
        db.execute(statement)


_THIRD = (
    "DROP TABLE fts",
    "DROP TABLE word_trigram",
    "DELETE FROM word",
    """
    CREATE VIRTUAL TABLE fts USING fts5 (
        body, subject, sender, recipient, copied,
        content='folded', content_rowid='id', columnsize=0, tokenize='ascii'
    )
    """,
    """
    CREATE VIRTUAL TABLE word_trigram USING fts5 (
        term, content='word', content_rowid='id', columnsize=0, detail=none, tokenize='trigram case_sensitive 1'
    )
    """,
    "UPDATE mirror SET fold_version = 0",
    """
    CREATE TABLE keyword (
        folder INTEGER NOT NULL,
        name TEXT NOT NULL,
        content INTEGER NOT NULL,
        message INTEGER NOT NULL,
        PRIMARY KEY (folder, name, content, message)
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TRIGGER message_keyword_new AFTER INSERT ON message WHEN new.flags GLOB '*[[ ]"[^\\]*'
    BEGIN
        INSERT OR IGNORE INTO keyword SELECT new.folder, lower(value), new.content, new.id
        FROM json_each(new.flags) WHERE value NOT GLOB '\\*';
    END
    """,
    """
    CREATE TRIGGER message_keyword_changed AFTER UPDATE OF id, folder, content, flags ON message
    WHEN old.flags GLOB '*[[ ]"[^\\]*' OR new.flags GLOB '*[[ ]"[^\\]*'
    BEGIN
        DELETE FROM keyword WHERE (folder, content, message) = (old.folder, old.content, old.id)
            AND name IN (SELECT lower(value) FROM json_each(old.flags));
        INSERT OR IGNORE INTO keyword SELECT new.folder, lower(value), new.content, new.id
        FROM json_each(new.flags) WHERE value NOT GLOB '\\*';
    END
    """,
    """
    CREATE TRIGGER message_keyword_gone AFTER DELETE ON message WHEN old.flags GLOB '*[[ ]"[^\\]*'
    BEGIN
        DELETE FROM keyword WHERE (folder, content, message) = (old.folder, old.content, old.id)
            AND name IN (SELECT lower(value) FROM json_each(old.flags));
    END
    """,
    """
    INSERT INTO keyword SELECT message.folder, lower(each.value), message.content, message.id
    FROM message JOIN json_each(message.flags) AS each WHERE each.value NOT GLOB '\\*'
    """,
)


@migrations()
def count_octets_and_refusals(db: Database) -> None:
    """What an account may fetch in a day and has fetched; folders that cannot be opened or are renumbered."""
    for statement in _FOURTH:
        db.execute(statement)


_FOURTH = (
    "ALTER TABLE mirror ADD COLUMN fetched_ever INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE mirror ADD COLUMN fetch_rate REAL NOT NULL DEFAULT 0",
    "ALTER TABLE mirror ADD COLUMN daily_bytes INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE mirror ADD COLUMN mirrored_from INTEGER NOT NULL DEFAULT -4611686018427387904",
    "ALTER TABLE folder ADD COLUMN closed_until REAL NOT NULL DEFAULT 0",
    "ALTER TABLE folder ADD COLUMN resets INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE folder ADD COLUMN reset_at REAL NOT NULL DEFAULT 0",
)


@migrations()
def clean_up_weekly(db: Database) -> None:
    """When the mirror was last cleaned up, and how many contents have gone since."""
    db.execute("ALTER TABLE mirror ADD COLUMN cleaned_at REAL NOT NULL DEFAULT 0")
    db.execute("ALTER TABLE mirror ADD COLUMN swept INTEGER NOT NULL DEFAULT 1")


@migrations()
def remember_where_departed_were(db: Database) -> None:
    """The folder that a departed message was in; 0 for those that left before this."""
    db.execute("ALTER TABLE departed ADD COLUMN folder INTEGER NOT NULL DEFAULT 0")


@migrations()
def remember_why_an_account_rests(db: Database) -> None:
    """Until when a server wants to be left alone; which login it refused, by a salted digest, and how often."""
    for statement in _FIFTH:
        db.execute(statement)


_FIFTH = (
    "ALTER TABLE mirror ADD COLUMN throttled_until REAL NOT NULL DEFAULT 0",
    "ALTER TABLE mirror ADD COLUMN logins_refused INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE mirror ADD COLUMN refused_at REAL NOT NULL DEFAULT 0",
    "ALTER TABLE mirror ADD COLUMN refused_login BLOB",
)


@migrations()
def index_header_lines(db: Database) -> None:
    """An index of header lines, filled from the newest content down while the mirror is in use."""
    for statement in _SIXTH:
        db.execute(statement)


_SIXTH = (
    "CREATE VIRTUAL TABLE line USING fts5 (grams, content='', columnsize=0, detail=none, tokenize='ascii')",
    "ALTER TABLE mirror ADD COLUMN lines_from INTEGER NOT NULL DEFAULT -4611686018427387904",
    "UPDATE mirror SET lines_from = 4611686018427387904",
)


@migrations()
def index_texts_beyond_ascii(db: Database) -> None:
    """Which texts are more than ASCII, so that a walk need not measure each: SQLite alone tests all the others."""
    db.execute("CREATE INDEX body_beyond_ascii ON body (content) WHERE length(text) <> length(CAST(text AS BLOB))")


@migrations()
def hold_every_second_piece_of_header_lines(db: Database) -> None:
    """The index of header lines holds other pieces of words, and fewer: filled anew while the mirror is in use."""
    db.execute("INSERT INTO line (line) VALUES ('delete-all')")
    db.execute("UPDATE mirror SET lines_from = 4611686018427387904")


@migrations()
def tell_trigrams(db: Database) -> None:
    """Which trigrams the words have, as a table that is read from their index and takes no room."""
    db.execute("CREATE VIRTUAL TABLE trigram USING fts5vocab(word_trigram, row)")


@migrations()
def put_fresh_words_aside(db: Database) -> None:
    """Words that a backlog brings, before the table of words takes them in."""
    db.execute(
        "CREATE TABLE fresh_words ("
        " id INTEGER PRIMARY KEY,"
        " amount INTEGER NOT NULL,"
        " words TEXT NOT NULL,"
        " subjects TEXT NOT NULL,"
        " people TEXT NOT NULL,"
        " counts TEXT NOT NULL"
        ") STRICT"
    )


@migrations()
def tell_who_lacks_a_word(db: Database) -> None:
    """Which contents lack a word that nearly all have, filled while the mirror is in use."""
    for statement in _SEVENTH:
        db.execute(statement)


_SEVENTH = (
    """
    CREATE TABLE universal (
        id INTEGER PRIMARY KEY,
        term TEXT NOT NULL UNIQUE,
        lacking_from INTEGER,
        seen INTEGER NOT NULL,
        lacked INTEGER NOT NULL
    ) STRICT
    """,
    """
    CREATE TABLE lacking (
        word INTEGER NOT NULL,
        content INTEGER NOT NULL,
        pairs INTEGER NOT NULL,
        PRIMARY KEY (word, content)
    ) STRICT, WITHOUT ROWID
    """,
    """
    INSERT INTO universal (term, lacking_from, seen, lacked)
    SELECT '', 4611686018427387904, 0, 0 FROM content LIMIT 1
    """,
)


@migrations()
def index_all_beyond_ascii(db: Database) -> None:
    """Which envelopes and header lines are more than ASCII, or may be in JSON's own way, as of texts."""
    for statement in _EIGHTH:
        db.execute(statement)


_EIGHTH = (
    """
    CREATE INDEX body_lines_beyond_ascii ON body (content)
    WHERE length(headers) <> length(CAST(headers AS BLOB)) OR instr(headers, '\\u') > 0
    """,
    """
    CREATE INDEX content_beyond_ascii ON content (id)
    WHERE length(subject || sender || recipient || cc || bcc)
        <> length(CAST(subject || sender || recipient || cc || bcc AS BLOB))
        OR instr(subject || sender || recipient || cc || bcc, '\\u') > 0
    """,
)


@migrations()
def keep_html_apart(db: Database) -> None:
    """The HTML of mails in a table of its own: it comes later, and to put it into `body` wrote all of that anew."""
    for statement in _FORMS:
        db.execute(statement)


_FORMS = (
    """
    CREATE TABLE form (
        content INTEGER PRIMARY KEY REFERENCES content (id) ON DELETE CASCADE,
        html BLOB,
        normalised BLOB
    ) STRICT
    """,
    "INSERT INTO form (content, normalised) SELECT content, normalised FROM body WHERE normalised IS NOT NULL",
    "UPDATE body SET normalised = NULL WHERE normalised IS NOT NULL",
    "DROP INDEX body_normalised",
    "CREATE INDEX form_normalised ON form (content) WHERE normalised IS NOT NULL",
)


def migrate(connection: sqlite3.Connection) -> None:
    """Bring a mirror's file to the newest schema. Raises MirrorTooNew when a newer program wrote it."""
    migrate_file(connection, migrations, _too_new)


def is_outdated(connection: sqlite3.Connection) -> bool:
    """Whether a mirror's file has an older schema than this program reads: its keeper brings it up to date."""
    rows = connection.execute("SELECT name FROM _sqlite_migrations WHERE migration_set = 'mirror'")
    return not _known() <= {row[0] for row in rows}


@cache
def _known() -> frozenset[str]:
    return names_of(migrations)


def _too_new(unknown: Collection[str]) -> MirrorTooNew:
    return MirrorTooNew(
        f"this mirror was written by a newer postmirror (it has {', '.join(sorted(unknown))}): upgrade the "
        "program, or delete the mirror's folder to build it again from upstream"
    )
