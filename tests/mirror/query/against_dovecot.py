"""Generated IMAP criteria asked of Dovecot and of a mirror of the same mailbox, and why the two disagree where they do.

The mailbox is plain-text mail of the corpus whose text cleaning did not change. Of the keys, those that a mirror means
otherwise are left out: RECENT, NEW, OLD, UID and sequence sets.
"""

import email
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone

from mirror.content import read_content
from mirror.envelope import MAX_SEAL
from mirror.fold import fold_keeping_separators, holds_folded
from mirror.mirrored import MirroredMessage
from mirror.query.criteria import parse_criteria
from mirror.query.tree import Contains, Field, HeaderContains, Sent, TextContains, searchable
from tests.corpus import messages
from tests.servers.second_client import Incoming

FIRST_DAY = datetime(2024, 1, 1, tzinfo=UTC)
_DAYS = 40
_FLAGS = ("\\Seen", "\\Flagged", "\\Answered", "\\Deleted", "\\Draft", "$Forwarded", "todo")
_ZONES = tuple(timezone(timedelta(minutes=minutes)) for minutes in (0, 60, -300, 330, 840, -720))
_HEADERS = (
    "Received",
    "Message-ID",
    "X-Mailer",
    "List-Id",
    "Content-Type",
    "Reply-To",
    "From",
    "Subject",
    "To",
    "Date",
)
_OFTEN = (
    *("the", "re:", "spam", "http://", "@", ".com", "\\", '"'),
    *("é", "ß", "Über", "\uff21\uff22", "ﬁ", "会", "日本", "привет", "İ", "…"),
)
_MOST_OCTETS = 60_000
_HEADER_BLOCK = re.compile(rb"[!-9;-~]+:[^\r\n]*(?:\r\n(?:[ \t]+[^\s][^\r\n]*|[!-9;-~]+:[^\r\n]*))*")


def plain_mails(count: int, seed: int) -> list[Incoming]:
    """So many mails of the corpus, with flags, and received at borders of days."""
    rng = random.Random(seed)
    paths = list(messages())
    rng.shuffle(paths)
    found: list[Incoming] = []
    for path in paths:
        raw = re.sub(rb"\r?\n", b"\r\n", path.read_bytes())
        if len(raw) <= _MOST_OCTETS and b"\0" not in raw and _is_plain(raw):
            found.append(Incoming(raw, tuple(flag for flag in _FLAGS if rng.random() < 0.25), _moment(rng)))
        if len(found) == count:
            break
    return found


def _is_plain(raw: bytes) -> bool:
    header, _, body = raw.partition(b"\r\n\r\n")
    if not body or b"\r" in raw.replace(b"\r\n", b"") or not _HEADER_BLOCK.fullmatch(header):
        return False
    mail = email.message_from_bytes(raw)
    written_type = str(mail.get("Content-Type", "text/plain")).lower()
    if mail.is_multipart() or not written_type.startswith("text/plain"):
        return False
    content = read_content(raw)
    payload = mail.get_payload(decode=True)
    if content.findings or not isinstance(payload, bytes):
        return False
    try:
        written = payload.decode(mail.get_content_charset() or "utf-8")
    except (LookupError, UnicodeDecodeError):
        return False
    return _lines(written) == _lines(content.text)


def _lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def _moment(rng: random.Random) -> datetime:
    day = FIRST_DAY + timedelta(days=rng.randint(0, _DAYS))
    zone = rng.choice(_ZONES)
    if rng.random() < 0.5:
        return day.replace(tzinfo=zone) + timedelta(seconds=rng.choice((-61, -1, 0, 1, 59)))
    return (day + timedelta(minutes=rng.randint(0, 1439))).astimezone(zone)


@dataclass(frozen=True, slots=True)
class Criteria:
    """One search, and the conditions in it."""

    words: tuple["str | Text", ...]
    conditions: tuple["Criteria", ...] = ()

    def ours(self) -> str:
        """As our parser takes it."""
        return _spaced([_quoted(each.text) if isinstance(each, Text) else each for each in self.words])

    def theirs(self) -> bytes:
        """As it goes to a server."""
        return _spaced([each.written() if isinstance(each, Text) else each for each in self.words]).encode()


