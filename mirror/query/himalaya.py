r"""The Himalaya search query language.

    query    = ws ( filter / [filter] "order by" sort ) ws     split at the last literal "order by"
    filter   = and *( "or" 1*SP and )                          lowest
    and      = not *( "and" 1*SP not )
    not      = *( "not" 1*SP ) atom                            highest
    atom     = ( cond / "(" filter ")" ) *SP                   no blank right after "("
    cond     = ("date" / "before" / "after") 1*SP date
             / ("from" / "to" / "subject" / "body") 1*SP pattern
             / "flag" 1*SP unquoted
    date     = YYYY-MM-DD / YYYY/MM/DD / DD-MM-YYYY / DD/MM/YYYY
    pattern  = quoted / unquoted                               quoted first; once it matched there is no way back
    quoted   = DQUOTE *( "\" ("\" / DQUOTE) / any but "\" and DQUOTE ) DQUOTE
    unquoted = 1*( "\" ("\" / SP / "(" / ")") / any but "\" SP "(" ")" )
    sort     = [ sorter *( 1*SP sorter ) ]
    sorter   = ("date" / "from" / "to" / "subject") [ 1*SP ("asc" / "desc") ]

Only U+0020 separates, keywords are lower case, everything must be consumed. Unlike Himalaya, quotes and escapes are
not part of the pattern, and years have four digits.
"""

import re
from datetime import date

from mirror.errors import QueryError
from mirror.query.suggest import himalaya_suggestion
from mirror.query.tree import (
    SYSTEM_FLAGS,
    All,
    Any,
    Budget,
    Contains,
    Field,
    Flagged,
    Node,
    Query,
    Relation,
    Sent,
    Sorter,
    SortKey,
    negated,
)

EXAMPLE = 'from alice and subject "monthly report" and after 2024-01-31 and not flag seen order by date desc'

_RELATIONS: dict[str, Relation] = {"date": "=", "before": "<", "after": ">"}
_FIELDS: dict[str, Field] = {"from": "from", "to": "to", "subject": "subject", "body": "body"}
_SORT_KEYS: dict[str, SortKey] = {"date": "date", "from": "from", "to": "to", "subject": "subject"}
_ALIASES = {"replied": "answered"}

_CONDITION = re.compile(r"(date|before|after|from|to|subject|body|flag)( *)")
_DATES = (
    re.compile(r"(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})", re.ASCII),
    re.compile(r"(?P<year>\d{4})/(?P<month>\d{1,2})/(?P<day>\d{1,2})", re.ASCII),
    re.compile(r"(?P<day>\d{1,2})-(?P<month>\d{1,2})-(?P<year>\d{4})", re.ASCII),
    re.compile(r"(?P<day>\d{1,2})/(?P<month>\d{1,2})/(?P<year>\d{4})", re.ASCII),
)
_QUOTED = re.compile(r'"((?:\\[\\"]|[^\\"])*)"')
_UNQUOTED = re.compile(r"(?:\\[\\ ()]|[^\\ ()])+")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_A_CONDITION = (
    'a condition (from, to, subject, body, date, before, after or flag, then a blank and its value), "not" or "("'
)


def parse_himalaya(text: str) -> Query:
    """The syntax tree of a query.

    Raises QueryError with the position, what could stand there, and the corrected query where the mistake is a likely
    one.
    """
    try:
        return _parse(text)
    except QueryError as error:
        raise QueryError(error.position, error.expected, _corrected(text)) from None


def _corrected(text: str) -> str:
    suggestion = himalaya_suggestion(text)
    if suggestion:
        try:
            _parse(suggestion)
        except QueryError:
            return EXAMPLE
    return suggestion or EXAMPLE


def _parse(text: str) -> Query:
    start = len(text) - len(text.lstrip())
    stripped = text.strip()
    split = stripped.rfind("order by")
    if split < 0:
        return Query(_Parser(stripped, start).whole())
    order = _parse_order(stripped[split + len("order by") :], start + split + len("order by"))
    condition = _Parser(stripped[:split], start).whole() if stripped[:split].strip() else None
    return Query(condition, order)


