"""`postmirror stdio` under the environment of simple-email-gw, with nothing else set up."""

import json
import os
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.types import CallToolResult

from tests.server.door import Mail
from tests.servers.dovecot import Dovecot
from tests.servers.ports import HOST
from tests.servers.second_client import Incoming
from tests.servers.smtp import SmtpSink

ROOT = Path(__file__).parents[2]


def environment(dovecot: Dovecot, sink: SmtpSink, user: str, tmp_path: Path) -> dict[str, str]:
    """What a client's entry for the other program holds, and a home of its own."""
    assert dovecot.certificates is not None
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT),
        "SSL_CERT_FILE": str(dovecot.certificates.ca_file),
        "EMAIL_IMAP_HOST": HOST,
        "EMAIL_IMAP_PORT": str(dovecot.tls_port),
        "EMAIL_SMTP_HOST": HOST,
        "EMAIL_SMTP_PORT": str(sink.port),
        "EMAIL_USERNAME": f"{user}@example.org",
        "EMAIL_PASSWORD": dovecot.password,
        "EMAIL_ACCOUNT_NAME": "My mail",
        "EMAIL_WORKSPACE": str(tmp_path / "files"),
        "EMAIL_RECIPIENT_WHITELIST_DOMAINS": "example.org",
    }


@asynccontextmanager
async def running(variables: Mapping[str, str], folder: Path) -> AsyncIterator[Client]:
    """A client of a session that has just been started."""
    parameters = StdioServerParameters(
        command=sys.executable, args=["-m", "server.cli", "stdio"], env=dict(variables), cwd=folder
    )
    with (folder / "stdio.log").open("a") as log:
        async with Client(stdio_client(parameters, errlog=log)) as client:
            yield client


async def told(client: Client, tool: str, **arguments: object) -> Any:
    """The JSON of an answer."""
    result = await client.call_tool(tool, dict(arguments))
    assert isinstance(result, CallToolResult)
    assert not result.is_error, result.content
    return json.loads(result.content[0].text)  # type: ignore[union-attr]  # a block of text


def test_a_client_changes_one_command(dovecot: Dovecot, user: str, tmp_path: Path) -> None:
    assert dovecot.certificates is not None
    mails = [Mail(f"n{number}", minutes=number) for number in range(60)]
    with dovecot.client(f"{user}@example.org") as client:
        client.append("INBOX", *(Incoming(mail.raw, mail.flags, mail.received) for mail in mails))
    with SmtpSink("tls", dovecot.certificates, require_auth=True) as sink:
        variables = environment(dovecot, sink, user, tmp_path)

        async def session() -> None:
            began = time.monotonic()
            async with running(variables, tmp_path) as client:
                accounts = await told(client, "list_accounts")
                assert accounts == [{"name": "My mail", "username": f"{user}@example.org"}]
                folders = await told(client, "list_folders", account="My mail")
                assert {"INBOX", "Sent"} <= {each["name"] for each in folders}
                found = await told(client, "search_emails", account="My mail", limit=5)
                first_answer = time.monotonic() - began
                assert first_answer < 60
                newest = await told(client, "get_email", account="My mail", message_id=found["message_ids"][-1])
                assert newest["subject"] == "n59"
                sent = await told(
                    client, "send_email", account="My mail", to=["bob@example.org"], subject="s", body="b"
                )
                assert sent == {"status": "sent", "recipients": 1}
                refused = await client.call_tool(
                    "send_email", {"account": "My mail", "to": ["x@evil.example"], "subject": "s", "body": "b"}
                )
                assert isinstance(refused, CallToolResult)
                assert refused.is_error

        anyio.run(session)
        [mail] = sink.messages
        assert mail.tls
        assert mail.sender == f"{user}@example.org"
    data = tmp_path / ".local" / "share" / "postmirror"
    assert list(data.glob("environment-*.toml"))
    for path in data.glob("*"):
        if path.is_file():
            assert dovecot.password.encode() not in path.read_bytes()


def test_a_first_search_answers_from_the_newest_and_says_that_the_rest_is_to_come(
    dovecot: Dovecot, user: str, tmp_path: Path
) -> None:
    mails = [Mail(f"n{number}", minutes=number) for number in range(3_000)]
    with dovecot.client(f"{user}@example.org") as client:
        client.append("INBOX", *(Incoming(mail.raw, mail.flags, mail.received) for mail in mails))

    async def session() -> None:
        async with running(environment(dovecot, SmtpSink(), user, tmp_path), tmp_path) as client:
            first = await client.call_tool("search_emails", {"account": "My mail", "criteria": "BODY alice"})
            assert isinstance(first, CallToolResult)
            answer, *notes = [block.text for block in first.content if block.type == "text"]
            assert first.meta is not None
            assert not first.meta["postmirror/complete"]
            assert any("still being fetched" in note for note in notes)
            found = json.loads(answer)["message_ids"]
            newest = await told(client, "get_email", account="My mail", message_id=found[-1])
            assert newest["subject"] == "n2999"
            assert len(found) == 50

    anyio.run(session)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"EMAIL_IMAP_HOST": ""}, "--user and --profile"),
        ({"EMAIL_RECIPIENT_WHITELIST_DOMIANS": "x.example"}, "EMAIL_RECIPIENT_WHITELIST_DOMAINS"),
    ],
)
def test_a_start_that_cannot_work_says_why(
    dovecot: Dovecot, user: str, tmp_path: Path, changes: dict[str, str], said: str
) -> None:
    import subprocess

    variables = environment(dovecot, SmtpSink(), user, tmp_path) | changes
    done = subprocess.run(
        [sys.executable, "-m", "server.cli", "stdio"],
        env=variables,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode
    assert said in " ".join(done.stderr.replace("│", " ").split())
    assert done.stdout == ""
