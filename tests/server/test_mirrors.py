"""What the web process tells the sync worker of its readers."""

from pathlib import Path

from mirror.presence import Presence
from tests.server.door import Door, Folder, Mail, fill_mirror, settings_for
from tests.servers.ports import free_port


def test_call_that_reads_mail_is_felt_by_the_worker_and_one_that_is_refused_is_not(data_dir: Path) -> None:
    settings = settings_for(data_dir, free_port())
    fill_mirror(settings, "alice", "work", [Folder("INBOX", [Mail()])])
    with Door(settings) as door:
        door.caller().call("read_message", folder="INBOX")
        assert not Presence(data_dir).is_felt()
        door.caller().call("list_messages", folder="INBOX")
        assert Presence(data_dir).is_felt()
