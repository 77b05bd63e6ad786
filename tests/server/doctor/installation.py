"""An installation under examination: its configuration, its files, and what doctor finds in it."""

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from config.settings import load_settings
from server.cli import main
from server.key import load_key
from server.state.store import State
from tests.server.door import Folder, Mail, fill_mirror
from tests.servers.ports import PASSWORD, free_port

_NOBODY_LISTENS = '{ host = "127.0.0.1", port = 9, security = "plain" }'


class Installation:
    """One mailbox, alice/work, with a mirror, a key and a token. imap, smtp: the tables of its servers, as TOML."""

    def __init__(self, folder: Path, *, imap: str = _NOBODY_LISTENS, smtp: str = "", auth: str = "password") -> None:
        self.folder = folder
        folder.chmod(0o700)
        self.config = folder / "postmirror.toml"
        self.password = folder / "password"
        self.data_dir = folder / "data"
        self.port = free_port()
        self.server: dict[str, Any] = {"data_dir": "data", "port": self.port}
        self.account: dict[str, str] = {
            "address": '"alice@example.org"',
            "username": '"alice"',
            "password": '{ file = "password" }',
            "auth": f'"{auth}"',
            "imap": imap,
        }
        if smtp:
            self.account["smtp"] = smtp
        self.password.write_text(PASSWORD, "utf-8")
        self.password.chmod(0o600)
        self.write()
        self.settings = load_settings(self.config)
        fill_mirror(self.settings, "alice", "work", [Folder("INBOX", [Mail()])])
        load_key(self.data_dir)
        state = State(self.data_dir)
        self.token = state.issue_token("alice", "assistant", name="laptop")[1]
        state.close()

    @property
    def mirror(self) -> Path:
        """The mirror's folder."""
        return self.data_dir / "mirrors" / "alice" / "work"

    def write(self, more: str = "") -> None:
        """Write the configuration."""
        server = "\n".join(f"{key} = {json.dumps(value)}" for key, value in self.server.items())
        account = "\n".join(f"{key} = {value}" for key, value in self.account.items())
        text = f"[server]\n{server}\n[users.alice.providers.work]\n{account}\n[profiles.assistant]\n{more}\n"
        self.config.write_text(text, "utf-8")
        self.config.chmod(0o600)

    def examine(self, *words: str, offline: bool = True) -> dict[str, dict[str, str]]:
        """What doctor finds that is not in order, by the fault's name."""
        where = ["--offline"] if offline else []
        done = CliRunner().invoke(main, ["doctor", "--json", *where, *words, "--config", str(self.config)])
        assert PASSWORD not in done.output
        assert self.token not in done.output
        assert done.stdout, done.exception
        said = json.loads(done.stdout)
        wrong = [each for each in said["findings"] if each["state"] != "ok"]
        assert done.exit_code == {"ok": 0, "warn": 1, "fail": 2}[said["state"]]
        assert all(each["fix"] for each in wrong)
        return {each["name"]: each for each in wrong}
