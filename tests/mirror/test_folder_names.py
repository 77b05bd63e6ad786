"""Folder names as people read them, whatever bytes a server sends."""

import pytest

from mirror.upstream.folders import folder_name


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        (b"inbox", "INBOX"),
        (b"Entw&APw-rfe", "Entwürfe"),
        (b"Ger&AOQ-te &- mehr", "Geräte & mehr"),
        (b"&ZeVnLIqe-", "日本語"),
        (b"&", "&"),
        (b"a&-&", "a&&"),
        (b"AT&T", "AT&T"),
        (b"&AO&Q-", "&AO&Q-"),
        (b"raw \xc3\xbcml", "raw üml"),
        (b"tab\there", "tab\there"),
        (b"bell\x07", "bell\ufffd"),
    ],
)
def test_a_name_is_decoded_where_it_can_be_and_shown_as_it_is_elsewhere(raw: bytes, name: str) -> None:
    assert folder_name(raw) == name
