r"""IMAP SEARCH criteria (RFC 3501 6.4.4, with YOUNGER and OLDER of RFC 5032).

    criteria   = ["CHARSET" SP astring SP] key *(SP key)       neighbours mean AND
    key        = "ALL" / "ANSWERED" / "BCC" SP text / "BEFORE" SP date / ... / "OR" SP key SP key / "NOT" SP key
               / "(" key *(SP key) ")" / sequence-set / "UID" SP virtual-uid *("," virtual-uid)
    text       = atom / quoted
    date       = 1-Feb-2024, also within double quotes

Keys are read in any letter case, and more than one blank is taken for one. RECENT and NEW match nothing and OLD
everything, because a mirror has no sessions. UID takes the ids that clients see, never upstream's. HEADER with the name
of a field that has its own key (From, To, Cc, Bcc, Subject) is that key. A message without a Date header matches none
of SENTBEFORE, SENTON and SENTSINCE, as on mail servers. Literals and control characters are refused.
"""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime

from mirror.errors import QueryError
from mirror.query.suggest import criteria_suggestion
from mirror.query.tree import (
    All,
    Any,
    Budget,
    Contains,
    Field,
    Flagged,
    HeaderContains,
    Node,
    OneOf,
    Positions,
    Query,
    Received,
    ReceivedAt,
    Relation,
    Sent,
    Size,
    TextContains,
    negated,
)

EXAMPLE = 'FROM "alice" SUBJECT "monthly report" SINCE 1-Feb-2024 UNSEEN'

Resolve = Callable[[str], int | None]
"""The message id behind a virtual uid, or None for one that names no message."""

_TOKEN = re.compile(r'"(?:\\[\\"]|[^\\"])*"|[()]|[^\x00-\x20\x7f()"][^\x00-\x20\x7f()]*')
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ATOM = re.compile(r'[^\x00-\x20\x7f(){%*"\\]+')
_NUMBER = re.compile(r"[0-9]{1,10}")
_PLACE = r"(?:[1-9][0-9]{0,9}|\*)"
_PLACES = f"{_PLACE}(?::{_PLACE})?"
_SEQUENCE = re.compile(f"{_PLACES}(?:,{_PLACES})*")
_UIDS = re.compile(r"[A-Za-z0-9_-]+(?:,[A-Za-z0-9_-]+)*")
_DATE = re.compile(r"([0-9]{1,2})-([A-Za-z]{3})-([0-9]{4})")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_CHARSETS = ("UTF-8", "UTF8", "US-ASCII")

_EVERYTHING = All(())
_NOTHING = Any(())
_ALONE: dict[str, Node] = {
    "ALL": _EVERYTHING,
    "ANSWERED": Flagged("\\Answered"),
    "DELETED": Flagged("\\Deleted"),
    "DRAFT": Flagged("\\Draft"),
    "FLAGGED": Flagged("\\Flagged"),
    "NEW": _NOTHING,
    "OLD": _EVERYTHING,
    "RECENT": _NOTHING,
    "SEEN": Flagged("\\Seen"),
    "UNANSWERED": negated(Flagged("\\Answered")),
    "UNDELETED": negated(Flagged("\\Deleted")),
    "UNDRAFT": negated(Flagged("\\Draft")),
    "UNFLAGGED": negated(Flagged("\\Flagged")),
    "UNSEEN": negated(Flagged("\\Seen")),
}
_FIELDS: dict[str, Field] = {"BCC": "bcc", "BODY": "body", "CC": "cc", "FROM": "from", "SUBJECT": "subject", "TO": "to"}
_RECEIVED: dict[str, Relation] = {"BEFORE": "<", "ON": "=", "SINCE": ">="}
_SENT: dict[str, Relation] = {"SENTBEFORE": "<", "SENTON": "=", "SENTSINCE": ">="}
_SIZES: dict[str, Relation] = {"LARGER": ">", "SMALLER": "<"}
_AGES: dict[str, Relation] = {"YOUNGER": ">=", "OLDER": "<"}


def parse_criteria(text: str, *, resolve: Resolve | None = None, now: datetime | None = None) -> Query:
    """The syntax tree of search criteria, newest received first.

    resolve: what UID's ids stand for; without it they name no message. now: what YOUNGER and OLDER count back from.
    Raises QueryError with the position, what could stand there, and the corrected criteria where the mistake is a
    likely one.
    """
    moment = int((now or datetime.now(UTC)).timestamp())
    try:
        return Query(_Parser(text, resolve or _nobody, moment).whole())
    except QueryError as error:
        raise QueryError(error.position, error.expected, _corrected(text)) from None


def _nobody(uid: str) -> int | None:
    del uid
    return None


def _corrected(text: str) -> str:
    suggestion = criteria_suggestion(text)
    if suggestion:
        try:
            _Parser(suggestion, _nobody, 0).whole()
        except QueryError:
            return EXAMPLE
    return suggestion or EXAMPLE


