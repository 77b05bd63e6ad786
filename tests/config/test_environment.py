"""A configuration made of simple-email-gw's environment variables."""

import json
import os
from pathlib import Path

import pytest

from config.environment import EnvironmentUnusable, from_environment, names_accounts
from config.profile import Profile
from config.provider import Provider
from config.settings import load_settings

ONE = {
    "EMAIL_IMAP_HOST": "imap.example.org",
    "EMAIL_SMTP_HOST": "smtp.example.org",
    "EMAIL_USERNAME": "alice@example.org",
    "EMAIL_PASSWORD": 'pa"ss\\wörd',
}


def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **variables: str) -> tuple[list[Provider], Profile]:
    """The accounts and the profile that come of these variables."""
    made = from_environment(ONE | variables, tmp_path)
    for name in made.secrets:
        monkeypatch.setenv(name, "")
    path = made.write(tmp_path)
    assert path.stat().st_mode & 0o077 == 0
    for secret in made.secrets.values():
        assert secret not in path.read_text("utf-8")
    settings = load_settings(path)
    return list(settings.users["me"].providers.values()), settings.profiles["gateway"]


def test_one_account_with_its_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [account], profile = configured(tmp_path, monkeypatch)
    assert (account.account_name, account.address, account.username) == (
        "default",
        "alice@example.org",
        "alice@example.org",
    )
    assert (account.imap.host, account.imap.port, account.imap.security) == ("imap.example.org", 993, "tls")
    assert account.smtp is not None
    assert (account.smtp.host, account.smtp.port, account.smtp.security) == ("smtp.example.org", 587, "starttls")
    assert account.password is not None
    assert account.password.read() == ONE["EMAIL_PASSWORD"]
    assert profile.tools == "gateway"
    assert (profile.limits.imap_per_minute, profile.limits.smtp_per_hour) == (60, 100)
    assert profile.outbound is not None
    assert profile.outbound.to_allow == ("*",)


def test_several_accounts_and_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    account = {"imap_host": "imap.x.example", "smtp_host": "smtp.x.example", "username": "u", "password": "s3cret-1"}
    listed = [
        {**account, "name": 'Work "mail" ü', "imap_port": 1993, "smtp_port": 465},
        {**account, "name": "token", "auth_method": "oauth2", "oauth2_token": "t0ken-2"},
    ]
    accounts, _ = configured(tmp_path, monkeypatch, EMAIL_ACCOUNTS_JSON=json.dumps(listed))
    assert [each.account_name for each in accounts] == ['Work "mail" ü', "token"]
    assert [each.address for each in accounts] == ["u@x.example"] * 2
    assert [each.auth for each in accounts] == ["password", "oauth2"]
    assert [each.password.read() for each in accounts if each.password] == ["s3cret-1", "t0ken-2"]
    assert accounts[0].smtp is not None
    assert accounts[0].smtp.security == "tls"


def test_two_mailboxes_of_one_name_have_two_mirrors(tmp_path: Path) -> None:
    first = from_environment(ONE, tmp_path)
    second = from_environment({**ONE, "EMAIL_USERNAME": "bob@example.org"}, tmp_path)
    assert first.text.split("providers.")[1].split("]")[0] != second.text.split("providers.")[1].split("]")[0]


@pytest.mark.parametrize(
    ("variables", "allowed"),
    [
        ({"EMAIL_RECIPIENT_WHITELIST_DOMAINS": "a.example, b.example"}, ("*@a.example", "*@b.example")),
        ({"EMAIL_RECIPIENT_WHITELIST_ADDRESSES": "x@a.example"}, ("x@a.example",)),
        (
            {"EMAIL_RECIPIENT_WHITELIST_JSON": '{"domains": ["a.example"], "addresses": ["y@b.example"]}'},
            ("*@a.example", "y@b.example"),
        ),
    ],
)
def test_a_whitelist_is_the_outbound_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], allowed: tuple[str, ...]
) -> None:
    _, profile = configured(tmp_path, monkeypatch, **variables)
    assert profile.outbound is not None
    assert profile.outbound.to_allow == allowed


