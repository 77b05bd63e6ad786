"""`postmirror init` as somebody does it who has a mailbox and nothing else."""

import stat
import time
from pathlib import Path

import pexpect
import pytest

from config.settings import load_settings
from tests.server.door import Mail
from tests.server.setup.newcomer import Newcomer, entries
from tests.servers.dovecot import Dovecot
from tests.servers.ports import HOST, free_port
from tests.servers.second_client import Incoming
from tests.servers.smtp import SmtpSink

PATIENT = 120.0


@pytest.fixture
def newcomer(tmp_path: Path) -> Newcomer:
    """With an empty home."""
    return Newcomer(tmp_path)


def fill(dovecot: Dovecot, user: str) -> None:
    mails = [Mail(f"Lunch {number}", text="Shall we eat at noon?", minutes=number) for number in range(12)]
    with dovecot.client(user) as client:
        client.append("INBOX", *(Incoming(mail.raw, mail.flags, mail.received) for mail in mails))


def trusting(dovecot: Dovecot, security: str = "tls") -> tuple[str, ...]:
    assert dovecot.certificates is not None
    port = dovecot.tls_port if security == "tls" else dovecot.port
    return ("--imap", f"{HOST}:{port}:{security}", "--ca-file", str(dovecot.certificates.ca_file))


@pytest.mark.parametrize("security", ["tls", "starttls"])
def test_flags_alone_lead_to_a_first_answer_over_http(
    dovecot: Dovecot, user: str, newcomer: Newcomer, security: str
) -> None:
    fill(dovecot, user)
    began = time.monotonic()
    with SmtpSink("tls" if security == "tls" else "starttls", dovecot.certificates, require_auth=True) as sink:
        done = newcomer.run(
            *("init", f"{user}@example.org", *trusting(dovecot, security), "--username", user, *newcomer.here),
            *("--smtp", f"{HOST}:{sink.port}:{security}", "--password-stdin", "--client", "json"),
            said=f"{dovecot.password}\n",
        )
    assert done.returncode == 0, done.stderr
    assert "INBOX" in done.stderr
    assert "about 12 messages" in done.stderr
    assert f"{HOST} lets us in too" in done.stderr
    assert dovecot.password not in done.stdout + done.stderr + newcomer.config.read_text()
    http, _ = entries(done.stdout)
    answer = newcomer.ask_over_http(http, "search_messages", folder="INBOX", query="subject lunch")
    assert len(answer["messages"]) == 12
    assert time.monotonic() - began < PATIENT


def test_what_it_writes_is_private_cautious_and_readable_by_the_program(
    dovecot: Dovecot, user: str, newcomer: Newcomer
) -> None:
    done = newcomer.run(
        *("init", f"{user}@example.org", *trusting(dovecot), "--username", user, *newcomer.here, "--no-smtp"),
        *("--display-name", 'A "B"', "--alias", "support@example.org", "--password-stdin"),
        said=f"{dovecot.password}\n",
    )
    assert done.returncode == 0, done.stderr
    checked = newcomer.run("config", "check")
    assert checked.returncode == 0, checked.stderr
    secret = newcomer.config.with_name("me-example.password")
    assert secret.read_text() == dovecot.password
    for path in (newcomer.config, secret):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    settings = load_settings(newcomer.config)
    provider = settings.users["me"].providers["example"]
    assert provider.display_name == 'A "B"'
    assert provider.addresses == (f"{user}@example.org", "support@example.org")
    profile = settings.profiles["assistant"]
    assert [(rule.match, rule.access) for rule in profile.folders] == [
        ("\\Junk", "hidden"),
        ("\\Trash", "hidden"),
        ("INBOX", "write"),
        ("*", "read"),
    ]
    assert profile.outbound is None


def test_a_relative_data_directory_counts_from_where_the_command_is_given(
    dovecot: Dovecot, user: str, newcomer: Newcomer
) -> None:
    done = newcomer.run(
        *("init", f"{user}@example.org", *trusting(dovecot), "--username", user, "--no-smtp"),
        *("--data-dir", "data", "--password-stdin", "--yes"),
        said=dovecot.password,
    )
    assert done.returncode == 0, done.stderr
    assert load_settings(newcomer.config).server.data_dir == newcomer.folder / "data"
    assert not (newcomer.config.parent / "data").exists()