@dataclass(frozen=True, slots=True)
class Text:
    """A text to search for. is_literal: sent as one though it could be quoted."""

    text: str
    is_literal: bool = False

    def written(self) -> str:
        """Quoted, or as a literal."""
        if self.text.isascii() and not self.is_literal:
            return _quoted(self.text)
        return f"{{{len(self.text.encode())}+}}\r\n{self.text}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _spaced(words: Sequence[str]) -> str:
    return " ".join(words).replace("( ", "(").replace(" )", ")")


class Generator:
    """Criteria about these mails, the same for the same seed."""

    def __init__(self, mails: Sequence[Incoming], seed: int) -> None:
        self.rng = random.Random(seed)
        parsed = [email.message_from_bytes(mail.raw) for mail in mails]
        self._lines = [line for mail in mails for line in read_content(mail.raw).text.split("\n") if line.strip()]
        self._values = [(name, str(value)) for mail in parsed for name, value in mail.items()]

    def criteria(self, depth: int = 2) -> Criteria:
        """The next criteria."""
        self._conditions: list[Criteria] = []
        words = tuple(self._words(depth))
        return Criteria(words, tuple(self._conditions))

    def _words(self, depth: int) -> list[str | Text]:
        rng = self.rng
        if depth == 0 or rng.random() < 0.4:
            condition = self._condition()
            self._conditions.append(Criteria(tuple(condition)))
            return condition
        first, second = self._words(depth - 1), self._words(depth - 1)
        match rng.randrange(5):
            case 0:
                return ["NOT", *self._grouped(first)]
            case 1:
                return ["OR", *self._grouped(first), *self._grouped(second)]
            case 2:
                return ["(", *first, *second, ")"]
            case 3:
                return ["NOT", "(", *first, *second, ")"]
            case _:
                return [*first, *second]

    def _grouped(self, words: list[str | Text]) -> list[str | Text]:
        return ["(", *words, ")"]

    def _condition(self) -> list[str | Text]:
        rng = self.rng
        day = (FIRST_DAY + timedelta(days=rng.randint(-1, _DAYS + 1))).date()
        year = rng.choice((1998, 2002, 2002, 2003, 2012, 2024))
        sent = date(year, rng.randint(1, 12), rng.randint(1, 28)) if rng.random() < 0.8 else day
        written = f"{day.day}-{day:%b-%Y}"
        quoted = rng.choice((written, f'"{written}"'))
        match rng.randrange(12):
            case 0 | 1:
                return ["BODY", self._text(self._pattern(rng.choice(self._lines)))]
            case 2 | 3:
                return ["SUBJECT", self._text(self._pattern(self._value("subject")))]
            case 4:
                key = rng.choice(("FROM", "TO", "CC", "BCC"))
                return [key, self._text(self._pattern(self._value(key.lower())))]
            case 5:
                name = rng.choice(_HEADERS)
                return [
                    "HEADER",
                    name,
                    self._text(self._pattern(self._value(name.lower())) if rng.random() < 0.8 else ""),
                ]
            case 6:
                source = rng.choice(self._lines) if rng.random() < 0.5 else rng.choice(self._values)[1]
                return ["TEXT", self._text(self._pattern(source))]
            case 7:
                return [rng.choice(("BEFORE", "ON", "SINCE")), quoted]
            case 8:
                return [rng.choice(("SENTBEFORE", "SENTON", "SENTSINCE")), f"{sent.day}-{sent:%b-%Y}"]
            case 9:
                return [rng.choice(("KEYWORD", "UNKEYWORD")), rng.choice(("todo", "$FORWARDED", "none"))]
            case 10:
                return [rng.choice(("LARGER", "SMALLER")), str(rng.randint(300, 8_000))]
            case _:
                flag = rng.choice(("SEEN", "FLAGGED", "ANSWERED", "DELETED", "DRAFT"))
                return [rng.choice((flag, "UN" + flag, "ALL", flag.lower()))]

    def _value(self, name: str) -> str:
        values = [value for other, value in self._values if other.lower() == name]
        return self.rng.choice(values) if values else "x"

    def _text(self, text: str) -> Text:
        return Text(text, self.rng.random() < 0.05)

    def _pattern(self, source: str) -> str:
        rng = self.rng
        if rng.random() < 0.12:
            return rng.choice(_OFTEN)
        source = re.sub(r"[\x00-\x1f\x7f\ufffd\ud800-\udfff]+.*", "", source) or "x"
        start = rng.randrange(len(source))
        text = source[start : start + rng.randint(1, 12)].strip() or "e"
        return rng.choice((text, text, text.upper(), text.lower()))


