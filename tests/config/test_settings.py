"""Reading the configuration: what is accepted, and what an error says."""

from datetime import timedelta
from pathlib import Path

import pytest

from config.settings import ConfigError, find_config, load_settings, parse_settings

MINIMAL = """
[users.alice.providers.work]
address = "alice@example.org"
password = { env = "ALICE_WORK" }
imap = { host = "imap.example.org", port = 993 }

[profiles.assistant]
"""


def written(folder: Path, text: str, mode: int = 0o600) -> Path:
    """A configuration file."""
    path = folder / "postmirror.toml"
    path.touch(mode=mode)
    path.chmod(mode)
    path.write_text(text, "utf-8")
    return path


def test_minimal_file_gets_the_defaults(tmp_path: Path) -> None:
    settings = load_settings(written(tmp_path, MINIMAL))
    provider = settings.users["alice"].providers["work"]
    assert provider.sync.interval == timedelta(minutes=2)
    assert provider.login(provider.imap)[0] == "alice@example.org"
    assert settings.server.url == "http://127.0.0.1:8765"
    assert settings.profiles["assistant"].outbound is None


@pytest.mark.parametrize(
    ("text", "key", "fix"),
    [
        ("[users.alice.providers.work]\naddres = 1", "users.alice.providers.work.addres", "check its spelling"),
        ("[users.alice.providers.work]\naddress = 'a@b'", "users.alice.providers.work.imap", "required"),
        ("[users.Alice.providers.work]\naddress = 'a@b'", "users.Alice.[key]", "a-z"),
        ("[server]\nhost = '0.0.0.0'", "server", "behind_proxy"),
        ("[server]\nport = 0", "server.port", "greater than or equal to 1"),
        ("[server]\ntls_cert_file = 'x'", "server", "tls_key_file"),
        (MINIMAL.replace("993", '993, security = "plain"'), "users.alice.providers.work.imap", '"starttls"'),
        (MINIMAL.replace('{ env = "ALICE_WORK" }', '"hunter2"'), "users.alice.providers.work.password", "env"),
        (
            MINIMAL.replace('env = "ALICE_WORK"', 'env = "A", file = "b"'),
            "users.alice.providers.work.password",
            "one of",
        ),
        (MINIMAL.replace("imap =", 'provider = "nowhere"\nimap ='), "users.alice.providers.work.provider", "fastmail"),
        (MINIMAL + "\n[profiles.assistant.outbound]\n", "profiles.assistant.outbound.to_allow", "required"),
        (
            MINIMAL + "\n[profiles.assistant.outbound]\nto_allow = []\n",
            "profiles.assistant.outbound.to_allow",
            "1 item",
        ),
        (
            MINIMAL
            + "\n[profiles.agent]\ntools = 'gateway'\nallow = ['append']\n"
            + "[profiles.agent.outbound]\nto_allow = ['*']\nreply_only = true\n",
            "profiles.agent",
            "remove it, or reply_only",
        ),
        ("[[tokens]]\nname = 'a'\nsha256 = 'x'\nuser = 'a'\nprofile = 'b'", "tokens.0.sha256", "64 digits"),
        (
            MINIMAL + f"[[tokens]]\nname = 'a'\nsha256 = '{'0' * 64}'\nuser = 'bob'\nprofile = 'assistant'",
            "the file",
            "[users.bob]",
        ),
    ],
)
def test_an_error_names_file_key_and_fix(tmp_path: Path, text: str, key: str, fix: str) -> None:
    path = tmp_path / "postmirror.toml"
    with pytest.raises(ConfigError) as caught:
        parse_settings(text, path)
    message = str(caught.value)
    assert f"{path}: {key}" in message
    assert fix in message
    assert "hunter2" not in message


def test_a_file_that_others_can_write_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="chmod 600"):
        load_settings(written(tmp_path, MINIMAL, 0o622))


def test_a_missing_file_says_how_to_begin(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="postmirror init"):
        load_settings(tmp_path / "nothing.toml")


@pytest.mark.parametrize("text", ["[broken", "a = 1\na = 2", "\x00"])
def test_what_is_not_toml_is_said_with_its_place(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="not TOML"):
        parse_settings(text, tmp_path / "postmirror.toml")


def test_paths_count_from_the_files_folder(tmp_path: Path) -> None:
    text = MINIMAL.replace('env = "ALICE_WORK"', 'file = "secret"').replace("993 }", '993, ca_file = "ca.pem" }')
    settings = load_settings(written(tmp_path, '[server]\ndata_dir = "data"\n' + text))
    provider = settings.users["alice"].providers["work"]
    assert settings.server.data_dir == tmp_path / "data"
    assert provider.password is not None
    assert provider.password.file == tmp_path / "secret"
    assert provider.imap.ca_file == tmp_path / "ca.pem"


def test_the_file_is_looked_for_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("POSTMIRROR_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    assert find_config() == tmp_path / "xdg" / "postmirror" / "postmirror.toml"
    written(tmp_path, MINIMAL)
    assert find_config() == Path("postmirror.toml")
    monkeypatch.setenv("POSTMIRROR_CONFIG", "/elsewhere.toml")
    assert find_config() == Path("/elsewhere.toml")
    assert find_config(Path("given.toml")) == Path("given.toml")


def test_a_preset_gives_way_to_keys_of_its_own(tmp_path: Path) -> None:
    text = MINIMAL.replace(
        'imap = { host = "imap.example.org", port = 993 }', 'provider = "gmail"\nimap = { port = 1993 }'
    )
    imap = parse_settings(text, tmp_path / "x").users["alice"].providers["work"].imap
    assert (imap.host, imap.port) == ("imap.gmail.com", 1993)


@pytest.mark.parametrize("text", ["", "\n  \n", "# everything commented out\n"])
def test_a_file_that_says_nothing_is_broken(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="says nothing"):
        parse_settings(text, tmp_path / "postmirror.toml")
