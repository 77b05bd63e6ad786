"""Patterns of the configuration: which are taken, and where they match."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.pattern import PatternRefused, Patterns, check_pattern
from config.settings import ConfigError, parse_settings


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(", "missing )"),
        ("(?<=x)y", "invalid perl operator"),
        (r"(a)\1", "invalid escape sequence"),
        (r"\pL{1,1000}", "too large"),
        ("a*", "matches an empty text"),
        ("a\nb", "one line"),
        (r"\Qa", "is not taken"),
    ],
)
def test_a_pattern_that_cannot_be_used_is_refused_with_the_reason(pattern: str, reason: str) -> None:
    with pytest.raises(PatternRefused, match=reason.replace(")", r"\)").replace("(", r"\(")):
        check_pattern(pattern)


@pytest.mark.parametrize(
    ("rule", "named"),
    [
        ('["iban"]', "one_time_codes, card_numbers, ibans"),
        ("[{ pattern = '(' }]", "missing )"),
        ("[{ pattern = 'a', whit = 'b' }]", "whit: unknown key"),
        (f"[{{ pattern = '{'a' * 501}' }}]", "500 characters"),
        (f"[{{ pattern = 'a', with = '{'b' * 41}' }}]", "40 characters"),
        ("[{ with = 'b' }]", "pattern: this key is required"),
    ],
)
def test_a_redaction_that_cannot_be_used_is_named_when_the_file_is_read(rule: str, named: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_settings(f"[profiles.a.content]\nredact = {rule}", Path("postmirror.toml"))
    assert "redact.0" in str(refused.value)
    assert named in str(refused.value)


def test_attachments_beside_redaction_need_their_types_named() -> None:
    for key in ('redact = ["ibans"]', 'links = "strip"', 'quoted = "strip"'):
        with pytest.raises(ConfigError, match="name the types"):
            parse_settings(f"[profiles.a.content]\n{key}\nattachments = {{}}", Path("postmirror.toml"))
        text = f'[profiles.a.content]\n{key}\nattachments = {{ types = ["*/*"] }}'
        assert parse_settings(text, Path("postmirror.toml")).profiles["a"].content.attachments


@given(st.text(st.sampled_from("aK-1\u00fc\u4e2d\U0001f600 "), max_size=30))
def test_spans_count_characters_whatever_stands_before_them(text: str) -> None:
    patterns = Patterns(["K-?1", "(?i)k"])
    found = [text[start:end] for start, end in patterns.spans(0, text)]
    assert found == [each for each in found if each in ("K-1", "K1")]
    assert bool(found) == ("K1" in text or "K-1" in text)
    assert patterns.found_in(text) == ("K" in text)


def test_flags_and_alternatives_of_one_pattern_do_not_reach_another() -> None:
    patterns = Patterns(["(?i)a|b", "C"])
    assert patterns.first_in("B") == 0
    assert patterns.first_in("c") is None
    assert patterns.first_in("C") == 1
