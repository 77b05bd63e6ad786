"""The tools' texts and schemas are product: a change of them is made on purpose."""

import json
from pathlib import Path

from tests.server.door import Door

SNAPSHOT = Path(__file__).with_name("relay_tools.json")


def test_names_descriptions_and_schemas_are_those_of_the_snapshot(door: Door) -> None:
    """To adopt a change: write what this test printed into relay_tools.json."""
    tools = door.caller().request("tools/list").result["tools"]
    assert tools == json.loads(SNAPSHOT.read_text("utf-8")), json.dumps(tools, indent=2, ensure_ascii=False)


def test_every_argument_that_needs_it_is_explained(door: Door) -> None:
    for tool in door.caller().request("tools/list").result["tools"]:
        assert tool["description"].endswith((".", "desc"))
        for name, schema in tool["inputSchema"]["properties"].items():
            assert schema.get("description") or schema.get("enum") or name == "subject"


def test_annotations_tell_reads_from_writes(door: Door) -> None:
    annotations = {
        tool["name"]: tool["annotations"]["readOnlyHint"]
        for tool in door.caller().request("tools/list").result["tools"]
    }
    assert [name for name, reads in annotations.items() if not reads] == ["send_message", "update_message_flags"]
