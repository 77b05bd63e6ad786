"""The query that was probably meant, for the mistakes that people and language models make."""

import re
from datetime import date, timedelta

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_TOKEN = re.compile(
    r"""\s*(?:
    (?P<open>\()|(?P<close>\))|(?P<comma>,)
    |(?P<and>&&?)|(?P<or>\|\|?)
    |(?P<minus>[-!](?=[A-Za-z(]))
    |(?P<key>[A-Za-z_]+)\s*(?P<colon>[:=]|>=?|<=?)\s*
    |"(?P<quoted>(?:\\.|[^"\\])*)"?
    |'(?P<single>[^']*)'
    |(?P<word>(?:\\.|[^\s()"])+)
    )""",
    re.VERBOSE | re.DOTALL,
)
_DAY = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?:[T ].*)?", re.ASCII | re.DOTALL)
_PATTERN_KEYS = {
    "from": "from",
    "sender": "from",
    "to": "to",
    "recipient": "to",
    "subject": "subject",
    "title": "subject",
    "body": "body",
    "text": "body",
    "content": "body",
    "contains": "body",
}
_DATE_KEYS = {
    "date": "date",
    "on": "date",
    "before": "before",
    "until": "before",
    "after": "after",
    "newer": "after",
    "older": "before",
    "since": "since",
}
_FLAGS = {
    "seen": "flag seen",
    "read": "flag seen",
    "unread": "not flag seen",
    "unseen": "not flag seen",
    "flagged": "flag flagged",
    "starred": "flag flagged",
    "unflagged": "not flag flagged",
    "answered": "flag answered",
    "replied": "flag answered",
    "unanswered": "not flag answered",
    "deleted": "flag deleted",
    "draft": "flag draft",
}
_FLAG_KEYS = ("flag", "is", "flags", "keyword", "label")
_UNKNOWN = re.compile(r"(?:^|[\s(])(?:cc|bcc|larger|smaller|size|has|header|filename)[\s:]", re.IGNORECASE)
_ORDER = re.compile(r"\border\s+by\b(.*)$", re.IGNORECASE | re.DOTALL)
_SORT_WORDS = ("date", "from", "to", "subject", "asc", "desc")
_CRITERIA_KEYS = tuple("""
    ALL ANSWERED BCC BEFORE BODY CC CHARSET DELETED DRAFT FLAGGED FROM HEADER KEYWORD LARGER NEW NOT OLD OLDER ON OR
    RECENT SEEN SENTBEFORE SENTON SENTSINCE SINCE SMALLER SUBJECT TEXT TO UID UNANSWERED UNDELETED UNDRAFT UNFLAGGED
    UNKEYWORD UNSEEN YOUNGER
    """.split())  # fmt: skip  # noqa: SIM905 - shorter to read
_LONGEST = 2_000


def himalaya_suggestion(text: str) -> str:
    """A query to show as the corrected one, or "" when nothing comes to mind. It may still be invalid."""
    if len(text) > _LONGEST or _UNKNOWN.search(text):
        return ""
    order = _ORDER.search(text)
    words = re.findall(r"[a-z]+", order[1].lower()) if order else []
    sort = " ".join(["order by", *(word for word in words if word in _SORT_WORDS)]) if order else ""
    condition = _Rewrite(text[: order.start()] if order else text).whole()
    return " ".join(filter(None, (condition, sort)))


def criteria_suggestion(text: str) -> str:
    """Criteria to show as the corrected ones, or "" when nothing comes to mind. They may still be invalid."""
    if len(text) > _LONGEST:
        return ""
    single = re.sub(r"[\x00-\x1f\x7f]+", " ", text).strip()
    spaced = re.sub(r"\b(from|to|cc|bcc|subject|body|text|since|before|on):\s*", r"\1 ", single, flags=re.IGNORECASE)
    dated = re.sub(r'"?\b(\d{4})-(\d{1,2})-(\d{1,2})(?:T[^\s")]*)?"?', _imap_day, spaced, flags=re.ASCII)
    joined = re.sub(r"\s+AND\s+", " ", dated, flags=re.IGNORECASE)
    read = re.sub(r"\b(?:is:)?unread\b", "UNSEEN", joined, flags=re.IGNORECASE)
    quoted = re.sub(r'\b(FROM|TO|SUBJECT|BODY|TEXT)\s+([^\s"()]*[%*{\\][^\s"()]*)', _quote, read, flags=re.IGNORECASE)
    if quoted != text:
        return quoted
    first = single.partition(" ")[0]
    if first not in _CRITERIA_KEYS and re.fullmatch(r"[^\s\"()\\]+(?: [^\s\"()\\]+)*", single):
        return f'TEXT "{single}"'
    return ""


