"""The tools as clients see them, written down.

`python -m server.reference docs/tools.md` renews the first part of that document.
"""

import sys
from pathlib import Path
from typing import Any, cast

from server.relay import Relay, relay_tools
from server.tool import Tool

FIRST_WRITTEN = "## Answers\n"
"""Where the part that people write begins."""

_NEVER_CALLED = Relay(cast(Any, None), cast(Any, None), "")
_INTRODUCTION = """\
# Tools

The relay tool set over Streamable HTTP at `/mcp`, with `Authorization: Bearer TOKEN` on every request, or over
`postmirror stdio`. A token stands for one user, provider and profile; no argument names another. Every answer is one
JSON text. An argument that is not in the schema is an error that names it.
"""


def tools_reference(tools: list[Tool[Any]]) -> str:
    """Markdown: each tool with its description and its arguments, as `tools/list` gives them."""
    parts = [_INTRODUCTION]
    for tool in tools:
        described = tool.describe()
        parts.append(f"## {described.name}\n\n{described.description}\n")
        arguments = described.input_schema["properties"]
        required = described.input_schema.get("required", [])
        if arguments:
            rows = [
                f"| `{name}` | {'yes' if name in required else ''} | {_meaning(schema)} |"
                for name, schema in arguments.items()
            ]
            parts.append("\n".join(["| argument | required | meaning |", "| --- | --- | --- |", *rows]) + "\n")
    return "\n".join(parts)


def _meaning(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    return str(schema.get("description", "Text."))


def main() -> None:
    """Renew the generated part of the document named on the command line."""
    path = Path(sys.argv[1])
    written = path.read_text("utf-8").partition(FIRST_WRITTEN)[2]
    path.write_text(f"{tools_reference(relay_tools(_NEVER_CALLED))}\n{FIRST_WRITTEN}{written}", "utf-8")


if __name__ == "__main__":
    main()