def test_a_self_signed_certificate_needs_its_file_and_says_so(dovecot: Dovecot, user: str, newcomer: Newcomer) -> None:
    imap = f"{HOST}:{dovecot.tls_port}"
    done = newcomer.run("init", f"{user}@example.org", "--imap", imap, "--no-smtp", "--password-stdin", said="x\n")
    assert done.returncode == 1
    assert "--ca-file" in done.stderr
    assert newcomer.written() == []


def test_a_certificate_with_another_name_is_named(dovecot: Dovecot, user: str, newcomer: Newcomer) -> None:
    words = ("init", f"{user}@example.org", *trusting(dovecot), "--no-smtp", "--password-stdin", *newcomer.here)
    done = newcomer.run(*words, "--server-name", "mail.example.org", said="x\n")
    assert done.returncode == 1
    assert "--server-name" in done.stderr
    done = newcomer.run(
        *(*words, "--server-name", "localhost", "--username", user, "--client", "claude-code"),
        said=f"{dovecot.password}\n",
    )
    assert done.returncode == 0, done.stderr
    assert "claude mcp add --transport http postmirror" in done.stdout


def test_a_wrong_password_is_tried_once_and_leaves_nothing(dovecot: Dovecot, user: str, newcomer: Newcomer) -> None:
    before = dovecot.log().count("auth failed")
    words = ("init", f"{user}@example.org", *trusting(dovecot), "--no-smtp", "--username", user, *newcomer.here)
    done = newcomer.run(*words, "--password-stdin", said="wrong\n")
    assert done.returncode == 1
    assert "does not accept the user name or password" in done.stderr
    assert "Nothing was written" in done.stderr
    assert newcomer.written() == []
    assert dovecot.log().count("auth failed") - before == 1


def test_on_a_terminal_it_asks_for_everything_and_again_for_a_wrong_password(
    dovecot: Dovecot, user: str, newcomer: Newcomer
) -> None:
    fill(dovecot, user)
    assert dovecot.certificates is not None
    terminal = newcomer.on_a_terminal("init", *newcomer.here, "--username", user)
    terminal.expect("mail address")
    terminal.sendline("not an address")
    terminal.expect("is not a mail address")
    terminal.sendline(f"{user}@mail.invalid")
    terminal.expect("IMAP server")
    terminal.sendline(f"{HOST}:{dovecot.tls_port}")
    terminal.expect("Submission")
    terminal.sendline(f"{HOST}:{free_port()}:plain")
    terminal.expect("Your name")
    terminal.sendline("")
    terminal.expect("cannot be trusted")
    terminal.sendline(str(dovecot.certificates.ca_file))
    terminal.expect("Password")
    terminal.sendline("wrong")
    terminal.expect("Not logged in")
    terminal.expect("Password")
    terminal.sendline(dovecot.password)
    terminal.expect("about 12 messages")
    terminal.expect("does not let us in for sending")
    terminal.expect("Which client")
    terminal.sendline("json")
    terminal.expect(pexpect.EOF)
    output = terminal.before
    assert isinstance(output, str)
    _, stdio = entries(output.replace("\r\n", "\n"))
    answer = newcomer.ask_over_stdio(stdio, "list_messages", folder="INBOX")
    assert len(answer["messages"]) == 12


def test_three_wrong_passwords_end_it(dovecot: Dovecot, user: str, newcomer: Newcomer) -> None:
    words = ("init", f"{user}@example.org", *trusting(dovecot), "--no-smtp", "--username", user, "--yes")
    terminal = newcomer.on_a_terminal(*words)
    for _ in range(3):
        terminal.expect("Password")
        terminal.sendline("wrong")
    terminal.expect("after 3 of at most 3 attempts")
    terminal.expect(pexpect.EOF)
    assert newcomer.written() == []


def test_a_server_that_only_takes_access_tokens_is_told_from_a_wrong_password(user: str, newcomer: Newcomer) -> None:
    with Dovecot(settings="auth_mechanisms = xoauth2 oauthbearer\n") as server:
        words = ("init", f"{user}@example.org", *trusting(server), "--no-smtp", "--password-stdin")
        done = newcomer.run(*words, said="secret\n")
        assert done.returncode == 1
        assert "sign-in by OAuth 2" in done.stderr
        assert "auth failed" not in server.log()
    assert newcomer.written() == []


