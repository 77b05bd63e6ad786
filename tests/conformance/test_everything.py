"""The tool set of the conformance suite is served as ours are, whether or not the suite itself can be had."""

from pathlib import Path
from typing import Literal

import pytest

from server import app
from tests.conformance.everything import everything_server
from tests.server.door import Door, settings_for
from tests.servers.ports import free_port


@pytest.mark.parametrize("era", ["modern", "handshake"])
def test_plain_and_other_tools_answer_in_both_eras(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, era: Literal["modern", "handshake"]
) -> None:
    monkeypatch.setitem(app.PROFILES, "relay", lambda parts, caller: everything_server())
    with Door(settings_for(data_dir, free_port())) as door:
        caller = door.caller(era=era)
        plain, image = caller.call("test_simple_text"), caller.call("test_image_content")
    assert plain.text == "This is a simple text response for testing."
    assert image.result["content"][0]["type"] == "image"
    assert (plain.is_error, image.is_error) == (False, False)
