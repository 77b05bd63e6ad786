"""The tags of HTML where an HTML5 tokenizer finds them: quotes, comments and raw text are understood.

What ends such a thing must be found as a browser finds it, or text that a browser never shows is read as shown.
"""

import re
from collections.abc import Callable

# Every quantifier keeps what it took: one pass, whatever the input.
_ATTRIBUTES = r"(?:[\s/]++|=?[^\s/>=]++(?:\s*+=\s*+(?:\"[^\"]*+\"|'[^']*+'|(?![\"'])[^\s>]++)?+)?+|=(?=[\s/>]))*+"
TAG = re.compile(rf"<(?:(/?)([a-zA-Z][^\s/>]*+)({_ATTRIBUTES})(>?)|(!--|[!?]|/(?![a-zA-Z])))")
_COMMENT_END = re.compile(r"-?>|.*?--!?>", re.S)
_SCRIPT = re.compile(r"<!--|-->|<(/?)script(?=[\s/>])", re.I)
# Nothing of these is shown, and within them tags are no tags.
_SKIPPED = frozenset(["iframe", "noembed", "noframes", "noscript", "script", "textarea", "title", "xmp"])
_ENDS = {name: re.compile(rf"</{name}(?=[\s/>])", re.I) for name in (*_SKIPPED, "style")}
RAW_TEXT = frozenset(_ENDS)
"""Elements within which tags are no tags."""
NOT_SHOWN = frozenset([
    "applet", "area", "audio", "base", "canvas", "datalist", "embed", "frame", "frameset", "iframe", "input",
    "link", "map", "math", "meta", "noembed", "noframes", "noscript", "object", "option", "param", "script",
    "select", "source", "style", "svg", "template", "textarea", "title", "video", "xml", "xmp",
])  # fmt: skip
"""Elements that are left out with all they hold."""


def replaced(markup: str, put: Callable[[re.Match[str]], str]) -> str:
    """The markup with every tag replaced, without comments and without the elements whose raw text nobody sees.

    put: what stands in place of a tag; its groups are the slash, the name and the attributes. A tag that never ends,
    and what follows it, is left out, as browsers do.
    """
    pieces: list[str] = []
    position, end = 0, len(markup)
    while match := TAG.search(markup, position):
        pieces.append(markup[position : match.start()])
        position = match.end()
        if match[5]:
            position = end_of_comment(markup, match)
            continue
        if not match[4]:
            return "".join(pieces)
        name = match[2].lower()
        if match[1] or name not in _ENDS:
            pieces.append(put(match))
        elif name == "style":
            closing = _ENDS[name].search(markup, position)
            stop = end if closing is None else closing.start()
            pieces += (match[0], markup[position:stop], "</style>")
            position = end if closing is None else (markup.find(">", stop) + 1 or end)
        else:
            position = end_of_raw(markup, name, position)
    pieces.append(markup[position:])
    return "".join(pieces)


def end_of_comment(markup: str, match: re.Match[str]) -> int:
    """Where what began with the match of `<!` or `<?` ends."""
    if match[5] == "!--":
        ending = _COMMENT_END.match(markup, match.end())
        return len(markup) if ending is None else ending.end()
    closing = markup.find(">", match.end())
    return len(markup) if closing < 0 else closing + 1


def end_of_raw(markup: str, name: str, position: int) -> int:
    """Where an element ends whose raw text began at the position."""
    closing = _ENDS[name].search(markup, position)
    if name == "script" and closing is not None:
        closing = _end_of_script(markup, position)
    if closing is None:
        return position if name == "noscript" else len(markup)
    after = markup.find(">", closing.end())
    return len(markup) if after < 0 else after + 1


def _end_of_script(markup: str, position: int) -> re.Match[str] | None:
    """The end tag of a script; within `<!-- <script>` one end tag belongs to the inner one."""
    is_escaped = is_inner = False
    for match in _SCRIPT.finditer(markup, position):
        if match[0] == "<!--":
            is_escaped = True
        elif match[0] == "-->":
            is_escaped = is_inner = False
        elif not match[1]:
            is_inner = is_escaped
        elif is_inner:
            is_inner = False
        else:
            return match
    return None
