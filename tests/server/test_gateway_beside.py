"""The same read calls to simple-email-gw and to ours, on the same Dovecot over TLS: answers compared field by field."""

import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client import Client

from tests.servers.dovecot import Dovecot
from tests.servers.second_client import Incoming
from tests.servers.simple_email_gw import ACCOUNT, ROOT, ask, environment, installed, ours, theirs

pytestmark = pytest.mark.soak
NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
FIELDS = ("folder", "subject", "from", "to", "date", "body", "attachments", "read", "message_id", "references")
CRITERIA = [
    "ALL", "UNSEEN", "SEEN", "FLAGGED", "ANSWERED", "NOT SEEN", "FROM bob@example.org", "FROM carol", "TO alice",
    "SUBJECT report", 'SUBJECT "monthly report"', "BODY pay", "TEXT EUR", "SINCE 03-Mar-2026", "BEFORE 03-Mar-2026",
    "ON 02-Mar-2026", "SENTSINCE 04-Mar-2026", "OR SUBJECT report SUBJECT lunch", "(FROM bob SUBJECT lunch)", "1:3",
    "LARGER 2000", "SMALLER 400", "NOT FROM bob UNSEEN", "UNDELETED UNDRAFT",
]  # fmt: skip
EXPECTED = {
    ("list_folders", "answer"): "theirs is against its own output schema, and the client refuses it",
    ("html only", "body"): "theirs is the markup itself (and nothing within a multipart)",
    ("both", "body"): "ours shows what a mail program shows where the forms differ, and tells of it as a finding",
    ("latin body", "body"): "theirs decodes every body as UTF-8",
    ("quoted name", "from"): "ours quotes a name only where it has to be",
}
"""By mail and field, why the answers differ."""


def mails() -> dict[str, bytes]:
    """Mails by what is odd about them."""

    def written(subject: str, body: str, sender: str = "Bob Example <bob@example.org>") -> EmailMessage:
        mail = EmailMessage(policy=SMTP)
        mail["From"], mail["To"], mail["Subject"] = sender, "alice@example.org", subject
        mail["Date"] = NOON + timedelta(days=len(made))
        mail["Message-ID"] = f"<m{len(made)}@example.org>"
        mail.set_content(body)
        return mail

    made: dict[str, bytes] = {}
    made["plain"] = written("lunch", "Shall we eat at noon?\n").as_bytes()
    made["report"] = written("monthly report", "The numbers.\n" * 200).as_bytes()
    made["money"] = written("invoice", "Please pay 20 EUR.\n", "Carol <carol@shop.example>").as_bytes()
    made["encoded"] = written("Grüße aus Köln", "hello\n", "Jürgen Müller <jm@example.org>").as_bytes()
    attached = written("with files", "see the files\n")
    attached.add_attachment(b"%PDF-1.7", maintype="application", subtype="pdf", filename="report.pdf")
    attached.add_attachment("text", filename="note.txt")
    made["attached"] = attached.as_bytes()
    both = written("both forms", "plain form\n")
    both.add_alternative("<p>rich form</p>", subtype="html")
    made["both"] = both.as_bytes()
    html = written("html only", "x")
    html.set_content("<p>only <b>rich</b></p>", subtype="html")
    made["html only"] = html.as_bytes()
    reply = written("Re: lunch", "yes\n")
    reply["In-Reply-To"], reply["References"] = "<m0@example.org>", "<x@example.org> <m0@example.org>"
    made["reply"] = reply.as_bytes()
    latin = written("latin", "x")
    latin.set_content("Zwölf Uhr\n", charset="iso-8859-1", cte="8bit")
    made["latin body"] = latin.as_bytes()
    made["quoted name"] = written("quoted", "q\n", '"Dave Plain" <dave@example.org>').as_bytes()
    made["several"] = written("to many", "m\n").as_bytes().replace(
        b"To: alice@example.org", b"To: alice@example.org, Bob Example <bob@example.org>"
    )  # fmt: skip
    made["empty"] = written("no text", "\n").as_bytes()
    return made


def test_forty_read_calls_are_answered_alike(dovecot: Dovecot, user: str, tmp_path: Path) -> None:
    command = installed(ROOT / ".bench-simple-email-gw")
    if command is None:
        pytest.skip("simple-email-gw cannot be fetched from PyPI")
    login, corpus = f"{user}@example.org", mails()
    with dovecot.client(login) as client:
        flags = [("\\Seen",), ("\\Flagged",), ("\\Answered", "\\Seen"), ()]
        for number, raw in enumerate(corpus.values()):
            client.append("INBOX", Incoming(raw, flags[number % 4], NOON + timedelta(days=number)))
    variables = environment(dovecot, login, tmp_path)
    differences: dict[tuple[str, str], tuple[Any, Any]] = {}
    calls = anyio.run(_compare, command, variables, tmp_path, list(corpus), differences)
    assert calls >= 40
    for (name, field), (other, own) in differences.items():
        sys.stdout.write(f"{name}, {field}: {other!r} | {own!r} | {EXPECTED.get((name, field))}\n")
    assert differences.keys() <= EXPECTED.keys()


async def _compare(
    command: Path,
    variables: Mapping[str, str],
    home: Path,
    names: list[str],
    differences: dict[tuple[str, str], tuple[Any, Any]],
) -> int:
    calls = 0
    async with ours(variables, home) as own, theirs(command, variables, home) as other:

        async def both(key: tuple[str, str], tool: str, **arguments: object) -> None:
            nonlocal calls
            calls += 1
            answers = [(await ask(client, tool, **arguments)) for client in (other, own)]
            if answers[0] != answers[1]:
                differences[key] = (answers[0].value, answers[1].value)

        await _until_complete(own)
        await both(("list_accounts", "answer"), "list_accounts")
        await both(("list_folders", "answer"), "list_folders", account=ACCOUNT)
        ids = (await ask(own, "search_emails", account=ACCOUNT, limit=500)).value["message_ids"]
        for criteria in (*CRITERIA, "limit"):
            calls += 1
            asked: dict[str, object] = {"criteria": criteria} if criteria != "limit" else {"limit": 3}
            found = (await ask(other, "search_emails", account=ACCOUNT, **asked)).value["message_ids"]
            mine = (await ask(own, "search_emails", account=ACCOUNT, **asked)).value["message_ids"]
            if [int(each) for each in found] != [ids.index(each) + 1 for each in mine]:
                differences["search_emails", criteria] = (found, [ids.index(each) + 1 for each in mine])
        for number, name in enumerate(names):
            calls += 1
            read = (await ask(other, "get_email", account=ACCOUNT, message_id=str(number + 1))).value
            mine = (await ask(own, "get_email", account=ACCOUNT, message_id=ids[number])).value
            for field in FIELDS:
                if _comparable(read.get(field)) != _comparable(mine.get(field)):
                    differences[name, field] = (read.get(field), mine.get(field))
        for tool, arguments in (
            ("search_emails", {"account": "nobody"}),
            ("get_email", {"account": "nobody", "message_id": "1"}),
        ):
            await both((tool, "unknown account"), tool, **arguments)
    return calls


def _comparable(value: Any) -> Any:
    """Without the line ends that a mail program does not show."""
    return value.replace("\r\n", "\n").strip() if isinstance(value, str) else value


async def _until_complete(client: Client) -> None:
    while True:
        result = await client.call_tool("search_emails", {"account": ACCOUNT, "limit": 1})
        if (getattr(result, "meta", None) or {}).get("postmirror/complete"):
            return
        await anyio.sleep(0.2)
