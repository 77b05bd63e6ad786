import re
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.fold import LONG_WORD, LONGEST_WORD, QUIET, fold, fold_keeping_separators, holds_folded, is_unspaced, people

ACCENTS = {
    chr(code)
    for low, high in (
        (0x300, 0x36F),
        (0x483, 0x489),
        (0x1AB0, 0x1AFF),
        (0x1DC0, 0x1DFF),
        (0x20D0, 0x20FF),
        (0xFE20, 0xFE2F),
    )
    for code in range(low, high + 1)
}
EVERY_CHARACTER = [
    *(each for each in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(each) not in ("Cn", "Co", "Cs")),
    *("\ue000", "\uf8ff", "\U00100000", "\u0378", "\U000effff"),
]
"""All that are assigned, and some of those for private use and of those that never will be."""


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("Straße", "strasse"),
        ("ﬁnance", "finance"),
        ("Café CAFÉ cafe\u0301", "cafe cafe cafe"),
        ("Ünïcödé", "unicode"),
        ("ΟΔΟΣ Ὀδός", "οδοσ οδοσ"),
        ("Ёлка Йод", "елка иод"),
        ("İstanbul", "istanbul"),
        ("①½\uff21\uff22\u00a0\uff58", "11\u20442ab x"),
        ("がか", "がか"),
        ("ガ", "ガ"),
        ("เก้า", "เก้า"),
        ("שָׁלוֹם", "שָׁלוֹם"),
        ("user@Example.COM, C++!", "user@example.com, c++!"),
    ],
)
def test_folded_text_keeps_separators_and_drops_case_and_accents(text: str, folded: str) -> None:
    assert fold_keeping_separators(text) == folded


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("user@Example.COM, C++!", "user example com c"),
        ("foo_bar\x00baz", "foo bar baz"),
        ("会议 meeting纪要", "会 议 meeting 纪 要"),
        ("ราคา", "ร า ค า"),
        ("한국어", "한 국 어"),
        ("hi🎉🎉 5€", "hi 🎉 🎉 5 €"),
        ("हिन्दी", "हिन्दी"),
        ("x" * LONGEST_WORD, "x" * LONGEST_WORD),
        ("a " + "x" * (LONGEST_WORD + 1) + " b", f"a {LONG_WORD} b"),
    ],
)
def test_index_holds_these_words(text: str, words: str) -> None:
    assert fold(text).split() == words.split()


@pytest.mark.parametrize("before", ["", "a ", "b" * 249 + " ", "会", "c" * 600 + " "])
@pytest.mark.parametrize("letter", ["x", "ß", "я"])
def test_words_that_are_too_long_are_replaced_wherever_they_stand(before: str, letter: str) -> None:
    for length in (
        LONGEST_WORD // 2,
        LONGEST_WORD - 1,
        LONGEST_WORD,
        LONGEST_WORD + 1,
        LONGEST_WORD + 2,
        3 * LONGEST_WORD,
    ):
        folded = fold_keeping_separators(letter * length)
        word = folded if len(folded) <= LONGEST_WORD else LONG_WORD
        assert fold(f"{before}{letter * length} after").split()[-2:] == [word, "after"]


def test_lower_case_before_folding_changes_no_character() -> None:
    assert [each for each in EVERY_CHARACTER if _reference(each) != fold_keeping_separators(each)] == []


def test_every_character_maps_to_itself_a_blank_or_a_word_of_its_own() -> None:
    for each in EVERY_CHARACTER:
        for character in fold_keeping_separators(each):
            word = fold(character)
            assert word in (character, " ", f" {character} ")
            assert (word == f" {character} ") == is_unspaced(character)


@given(st.text())
def test_folding_in_runs_equals_folding_as_a_whole(text: str) -> None:
    assert fold_keeping_separators(text) == _reference(text)


NEIGHBOURS = st.text(
    st.sampled_from(
        "aeAEßéÄǆ\u03c3Σςйж\u0131İKÅ①ﬁ…、が か\u3099\uff9e각가\u11a8\u1100\u1161\u0301\u0308\u0345\u09be\u09c7ไทยै\n -x"
    )
)


@given(NEIGHBOURS)
def test_folding_character_by_character_equals_folding_as_a_whole(text: str) -> None:
    assert fold_keeping_separators(text) == _reference(text)


@given(NEIGHBOURS, NEIGHBOURS, NEIGHBOURS)
def test_a_pattern_is_found_unfolded_where_it_is_found_folded(before: str, pattern: str, after: str) -> None:
    text, folded = before + pattern + after, fold_keeping_separators(pattern)
    assert holds_folded(text, folded) == (folded in _reference(text))
    assert holds_folded(before + after, folded) == (folded in _reference(before + after))


@given(st.text() | NEIGHBOURS)
def test_words_of_a_text_are_the_words_of_its_characters(text: str) -> None:
    characters = fold_keeping_separators(text)
    assert fold(text) == "".join(map(fold, characters))


@given(st.text())
def test_folding_twice_changes_nothing(text: str) -> None:
    once = fold_keeping_separators(text)
    assert fold_keeping_separators(once) == once


@given(st.text(max_size=30), st.text(max_size=6), st.text(max_size=30))
def test_what_is_part_of_a_folded_text_is_a_run_of_parts_of_its_words(before: str, pattern: str, after: str) -> None:
    pattern = fold_keeping_separators(pattern)
    text = fold_keeping_separators(before) + pattern + fold_keeping_separators(after)
    assert _squeezed(fold(pattern)) in _squeezed(fold(text))


def test_addresses_are_searched_as_a_header_shows_them() -> None:
    assert (
        people('[["Alice B","alice@example.org"],["","bob@example.org"]]')
        == "Alice B <alice@example.org>, bob@example.org"
    )


def _squeezed(words: str) -> str:
    return " ".join(words.split(" "))


def _reference(text: str) -> str:
    apart = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return unicodedata.normalize("NFC", "".join(each for each in apart if each not in ACCENTS))


def test_quiet_characters_fold_to_no_ascii_whatever_stands_around_them() -> None:
    quiet = re.findall(f"[{QUIET}]", "".join(EVERY_CHARACTER))
    assert len(quiet) > 40_000
    for each in quiet:
        folded = fold_keeping_separators(f"x{each.lower()}y")
        assert folded[0] + folded[-1] == "xy"
        assert folded[1:-1]
        assert not any(character.isascii() for character in folded[1:-1]), hex(ord(each))
