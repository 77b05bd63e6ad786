"""Markup whose tags nest as written: nothing in it is to be put right, which is found out in one quick pass.

Most mail is so. What is asked here is stricter than HTML asks: where a tag might end or carry on anything but itself,
the markup goes to `mirror.page.balance`, whose reading of such markup would come to the same.
"""

from mirror.page.tags import RAW_TEXT, TAG, end_of_comment, end_of_raw

VOID = frozenset([
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr",
])  # fmt: skip
FORMATTING = frozenset(
    ["a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"]
)
HEADINGS = frozenset(["h1", "h2", "h3", "h4", "h5", "h6"])
CLOSES_P = frozenset([
    "address", "article", "aside", "blockquote", "center", "details", "dialog", "dir", "div", "dl", "fieldset",
    "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hgroup", "hr", "main",
    "menu", "nav", "ol", "p", "pre", "section", "summary", "table", "ul", "li",
    "dd", "dt", "listing", "plaintext", "xmp",
])  # fmt: skip
_SECTIONS = frozenset(["table", "tbody", "thead", "tfoot"])
_PARENTS = {
    "caption": frozenset(["table"]),
    "colgroup": frozenset(["table"]),
    "tbody": frozenset(["table"]),
    "thead": frozenset(["table"]),
    "tfoot": frozenset(["table"]),
    "tr": _SECTIONS,
    "td": frozenset(["tr"]),
    "th": frozenset(["tr"]),
    "li": frozenset(["ul", "ol"]),
    "dd": frozenset(["dl"]),
    "dt": frozenset(["dl"]),
}
_ENDS_FORMATTING = frozenset(["p", "center", "table", "fieldset"])
_DOCUMENT = frozenset(["html", "head", "body"])


def as_written(markup: str) -> str | None:
    """The markup without comments and raw text that nobody sees; None when its tags do not simply nest."""
    pieces: list[str] = []
    open_names: list[str] = []
    paragraphs = 0
    has_body = is_kept = False
    position = kept_from = 0
    while True:
        for match in TAG.finditer(markup, position):
            closing, name, _, is_whole, special = match.groups()
            if special:
                position = end_of_comment(markup, match)
                break
            if not is_whole:
                return None
            name = name.lower()
            if closing:
                if open_names and open_names[-1] == name:
                    open_names.pop()
                    paragraphs -= name == "p"
                elif name in _DOCUMENT:
                    position = match.end()
                    break
                elif name not in VOID or name == "hr":
                    return None
                continue
            if name in RAW_TEXT:
                position = end_of_raw(markup, name, match.end())
                is_kept = name == "style"
                if is_kept and markup[position - 8 : position].lower() != "</style>":
                    return None
                break
            if name in _DOCUMENT:
                if open_names or (name == "body" and has_body):
                    return None
                has_body = has_body or name == "body"
            elif name not in VOID:
                parents = _PARENTS.get(name)
                if parents is not None and (not open_names or open_names[-1] not in parents):
                    return None
                if name in CLOSES_P and (paragraphs or _ends_another(name, open_names)):
                    return None
                open_names.append(name)
                paragraphs += name == "p"
            elif name == "hr" and paragraphs:
                return None
        else:
            break
        if not is_kept:
            pieces.append(markup[kept_from : match.start()])
            kept_from = position
        is_kept = False
    if not pieces:
        return markup
    pieces.append(markup[kept_from:])
    return "".join(pieces)


def _ends_another(name: str, open_names: list[str]) -> bool:
    above = open_names[-1] if open_names else ""
    return (name in HEADINGS and above in HEADINGS) or (name in _ENDS_FORMATTING and above in FORMATTING)
