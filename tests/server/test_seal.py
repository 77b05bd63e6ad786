"""Opaque words: only we can make them, and each is good for one thing."""

import os
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.key import KeyUnsafe, load_key
from server.seal import NotSealed, Seal, TooLongToSeal

KEY = bytes(range(32))
SEAL = Seal(KEY, "alice", "work", "assistant")
OTHERS = [
    Seal(KEY, "bob", "work", "assistant"),
    Seal(KEY, "alice", "home", "assistant"),
    Seal(KEY, "alice", "work", "reader"),
    Seal(KEY, "alicework", "", "assistant"),
    Seal(bytes(32), "alice", "work", "assistant"),
]
epochs = st.integers(0, 2**32 - 1)
ids = st.integers(0, 2**63 - 1)


@given(epochs, st.lists(ids, max_size=20))
def test_a_virtual_uid_leads_back_to_its_message(epoch: int, message_ids: list[int]) -> None:
    uids = SEAL.uids(epoch, message_ids)
    assert [SEAL.message_id(epoch, uid) for uid in uids] == message_ids
    assert all(len(uid) == 22 for uid in uids)


@given(epochs, ids)
def test_a_virtual_uid_is_noise_to_every_other_identity_and_epoch(epoch: int, message_id: int) -> None:
    [uid] = SEAL.uids(epoch, [message_id])
    for other in OTHERS:
        with pytest.raises(NotSealed):
            other.message_id(epoch, uid)
    with pytest.raises(NotSealed):
        SEAL.message_id(epoch ^ 1, uid)


def test_no_flipped_bit_and_no_other_spelling_is_taken() -> None:
    [uid] = SEAL.uids(7, [4711])
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_+/="
    for place in range(len(uid)):
        for letter in alphabet:
            forged = uid[:place] + letter + uid[place + 1 :]
            if forged != uid:
                with pytest.raises(NotSealed):
                    SEAL.message_id(7, forged)


@given(st.lists(st.one_of(st.integers(-(2**62), 2**62), st.text(max_size=16)), max_size=5))
def test_a_cursor_opens_for_the_request_it_was_made_for_only(position: list[int | str]) -> None:
    cursor = SEAL.cursor(position, [b"tool", b"folder"])
    assert list(SEAL.position(cursor, [b"tool", b"folder"])) == position
    assert len(cursor) <= 512
    for bound_to in ([b"tool", b"other"], [b"toolf", b"older"], [b"tool"], [b"tool", b"folder", b""], []):
        with pytest.raises(NotSealed):
            SEAL.position(cursor, bound_to)
    for other in OTHERS:
        with pytest.raises(NotSealed):
            other.position(cursor, [b"tool", b"folder"])


@given(st.text(max_size=600))
def test_no_text_is_taken_for_a_cursor_or_an_attachment(text: str) -> None:
    with pytest.raises(NotSealed):
        SEAL.position(text, [])
    with pytest.raises(NotSealed):
        SEAL.attachment_of(text)


def test_a_cursor_is_no_attachment_id_and_the_other_way_round() -> None:
    with pytest.raises(NotSealed):
        SEAL.attachment_of(SEAL.cursor((1, 2, 3, "2"), []))
    with pytest.raises(NotSealed):
        SEAL.position(SEAL.attachment((1, 2, 3, "2")), [])
    assert SEAL.attachment_of(SEAL.attachment((1, 2, 3, "2.1"))) == (1, 2, 3, "2.1")


def test_a_position_that_does_not_fit_is_refused() -> None:
    with pytest.raises(TooLongToSeal):
        SEAL.cursor([os.urandom(400).hex()], [])


def test_the_data_key_is_made_once_and_for_its_owner_only(data_dir: Path) -> None:
    keys: list[bytes] = []
    threads = [threading.Thread(target=lambda: keys.append(load_key(data_dir))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(keys) == 8
    assert len(set(keys)) == 1
    assert stat.S_IMODE((data_dir / "key").stat().st_mode) == 0o600
    assert [file.name for file in data_dir.iterdir()] == ["key"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602])
def test_a_data_key_that_others_can_touch_is_refused(data_dir: Path, mode: int) -> None:
    load_key(data_dir)
    (data_dir / "key").chmod(mode)
    with pytest.raises(KeyUnsafe, match="chmod 600"):
        load_key(data_dir)


@pytest.mark.parametrize("content", [b"", b"x" * 31, b"x" * 33])
def test_a_damaged_data_key_is_refused(data_dir: Path, content: bytes) -> None:
    load_key(data_dir)
    (data_dir / "key").write_bytes(content)
    with pytest.raises(KeyUnsafe, match="not a data key"):
        load_key(data_dir)