class _Parser:
    def __init__(self, text: str, resolve: Resolve, now: int) -> None:
        self._budget = Budget(text, EXAMPLE)
        self._resolve = resolve
        self._now = now
        self._tokens = _tokens(text)
        self._index = 0
        self._end = len(text)

    def whole(self) -> Node:
        if self._peek().upper() == "CHARSET":
            self._next("CHARSET")
            at, charset = self._position(), self._text("a character set such as UTF-8")
            if charset.upper() not in _CHARSETS:
                raise QueryError(at, "CHARSET UTF-8 (or no CHARSET at all: criteria are always Unicode)", EXAMPLE)
        nodes = [self._key()]
        while self._peek():
            nodes.append(self._key())
        return nodes[0] if len(nodes) == 1 else All(tuple(nodes))

    def _peek(self) -> str:
        return self._tokens[self._index][1] if self._index < len(self._tokens) else ""

    def _position(self) -> int:
        return self._tokens[self._index][0] if self._index < len(self._tokens) else self._end

    def _next(self, expected: str) -> str:
        token = self._peek()
        if not token:
            raise QueryError(self._end, expected, EXAMPLE)
        self._index += 1
        return token

    def _key(self) -> Node:
        at = self._position()
        self._budget.condition(at)
        word = self._next("a search key such as ALL, FROM, SUBJECT, SINCE or UNSEEN")
        if word == "(":
            return self._group(at)
        key = word.upper()
        if key in _ALONE:
            return _ALONE[key]
        if key in ("NOT", "OR"):
            return self._combined(key, at)
        node = self._with_argument(key, at)
        if node is not None:
            return node
        if _SEQUENCE.fullmatch(word):
            return _positions(word)
        raise QueryError(at, "a search key such as ALL, FROM, SUBJECT, SINCE or UNSEEN", EXAMPLE)

    def _group(self, at: int) -> Node:
        self._budget.enter(at)
        nodes = [self._key()]
        while self._peek() != ")":
            if not self._peek():
                raise QueryError(self._end, '")"', EXAMPLE)
            nodes.append(self._key())
        self._index += 1
        self._budget.leave()
        return nodes[0] if len(nodes) == 1 else All(tuple(nodes))

    def _combined(self, key: str, at: int) -> Node:
        self._budget.enter(at)
        node = negated(self._key()) if key == "NOT" else Any((self._key(), self._key()))
        self._budget.leave()
        return node

    def _with_argument(self, key: str, at: int) -> Node | None:
        match key:
            case "TEXT":
                return TextContains(self._text("a word, or text in double quotes"))
            case "HEADER":
                return self._header()
            case "KEYWORD":
                return Flagged(self._keyword())
            case "UNKEYWORD":
                return negated(Flagged(self._keyword()))
            case "UID":
                return self._uids()
        if key in _FIELDS:
            return Contains(_FIELDS[key], self._text("a word, or text in double quotes"))
        if key in _RECEIVED:
            return Received(_RECEIVED[key], self._date())
        if key in _SENT:
            return Sent(_SENT[key], self._date(), or_received=False)
        if key in _SIZES:
            return Size(_SIZES[key], self._number("a number of bytes"))
        if key in _AGES:
            return ReceivedAt(_AGES[key], self._now - self._number("a number of seconds"))
        return None

    def _header(self) -> Node:
        name = self._text("the name of a header")
        pattern = self._text("a word, or text in double quotes, to find in that header")
        if pattern and (field := _FIELDS.get(name.upper())) is not None and field != "body":
            return Contains(field, pattern)
        return HeaderContains(name, pattern)

    def _text(self, expected: str) -> str:
        at = self._position()
        token = self._next(expected)
        if token.startswith('"'):
            return _ESCAPE.sub(r"\1", token[1:-1])
        if _ATOM.fullmatch(token) is None:
            raise QueryError(at, f'{expected} (text with ( ) {{ % * " or \\ stands in double quotes)', EXAMPLE)
        return token

    def _keyword(self) -> str:
        at = self._position()
        token = self._next("a keyword")
        if _ATOM.fullmatch(token) is None:
            raise QueryError(at, "a keyword without quotes and backslash (system flags have keys: SEEN)", EXAMPLE)
        return token

    def _number(self, expected: str) -> int:
        at = self._position()
        token = self._next(expected)
        if _NUMBER.fullmatch(token) is None:
            raise QueryError(at, expected, EXAMPLE)
        return int(token)

    def _date(self) -> date:
        at = self._position()
        match = _DATE.fullmatch(self._next("a day such as 1-Feb-2024").strip('"'))
        if match is not None and match[2].lower() in _MONTHS:
            try:
                return date(int(match[3]), _MONTHS.index(match[2].lower()) + 1, int(match[1]))
            except ValueError:
                pass
        raise QueryError(at, "a day that exists, such as 1-Feb-2024", EXAMPLE)

    def _uids(self) -> Node:
        at = self._position()
        token = self._next("the uid of a message, or several with commas between them")
        if token.replace(",", "").replace(":", "").replace("*", "").isdecimal() or _UIDS.fullmatch(token) is None:
            raise QueryError(at, "uids as this server shows them (not numbers), with commas between them", EXAMPLE)
        return OneOf(frozenset(each for each in map(self._resolve, token.split(",")) if each is not None))


def _tokens(text: str) -> list[tuple[int, str]]:
    control = _CONTROL.search(text)
    if control is not None:
        raise QueryError(control.start(), "criteria on one line, without control characters", EXAMPLE)
    tokens: list[tuple[int, str]] = []
    at = 0
    after_blank = True
    while at < len(text):
        if text[at] == " ":
            at += 1
            after_blank = True
            continue
        match = _TOKEN.match(text, at)
        if match is None or (text[at] not in "()" and not after_blank):
            raise QueryError(at, "a blank between words, and quotes that are closed", EXAMPLE)
        if text[at] != '"' and match[0].startswith("{"):
            raise QueryError(at, "text in double quotes (a literal such as {5} has no place here)", EXAMPLE)
        tokens.append((at, match[0]))
        at = match.end()
        after_blank = match[0] in "()"
    return tokens


def _positions(token: str) -> Positions:
    ranges = []
    for part in token.split(","):
        first, _, last = part.partition(":")
        low = None if first == "*" else int(first)
        ranges.append((low, low if not last else None if last == "*" else int(last)))
    return Positions(tuple(ranges))
