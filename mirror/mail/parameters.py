"""Content-Type and Content-Disposition: a value and its parameters, with RFC 2231 and the ways it is got wrong."""

import re

from mirror.mail.charset import decode
from mirror.mail.words import decode_words

_MAX_LENGTH = 16_384
_MAX_HEAD = 1_000
_MAX_PARAMETERS = 200
_PARAMETER = re.compile(r'(?<![^;\s])([^\s=;"]+)\s*=\s*("(?:[^"\\]|\\.)*"?|[^;]*)', re.S)
_ENCODED_PARAMETER = re.compile(r"([^*]+)(?:\*(\d{1,4}))?(\*)?")
_BLANK_BEFORE_PARAMETER = re.compile(r"(?<=\S)\s(?=\s*[^\s=;\"]+\s*=)")
_COMMENT = re.compile(r"\([^()]*\)")
_UNESCAPED = re.compile(r"\\([\"\\'])")
_PERCENT = re.compile(rb"%([0-9A-Fa-f]{2})")
_MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+")


def read_parameters(value: str) -> tuple[str, dict[str, str]]:
    """(value in lower case without comments and blanks, parameters by lower-case name, decoded)."""
    if not value:
        return "", {}
    head, _, rest = value[:_MAX_LENGTH].partition(";")
    if "=" in head and (missing := _BLANK_BEFORE_PARAMETER.search(head[:_MAX_HEAD])):
        # "application/pdf\n name=x": the first semicolon was forgotten.
        head, rest = head[: missing.start()], f"{head[missing.start() :]};{rest}"
    plain: dict[str, str] = {}
    pieces: dict[str, dict[int, tuple[str, bool]]] = {}
    for count, match in enumerate(_PARAMETER.finditer(rest)):
        if count >= _MAX_PARAMETERS:
            break
        name = _ENCODED_PARAMETER.fullmatch(match[1].lower())
        if name is None:
            continue
        text = _unquoted(match[2])
        if name[2] is None and name[3] is None:
            plain.setdefault(name[1], text)
        else:
            pieces.setdefault(name[1], {}).setdefault(int(name[2] or 0), (text, name[3] is not None))
    parameters = {name: decode_words(text) for name, text in plain.items()}
    for base, numbered in pieces.items():
        parameters[base] = _joined(numbered)
    return _value_of(head[:_MAX_HEAD].lower()), parameters


def _value_of(head: str) -> str:
    """The first token of a value, or the first two with a slash between them."""
    if "(" in head:
        head = _COMMENT.sub(" ", head)
    main, slash, rest = head.partition("/")
    words, others = main.split(), rest.split()
    if not words:
        return ""
    return f"{words[0]}/{others[0]}" if slash and others else words[0]


def _unquoted(text: str) -> str:
    text = text.strip()
    if text.startswith('"'):
        inner = text[1:-1] if len(text) > 1 and text.endswith('"') and not text.endswith('\\"') else text[1:]
        return _UNESCAPED.sub(r"\1", inner)
    return text


def _joined(numbered: dict[int, tuple[str, bool]]) -> str:
    charset, data = "", b""
    for index, (_, (text, is_encoded)) in enumerate(sorted(numbered.items())):
        if is_encoded:
            if text.count("'") >= 2:
                label, _, written = text.split("'", 2)
                if index == 0:
                    charset, text = label, written
                elif label.lower() == charset.lower():
                    text = written
            data += _PERCENT.sub(lambda escape: bytes.fromhex(escape[1].decode()), text.encode("utf-8", "replace"))
        else:
            data += text.encode("utf-8", "replace")
    return decode_words(decode(data, charset or "utf-8"))


def media_type_of(value: str, default: str) -> str:
    """A usable media type for what a Content-Type header says."""
    if _MEDIA_TYPE.fullmatch(value):
        return value
    if value in ("html", "text/htm"):
        return "text/html"
    return default if value.partition("/")[0] in ("", "text") else "application/octet-stream"