def _imap_day(match: re.Match[str]) -> str:
    month = int(match[2])
    return f"{int(match[3])}-{_MONTHS[month - 1]}-{match[1]}" if 1 <= month <= 12 else match[0]


def _quote(match: re.Match[str]) -> str:
    escaped = match[2].replace("\\", "\\\\")
    return f'{match[1]} "{escaped}"'


class _Rewrite:
    """A filter written anew from the words of a text that is not quite one."""

    def __init__(self, text: str) -> None:
        self._tokens = [match for match in _TOKEN.finditer(text.strip()) if match[0].strip()]
        self._at = 0
        self._written: list[str] = []

    def whole(self) -> str:
        while self._at < len(self._tokens):
            self._one(self._tokens[self._at])
        return self._drop_dangling()

    def _one(self, token: re.Match[str]) -> None:
        self._at += 1
        word = (token["word"] or token["key"] or "").lower().strip(",;")
        if token["open"]:
            self._operand("(")
        elif token["close"]:
            self._drop_operator()
            self._written.append(")")
        elif token["comma"] or token["and"] or word == "and":
            self._operator("and")
        elif token["or"] or word == "or":
            self._operator("or")
        elif token["minus"] or word == "not":
            self._operand("not")
        elif word in _PATTERN_KEYS:
            pattern = _pattern(self._values())
            self._operand(f"{_PATTERN_KEYS[word]} {pattern}" if pattern else "")
        elif word in _DATE_KEYS:
            self._date(_DATE_KEYS[word], token["colon"] or "")
        elif word in _FLAG_KEYS:
            value = " ".join(self._values(1)).lower().strip("\\\"',")
            self._operand(_FLAGS.get(value, f"flag {value}" if value else ""))
        elif word in _FLAGS and not token["colon"]:
            self._operand(_FLAGS[word])
        elif word in ("all", "*") and not token["colon"]:
            return
        else:
            self._at -= 1
            pattern = _pattern(self._values())
            self._operand(f"(subject {pattern} or body {pattern})")

    def _date(self, key: str, sign: str) -> None:
        match = _DAY.fullmatch(" ".join(self._values(1)))
        if match is None:
            return
        try:
            day = date(int(match[1]), int(match[2]), int(match[3]))
        except ValueError:
            return
        if key == "date" and sign in (">", ">=", "<", "<="):
            key = {">": "after", ">=": "since", "<": "before", "<=": "until"}[sign]
        if key == "since":
            key, day = "after", day - timedelta(days=1)
        if key == "until":
            key, day = "before", day + timedelta(days=1)
        self._operand(f"{key} {day.isoformat()}")

    def _values(self, most: int = 20) -> list[str]:
        values: list[str] = []
        while self._at < len(self._tokens) and len(values) < most:
            token = self._tokens[self._at]
            value = token["quoted"] if token["quoted"] is not None else token["single"]
            if value is not None:
                if values:
                    break
                self._at += 1
                return [re.sub(r"\\(.)", r"\1", value)]
            word = token["word"] or (token[0].strip() if token["key"] and not values else None)
            if word is None or (values and self._begins_another(word)):
                break
            self._at += 1
            values.append(re.sub(r"\\(.)", r"\1", word).rstrip(",;"))
            if word.endswith((",", ";")):
                break
        return values

    @staticmethod
    def _begins_another(word: str) -> bool:
        lower = word.lower()
        return lower in _PATTERN_KEYS or lower in _DATE_KEYS or lower in _FLAG_KEYS or lower in ("and", "or", "not")

    def _operand(self, text: str) -> None:
        if not text:
            return
        if self._written and self._written[-1] not in ("and", "or", "not", "("):
            self._written.append("and")
        self._written.append(text)

    def _operator(self, word: str) -> None:
        if self._written and self._written[-1] not in ("and", "or", "not", "("):
            self._written.append(word)

    def _drop_operator(self) -> None:
        while self._written and self._written[-1] in ("and", "or", "not"):
            self._written.pop()

    def _drop_dangling(self) -> str:
        self._drop_operator()
        missing = self._written.count("(") - self._written.count(")")
        text = " ".join([*self._written, *[")"] * max(0, missing)]).replace("( ", "(").replace(" )", ")")
        return text[1:-1] if len(self._written) == 1 and text.startswith("(") else text


def _pattern(words: list[str]) -> str:
    text = " ".join(words)
    if not text:
        return ""
    if re.fullmatch(r'[^\s()"\\]+', text) and "order by" not in text:
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