def _parse_order(text: str, start: int) -> tuple[Sorter, ...]:
    sorters: list[Sorter] = []
    may_have_direction = False
    for word in re.finditer("[^ ]+", text):
        if word[0] in _SORT_KEYS:
            sorters.append(Sorter(_SORT_KEYS[word[0]]))
            may_have_direction = True
        elif may_have_direction and word[0] in ("asc", "desc"):
            sorters[-1] = Sorter(sorters[-1].key, descending=word[0] == "desc")
            may_have_direction = False
        else:
            direction = ', "asc" or "desc"' if may_have_direction else ""
            raise QueryError(start + word.start(), f'"date", "from", "to" or "subject"{direction}', EXAMPLE)
        if len(sorters) > _MAX_SORTERS:
            raise QueryError(start + word.start(), f"at most {_MAX_SORTERS} sort keys", EXAMPLE)
    return tuple(sorters)


_MAX_SORTERS = 8


class _Parser:
    def __init__(self, text: str, start: int) -> None:
        self._text = text
        self._start = start
        self._at = 0
        self._budget = Budget(text, EXAMPLE)

    def whole(self) -> Node:
        node = self._filter()
        if self._at < len(self._text):
            raise self._expected('"and", "or" or "order by" between conditions, or the end of the query')
        return node

    def _expected(self, what: str) -> QueryError:
        return QueryError(self._start + self._at, what, EXAMPLE)

    def _filter(self) -> Node:
        nodes = [self._and()]
        while self._operator("or"):
            nodes.append(self._and())
        return nodes[0] if len(nodes) == 1 else Any(tuple(nodes))

    def _and(self) -> Node:
        nodes = [self._not()]
        while self._operator("and"):
            nodes.append(self._not())
        return nodes[0] if len(nodes) == 1 else All(tuple(nodes))

    def _operator(self, word: str) -> bool:
        if not self._text.startswith(word, self._at):
            return False
        if not self._text.startswith(" ", self._at + len(word)):
            self._at += len(word)
            raise self._expected(f'a blank after "{word}" and then {_A_CONDITION}')
        self._at += len(word)
        self._blanks()
        return True

    def _not(self) -> Node:
        is_negated = False
        while self._text.startswith("not ", self._at):
            self._at += len("not ")
            self._blanks()
            is_negated = not is_negated
        node = self._atom()
        return negated(node) if is_negated else node

    def _atom(self) -> Node:
        if self._text.startswith("(", self._at):
            self._budget.enter(self._start + self._at)
            self._at += 1
            node = self._filter()
            if not self._text.startswith(")", self._at):
                raise self._expected('")", "and" or "or"')
            self._at += 1
            self._budget.leave()
        else:
            node = self._condition()
        self._blanks()
        return node

    def _condition(self) -> Node:
        match = _CONDITION.match(self._text, self._at)
        if match is None:
            raise self._expected(_A_CONDITION)
        self._budget.condition(self._start + self._at)
        self._at = match.end()
        word = match[1]
        if not match[2]:
            raise self._expected(f'a blank and a value after "{word}"')
        if word in _RELATIONS:
            return Sent(_RELATIONS[word], self._date(), or_received=True)
        if word == "flag":
            return Flagged(_flag(self._unquoted("a flag such as seen, answered, flagged, deleted, draft or a keyword")))
        return Contains(_FIELDS[word], self._pattern())

    def _date(self) -> date:
        for form in _DATES:
            if match := form.match(self._text, self._at):
                try:
                    day = date(int(match["year"]), int(match["month"]), int(match["day"]))
                except ValueError:
                    continue
                self._at = match.end()
                return day
        raise self._expected("a day that exists, as YYYY-MM-DD or DD/MM/YYYY, without quotes and without a time")

    def _pattern(self) -> str:
        if match := _QUOTED.match(self._text, self._at):
            self._at = match.end()
            return _ESCAPE.sub(r"\1", match[1])
        return self._unquoted('a word, or text in double quotes (inside them only \\" and \\\\ are escapes)')

    def _unquoted(self, what: str) -> str:
        match = _UNQUOTED.match(self._text, self._at)
        if match is None:
            raise self._expected(what)
        self._at = match.end()
        return _ESCAPE.sub(r"\1", match[0])

    def _blanks(self) -> None:
        while self._text.startswith(" ", self._at):
            self._at += 1


def _flag(name: str) -> str:
    lower = name.lower()
    return SYSTEM_FLAGS.get("\\" + _ALIASES.get(lower, lower), name)
