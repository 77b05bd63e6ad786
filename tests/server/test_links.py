"""Signed links: five minutes without the bearer token, and not one check fewer."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from config.settings import load_settings
from mirror.store import Store
from server.audit.report import tail
from server.gate import FAILURES
from server.live import LiveSettings
from tests.processes import until
from tests.server.door import ONE_ACCOUNT, Door, Folder, Mail, fill_mirror
from tests.servers.ports import free_port

PDF = b"%PDF-1.7 " + bytes(range(256)) * 40
CONFIG = (
    ONE_ACCOUNT
    + """
[profiles.assistant]
folders = [{{ match = "{match}", access = "read" }}]
content = {{ attachments = {attachments}, attachment_links = "{links}" }}
"""
)


class Site:
    """An application whose configuration a test edits, over a mailbox of one mail with an attachment kept offline."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir.parent / "postmirror.toml"
        self._fixed = {"data_dir": data_dir, "port": free_port()}
        self.write()
        live = LiveSettings(self.path, load_settings)
        settings = live.in_force().settings
        fill_mirror(
            settings,
            "alice",
            "work",
            [Folder("INBOX", [Mail("Report", attachments=(("é.pdf", "application/pdf", PDF),))])],
        )
        with Store(settings.mirror_dir("alice", "work")) as store:
            [(content,)] = store._connection.execute("SELECT id FROM content").fetchall()
            store.blobs.keep(content, [("2", PDF)])
        self.door = Door(live)

    def write(self, match: str = "INBOX", links: str = "signed", attachments: str = "{}") -> None:
        """Write the configuration."""
        self.path.touch(mode=0o600)
        self.path.write_text(CONFIG.format(**self._fixed, match=match, links=links, attachments=attachments))

    def descriptor(self) -> dict[str, Any]:
        """What a client is told of the attachment."""
        caller = self.door.caller()
        uid = caller.call("list_messages", folder="INBOX").value["messages"][0]["uid"]
        [attachment] = caller.call("read_message", folder="INBOX", uid=uid).value["attachments"]
        return dict(attachment)

    def status(self, url: str, **headers: str) -> int:
        """What a GET without a token comes to."""
        return self.door.http.get(url, headers=headers).status_code


@pytest.fixture
def site(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr("server.live.STABLE_SECONDS", 0.0)
    made = Site(data_dir)
    with made.door:
        yield made


def test_a_signed_link_gives_the_attachment_without_a_token(site: Site, data_dir: Path) -> None:
    url = site.descriptor()["signed_url"]
    answer = site.door.http.get(url)
    assert (answer.status_code, answer.content) == (200, PDF)
    assert answer.headers["Content-Disposition"].startswith("attachment;")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"
    assert "sandbox" in answer.headers["Content-Security-Policy"]
    part = site.door.http.get(url, headers={"Range": "bytes=5-8"})
    assert (part.status_code, part.content, part.headers["Content-Range"]) == (206, PDF[5:9], f"bytes 5-8/{len(PDF)}")
    assert site.status(url, Range=f"bytes={len(PDF)}-") == 416
    assert site.door.http.post(url).status_code == 405
    until(lambda: [each["outcome"] for each in tail(data_dir / "audit", 9) if each["event"] == "download"] != [])


def test_it_ends_after_five_minutes(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    url = site.descriptor()["signed_url"]
    real = time.time
    monkeypatch.setattr("server.links.time.time", lambda: real() + 290)
    assert site.status(url) == 200
    monkeypatch.setattr("server.links.time.time", lambda: real() + 301)
    assert site.status(url) == 404


@pytest.mark.parametrize("how", ["revoked", "paused", "narrowed", "no attachments", "no links", "renamed profile"])
def test_what_counts_is_what_is_in_force_when_it_is_used(site: Site, how: str) -> None:
    url = site.descriptor()["signed_url"]
    [token] = site.door.state.tokens()
    match how:
        case "revoked":
            site.door.state.revoke(token.name)
        case "paused":
            site.door.state.pause(token.name)
        case "narrowed":
            site.write(match="Nothing")
        case "no attachments":
            site.write(attachments="false")
        case "no links":
            site.write(links="bearer")
        case _:
            site.path.write_text(site.path.read_text().replace("profiles.assistant", "profiles.other"))
    assert site.status(url) == 404


def test_a_bearer_profile_gives_out_no_such_links(site: Site) -> None:
    site.write(links="bearer")
    descriptor = site.descriptor()
    assert not {"signed_url", "signed_url_until"} & set(descriptor)
    assert site.status(descriptor["url"]) == 401


def test_a_forged_link_is_not_found_and_whoever_tries_many_must_wait(site: Site) -> None:
    url = site.descriptor()["signed_url"]
    base, _, word = url.rpartition("/")
    forged = [word[:place] + ("A" if word[place] != "A" else "B") + word[place + 1 :] for place in range(len(word))]
    answers = [site.door.http.get(f"{base}/{each}") for each in (*forged, "x", word[:-1], word + "A")]
    assert {answer.status_code for answer in answers[: FAILURES - 1]} == {404}
    assert {answer.status_code for answer in answers} <= {404, 429}
    assert len({answer.content for answer in answers if answer.status_code == 404}) == 1
    assert site.status(url) == 200


def test_a_link_is_no_attachment_id_and_an_attachment_id_is_no_link(site: Site) -> None:
    descriptor = site.descriptor()
    word = descriptor["signed_url"].rpartition("/")[2]
    caller = site.door.caller()
    assert caller.get(f"/attachments/{word}").status_code == 404
    assert site.status(f"{site.door.url}/attachments/signed/{descriptor['id']}") == 404
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", descriptor["signed_url_until"])