def test_a_configuration_is_never_written_over(dovecot: Dovecot, user: str, newcomer: Newcomer) -> None:
    newcomer.config.parent.mkdir(parents=True)
    newcomer.config.write_text("# mine\n")
    done = newcomer.run("init", f"{user}@example.org", *trusting(dovecot), "--no-smtp", "--password-stdin", said="x\n")
    assert done.returncode == 1
    assert "init --add" in done.stderr
    assert newcomer.config.read_text() == "# mine\n"


def test_a_second_account_is_put_behind_what_is_there(dovecot: Dovecot, user: str, newcomer: Newcomer) -> None:
    words = ("--no-smtp", "--username", user, "--password-stdin", *trusting(dovecot))
    first = newcomer.run("init", f"{user}@example.org", *words, *newcomer.here, said=f"{dovecot.password}\n")
    assert first.returncode == 0, first.stderr
    before = newcomer.config.read_text()
    again = newcomer.run("init", f"{user}@example.org", *words, "--add", said=f"{dovecot.password}\n")
    assert again.returncode == 1
    assert "--name" in again.stderr
    assert newcomer.config.read_text() == before
    second = newcomer.run("init", "other@example.org", *words, "--add", "--name", "other", said=f"{dovecot.password}\n")
    assert second.returncode == 0, second.stderr
    assert newcomer.config.read_text().startswith(before)
    settings = load_settings(newcomer.config)
    assert set(settings.users["me"].providers) == {"example", "other"}
    assert newcomer.run("config", "check").returncode == 0


def test_a_dry_run_logs_in_shows_and_writes_nothing(dovecot: Dovecot, user: str, newcomer: Newcomer) -> None:
    words = ("init", f"{user}@example.org", *trusting(dovecot), "--no-smtp", "--username", user, "--password-stdin")
    done = newcomer.run(*words, "--dry-run", said=f"{dovecot.password}\n")
    assert done.returncode == 0, done.stderr
    assert "[profiles.assistant]" in done.stdout
    assert newcomer.written() == []


def test_a_question_without_a_terminal_names_the_flag_that_answers_it(newcomer: Newcomer) -> None:
    assert "ADDRESS" in newcomer.run("init").stderr
    assert "--imap" in newcomer.run("init", "me@mail.invalid").stderr
    done = newcomer.run("init", "me@mail.invalid", "--imap", "mail.invalid")
    assert "--no-smtp" in done.stderr


def test_the_login_for_sending_may_be_another_one(dovecot: Dovecot, user: str, newcomer: Newcomer) -> None:
    with SmtpSink("tls", dovecot.certificates, require_auth=True) as sink:
        dovecot_secret, smtp_secret = newcomer.folder / "imap.secret", newcomer.folder / "smtp.secret"
        dovecot_secret.write_text(dovecot.password)
        smtp_secret.write_text(sink.password)
        done = newcomer.run(
            *("init", f"{user}@example.org", *trusting(dovecot), "--username", user, *newcomer.here),
            *("--smtp", f"localhost:{sink.port}", "--smtp-username", "sender", "--password-file", "imap.secret"),
            *("--smtp-password-file", "smtp.secret"),
        )
    assert done.returncode == 0, done.stderr
    assert "localhost lets us in too" in done.stderr
    provider = load_settings(newcomer.config).users["me"].providers["example"]
    assert provider.smtp is not None
    assert provider.login(provider.smtp)[0] == "sender"
    assert not list(newcomer.config.parent.glob("*.password"))


def test_a_keyring_keeps_the_password_where_there_is_one(dovecot: Dovecot, user: str, newcomer: Newcomer) -> None:
    programs = newcomer.folder / "bin"
    programs.mkdir()
    kept = newcomer.folder / "kept"
    tool = programs / "secret-tool"
    tool.write_text(f'#!/bin/sh\ncase "$1" in store) cat >{kept};; lookup) cat {kept};; clear) rm {kept};; esac\n')
    tool.chmod(0o755)
    newcomer.environment |= {"PATH": f"{programs}:{newcomer.environment['PATH']}", "DBUS_SESSION_BUS_ADDRESS": "x"}
    words = ("init", f"{user}@example.org", *trusting(dovecot), "--no-smtp", "--username", user, *newcomer.here)
    done = newcomer.run(*words, "--password-stdin", "--store", "keyring", said=f"{dovecot.password}\n")
    assert done.returncode == 0, done.stderr
    assert kept.read_text() == dovecot.password
    assert not list(newcomer.config.parent.glob("*.password"))
    assert newcomer.run("config", "check").returncode == 0