def kind_of(condition: Criteria, message: MirroredMessage, raw: bytes, *, is_ours: bool) -> str:
    """Why one side finds a message by one condition and the other does not, or "" when nothing explains it.

    is_ours: whether it is the mirror that finds it.
    """
    node = parse_criteria(condition.ours()).filter
    match node:
        case Sent():
            written = email.message_from_bytes(raw).get_all("Date", [])
            return "" if len(written) == 1 and _DATE.fullmatch(str(written[0]).strip()) else DATE
        case Contains(field, pattern) if field in ("from", "to", "cc", "bcc"):
            texts, is_address = [searchable(field, message) or ""], True
        case Contains(field, pattern):
            texts, is_address = [searchable(field, message) or ""], False
        case HeaderContains(name, pattern):
            texts = [value for other, value in message.headers or () if other.lower() == name.lower()]
            is_address = name.lower() in _ADDRESSES
        case TextContains(pattern):
            people = [searchable(field, message) or "" for field in _PEOPLE]
            is_address = any(pattern.lower() in each.lower() for each in people)
            texts = [*people, message.subject, message.text or "", *(": ".join(each) for each in message.headers or ())]
        case _:
            return ""
    if is_ours and not any(pattern.lower() in text.lower() for text in texts):
        return FOLDING
    if is_ours and isinstance(node, Contains | TextContains | HeaderContains) and _UNKNOWN_CHARSET.search(raw):
        return CHARSET
    if is_address or (not is_ours and isinstance(node, TextContains) and _is_in(pattern, raw, _ADDRESSES)):
        return ADDRESSES
    if isinstance(node, TextContains | HeaderContains):
        cut = frozenset(name.lower() for name, value in message.headers or () if len(value) == MAX_SEAL)
        if not is_ours and cut and _is_in(pattern, raw, cut):
            return CUT
        if _is_in(pattern, raw) != is_ours and _is_in(pattern, raw, blank=" ") == is_ours:
            return BLANKS
    return ""


def _is_in(pattern: str, raw: bytes, names: frozenset[str] | None = None, *, blank: str = "") -> bool:
    """Whether a header line has a pattern. blank: what all white space between two words is replaced by."""
    folded = fold_keeping_separators(pattern)
    lines = re.sub(rb"\r\n(?=[ \t])", b"", raw.partition(b"\r\n\r\n")[0]).decode("utf-8", "replace").split("\r\n")
    chosen = [line for line in lines if not names or line.partition(":")[0].lower() in names]
    if blank:
        chosen = [re.sub(r"\s+", blank, line.replace(":", ": ", 1)) for line in chosen]
    return any(holds_folded(line, folded) for line in chosen)


FOLDING = "accents, compatibility forms and ß: we fold them, Dovecot only letter case"
ADDRESSES = "addresses: we search them as they are shown, Dovecot as the header writes them"
CONTRADICTION = "Dovecot contradicts itself: its answers to the conditions, taken together, are ours"
CUT = "signatures and keys in headers: we keep their first 256 characters"
CHARSET = "encoded words in a charset that Dovecot does not read"
BLANKS = "white space in headers: a run of it is one blank for us, Dovecot keeps tabs and what folding left"
DATE = "Date headers that are missing, before 1970, or not as RFC 5322 writes them"
_UNKNOWN_CHARSET = re.compile(rb"(?i)=\?ks_c_5601-1987\?")
_ADDRESSES = frozenset({"from", "to", "cc", "bcc", "reply-to", "sender"})
_PEOPLE: tuple[Field, ...] = ("from", "to", "cc", "bcc")
_DATE = re.compile(
    r"(?:[A-Z][a-z]{2}, +)?\d{1,2} +[A-Z][a-z]{2} +(?:19[7-9]\d|20\d\d) +\d\d:\d\d(?::\d\d)? +[+-]\d{4}"
    r"(?: +\([^()]*\))?"
)
