"""One-time codes: found where a mail speaks of one, in the languages that mails of this kind come in."""

import pytest

from server.redaction.codes import one_time_codes
from server.redaction.plain import plain


def found(text: str, *, everywhere: bool = False) -> list[str]:
    """The codes of a text, as they are written there."""
    read = plain(text)
    return [text[slice(*read.original(span))] for span in one_time_codes(read.text, everywhere=everywhere)]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Your verification code is 123456.", "123456"),
        ("123 456 is your Google code", "123 456"),
        ("G-482913 is your Google verification code.", "G-482913"),
        ("Enter this code: X7K-9QP", "X7K-9QP"),
        ("Use the following code\n\n   4821\n\nto sign in", "4821"),
        ("Your one-time password:\n\n4 8 2 9 1 3", "4 8 2 9 1 3"),
        ("PIN: 0815", "0815"),
        ("https://example.org/login?pin=482913", "482913"),
        ("Ihr Best\u00e4tigungscode lautet 48-29-13", "48-29-13"),
        ("Votre code de v\u00e9rification : 829131", "829131"),
        ("Tu c\u00f3digo de verificaci\u00f3n es 829131", "829131"),
        ("Il tuo codice di verifica: 829131", "829131"),
        ("\u041a\u043e\u0434: 482913", "482913"),
        ("\u60a8\u7684\u9a8c\u8bc1\u7801\u662f 829131", "829131"),
        ("\u8a8d\u8a3c\u756a\u53f7 \uff18\uff12\uff19\uff11\uff13\uff11", "\uff18\uff12\uff19\uff11\uff13\uff11"),
        ("\uc778\uc99d\ubc88\ud638 829131", "829131"),
        ("Your verifi\u200bcation code is 12\u200b3456", "12\u200b3456"),
        ("Type this verification\ncode in: 482913", "482913"),
        ("Your login code: x7k9qz", "x7k9qz"),
        ("Your login code: x7K-9qz", "x7K-9qz"),
        ("Your login code: 482-91307", "482-91307"),
        ("Your login code: 482 - 913", "482 - 913"),
        ("Your login code:\n482\n913", "482\n913"),
    ],
)
def test_a_code_is_found_beside_the_words_for_one(text: str, code: str) -> None:
    assert found(text) == [code]


@pytest.mark.parametrize("code", ["4829", "482913", "48291307", "X7K9QZ", "x7k9qz"])
@pytest.mark.parametrize(
    "between", [" | ", "\n", "\n\n", "\n- ", "\n> ", ", ", ".", "/", ":", "_", "\u00b7", " \u2003 ", "\U0001f449"]
)
def test_a_code_with_each_character_in_a_box_of_its_own_is_one_code(code: str, between: str) -> None:
    shown = between.join(code)
    assert found(f"Your verification code is:\n\n{shown}\n\nIt expires in 10min.") == [shown]


@pytest.mark.parametrize(
    "text",
    [
        "Meeting 2026 in room 4711",
        "The parcel 482913 has arrived",
        "Your verification code comes by post on 2026-11-30 at 10:45 and costs 20.50",
        "Your verification code comes on the 10th at 9am, within 15min, in 2 letters",
        f"Your security code was changed.{' ' * 400}Room 4711",
    ],
)
def test_other_numbers_stay(text: str) -> None:
    assert found(text) == []


def test_everywhere_means_the_whole_text() -> None:
    assert found(f"482913{' ' * 400}AB12CD and words", everywhere=True) == ["482913", "AB12CD"]
