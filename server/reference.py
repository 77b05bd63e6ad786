"""The tools as clients see them, and every error text they can get, written down.

`python -m server.reference docs/tools.md` renews those parts of that document.
"""

import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from server.error_texts import denial_reasons, error_texts, note_texts, path_refusals
from server.gateway.prompts import PROMPTS
from server.gateway.resources import ACCOUNTS, FOLDERS
from server.offered import tools_of
from server.tool import FAILED, INTERNAL, LOST, Tool

WRITTEN, GENERATED_AGAIN = "## Answers\n", "## Errors\n"
"""Where the part that people write begins, and where it ends."""

_INTRODUCTION = """\
# Tools

Two sets, over Streamable HTTP at `/mcp` with `Authorization: Bearer TOKEN` on every request, or over
`postmirror stdio`. The profile of a token says which set it has (`tools`). An answer is one JSON text; an argument that
is not in a tool's schema is an error that names it.
"""
_RELAY = """\
## Relay

A token stands for one user, provider and profile; no argument names another.
"""
_GATEWAY = """\
## Gateway

A token stands for a user and all of the user's providers, or one; `account` names one in each call. What a profile does
not grant (`allow`) is not in the list of tools. `as_of` and `complete` are in the result's `_meta` as
`postmirror/as_of` and `postmirror/complete`; where a folder is old or incomplete, a second text says so.
"""
_ERRORS = """\
An error is a tool error with one of these texts. Words in capitals stand for what differs. A *rule* that forbids
something is the operator's; nothing but another configuration changes it.
"""


def first_part() -> str:
    """Markdown: each tool with its description and its arguments, as `tools/list` gives them."""
    parts = [_INTRODUCTION, _RELAY, *map(_tool, tools_of("relay")), _GATEWAY, *map(_tool, tools_of("gateway"))]
    parts.append("### Resources\n\n" + _table(("resource", "what it is"), _resources()))
    prompts = [(f"`{each.name}({each.argument})`", each.description) for each in PROMPTS]
    parts.append("### Prompts\n\n" + _table(("prompt", "what it is"), prompts))
    return "\n".join(parts)


def _resources() -> list[tuple[str, str]]:
    return [(f"`{ACCOUNTS.uri}`", ACCOUNTS.description or ""), (f"`{FOLDERS.uri_template}`", FOLDERS.description or "")]


def _tool(tool: Tool[Any]) -> str:
    described = tool.describe()
    arguments = described.input_schema["properties"]
    required = described.input_schema.get("required", [])
    text = f"### {described.name}\n\n{_paragraphs(described.description or '')}\n"
    if not arguments:
        return text
    rows = [(f"`{name}`", "yes" if name in required else "", _meaning(schema)) for name, schema in arguments.items()]
    return f"{text}\n{_table(('argument', 'required', 'meaning'), rows)}"


def _paragraphs(description: str) -> str:
    """A description whose lines stay lines: indented ones are examples."""
    parts: list[str] = []
    for is_example, lines in groupby(description.splitlines(), lambda line: line.startswith("  ")):
        if is_example:
            parts.append("\n".join(["```", *(line.strip() for line in lines), "```"]))
        else:
            parts.extend(lines)
    return "\n\n".join(parts)


def _meaning(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    return str(schema.get("description", "Text."))


def last_part() -> str:
    """Markdown: every error text, and every text that may stand beside an answer."""
    operations = ", ".join(f"*{tool.operation}*" for tool in tools_of("gateway"))
    faults = [
        (f"`{FAILED.format(operation='OPERATION')}`", f"gateway: a fault of the program, in one of: {operations}"),
        (f"`{INTERNAL.format(reference='REFERENCE')}`", "relay: a fault of the program"),
        (f"`{LOST}`", "after the grace period of a broken edit"),
    ]
    texts = {"Both sets": "both", "Relay alone": "relay", "Gateway alone": "gateway"}
    parts = [GENERATED_AGAIN, _ERRORS]
    for title, tool_set in texts.items():
        rows = [(f"`{text}`", when) for text, when in error_texts(tool_set)]
        parts.append(f"### {title}\n\n" + _table(("text", "when"), [*rows, *(faults if tool_set == "both" else ())]))
    reasons = [(f"`{each}`",) for each in denial_reasons()]
    parts.append("### Reasons why a mail is not sent\n\n" + _table(("REASON",), reasons))
    parts.append(
        "### Reasons why a path is refused\n\n" + _table(("EXC",), [(f"`{each}`",) for each in path_refusals()])
    )
    parts.append("### Beside an answer\n\n" + _table(("text",), [(f"`{each}`",) for each in note_texts()]))
    parts.append(
        "The reference of a fault is in the error's structured content (`reference`) and in the log; a limit that is "
        "reached says there when to try again (`retry_after_seconds`). Every bad token, of whatever kind, gets the "
        "same 401.\n"
    )
    return "\n".join(parts)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(heads)} |", f"| {' | '.join('---' for _ in heads)} |"]
    lines += [f"| {' | '.join(cell.replace('|', '¦').replace(chr(10), ' ') for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def renewed(document: str) -> str:
    """The document with its generated parts as they are now."""
    written = document.partition(WRITTEN)[2].partition(GENERATED_AGAIN)[0]
    return f"{first_part()}\n{WRITTEN}{written}{last_part()}"


def main() -> None:
    """Renew the generated parts of the document named on the command line."""
    path = Path(sys.argv[1])
    path.write_text(renewed(path.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