@pytest.mark.parametrize(
    "variables",
    [
        {"EMAIL_RECIPIENT_WHITELIST_DOMAINS": ""},
        {"EMAIL_RECIPIENT_WHITELIST_ADDRESSES": " , "},
        {"EMAIL_RECIPIENT_WHITELIST_JSON": "{}"},
    ],
)
def test_an_empty_whitelist_allows_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    _, profile = configured(tmp_path, monkeypatch, **variables)
    assert profile.outbound is None


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"EMAIL_RECIPIENT_WHITELIST_DOMAIN": "a.example"}, "EMAIL_RECIPIENT_WHITELIST_DOMAINS"),
        ({"EMAIL_RECIPIENTS_WHITELIST": "a.example"}, "EMAIL_RECIPIENTS_WHITELIST"),
        ({"EMAIL_WHITELIST_DOMAINS": "a.example"}, "EMAIL_WHITELIST_DOMAINS"),
        ({"EMAIL_RATE_LIMITS__SMTP_PER_HOUR": "5"}, "EMAIL_RATE_LIMITS__SMTP_PER_HOUR"),
        ({"EMAIL_RECIPIENT_WHITELIST_JSON": '{"domain": ["a.example"]}'}, "EMAIL_RECIPIENT_WHITELIST_JSON"),
        ({"EMAIL_RECIPIENT_WHITELIST_JSON": "a.example"}, "EMAIL_RECIPIENT_WHITELIST_JSON"),
        ({"EMAIL_RECIPIENT_WHITELIST_ADDRESSES": "*"}, "whitelist"),
        ({"EMAIL_RECIPIENT_WHITELIST_ADDRESSES": "a.example"}, "whitelist"),
        ({"EMAIL_RATE_LIMITS__SMTP_SENDS_PER_HOUR": "many"}, "EMAIL_RATE_LIMITS__SMTP_SENDS_PER_HOUR"),
        ({"EMAIL_IMAP_PORT": "ninety"}, "EMAIL_IMAP_PORT"),
        ({"EMAIL_AUTH_METHOD": "kerberos"}, "EMAIL_AUTH_METHOD"),
        ({"EMAIL_AUTH_METHOD": "oauth2"}, "EMAIL_OAUTH2_TOKEN"),
        ({"EMAIL_PASSWORD": ""}, "EMAIL_PASSWORD"),
        ({"EMAIL_SMTP_HOST": ""}, "EMAIL_SMTP_HOST"),
        ({"EMAIL_ACCOUNTS_JSON": "[]"}, "EMAIL_ACCOUNTS_JSON"),
        ({"EMAIL_ACCOUNTS_JSON": '[{"name": "x", "password": "geheim"}]'}, "EMAIL_ACCOUNTS_JSON"),
    ],
)
def test_what_cannot_be_used_is_named_without_a_secret(tmp_path: Path, variables: dict[str, str], named: str) -> None:
    with pytest.raises(EnvironmentUnusable) as caught:
        from_environment(ONE | variables, tmp_path)
    assert named in str(caught.value)
    assert "geheim" not in str(caught.value)


def test_other_variables_are_nobodys_business(tmp_path: Path) -> None:
    assert from_environment({**ONE, "EMAIL_SIGNATURE": "x", "PATH": os.environ["PATH"]}, tmp_path).text
    assert names_accounts(ONE)
    assert not names_accounts({"EMAIL_SIGNATURE": "x", "EMAIL_IMAP_HOST": ""})


def test_limits_and_the_workspace_are_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {
        "EMAIL_RATE_LIMITS__IMAP_REQUESTS_PER_MINUTE": "7",
        "EMAIL_RATE_LIMITS__SMTP_SENDS_PER_HOUR": "9",
        "EMAIL_WORKSPACE": str(tmp_path / "files"),
    }
    _, profile = configured(tmp_path, monkeypatch, **variables)
    assert (profile.limits.imap_per_minute, profile.limits.smtp_per_hour) == (7, 9)
    settings = load_settings(from_environment(ONE | variables, tmp_path).write(tmp_path))
    assert settings.server.workspace == tmp_path / "files"
    assert not settings.server.workspace_by_user
