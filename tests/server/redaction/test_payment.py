"""Card numbers and IBANs: found in every spelling, and only with the right check digits."""

from collections.abc import Callable, Iterable

import pytest

from server.redaction.payment import card_numbers, ibans
from server.redaction.plain import plain

CARD = "4111111111111111"
IBAN = "DE89370400440532013000"
FULL_WIDTH = {ord(str(digit)): chr(0xFF10 + digit) for digit in range(10)}
ARABIC = {ord(str(digit)): chr(0x0660 + digit) for digit in range(10)}
BOLD = {ord(str(digit)): chr(0x1D7CE + digit) for digit in range(10)}


Rule = Callable[[str], Iterable[tuple[int, int]]]


def found(rule: Rule, text: str) -> list[str]:
    """What a rule finds in a text, as it is written there."""
    read = plain(text)
    return [text[slice(*read.original(span))] for span in rule(read.text)]


@pytest.mark.parametrize(
    "number",
    [
        CARD,
        "5555 5555 5555 4444",
        "3782 822463 10005",
        "4111-1111-1111-1111",
        "4111.1111.1111.1111",
        "4111_1111/1111|1111",
        "41-11 1111.111-1 1111",
        "4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
        "4111\n1111\n1111\n1111",
        "4111 | 1111 | 1111 | 1111",
        "4111\u00a01111\u20111111\u20131111",
        "4111\u20031111 \u00b7 1111 \u2022 1111",
        CARD.translate(FULL_WIDTH),
        CARD.translate(ARABIC),
        CARD.translate(BOLD),
        "4111\u200b1111\u2060111\u00ad1\ufeff1111",
        "4\u03361\u03361\u03361\u0336111111111111",
        "\u2463\u2460\u2460\u2460111111111111",
    ],
)
def test_a_card_number_is_found_in_every_spelling(number: str) -> None:
    assert found(card_numbers, f"pay with {number}, thanks") == [number]
    assert found(card_numbers, f"x2 {number} 12/29 123")[0] == number


@pytest.mark.parametrize(
    "text",
    ["4111 1111 1111 1112", "1111 1111 1111 1117", "411111111111", "order 20260301123456", "4111, 1111, 1111, 1111"],
)
def test_what_has_no_right_check_digit_is_no_card_number(text: str) -> None:
    assert found(card_numbers, text) == []


@pytest.mark.parametrize(
    "account",
    [
        IBAN,
        "DE89 3704 0044 0532 0130 00",
        "de89-3704-0044-0532-0130-00",
        "GB82 WEST 1234 5698 7654 32",
        "NO93 8601 1117 947",
        "MT84 MALT 0110 0001 2345 MTLC AST0 01S",
        "D E 8 9 3 7 0 4 0 0 4 4 0 5 3 2 0 1 3 0 0 0",
        "\uff24\uff25" + "89370400440532013000".translate(FULL_WIDTH),
        "D\u041589 3704 0044 0532 0130 00",
        "DE89\u200b3704\u00a00044\u20130532 0130 00",
    ],
)
def test_an_iban_is_found_in_every_spelling(account: str) -> None:
    assert found(ibans, f"IBAN: {account}") == [account]
    assert found(ibans, f"AT12 {account}EUR, ok") == [account]


@pytest.mark.parametrize("text", ["DE88 3704 0044 0532 0130 00", "DE89 3704 0044 0532", "ZZ89 3704 0044 0532 0130 00"])
def test_what_has_no_right_check_digits_is_no_iban(text: str) -> None:
    assert found(ibans, text) == []


@pytest.mark.parametrize(("rule", "piece"), [(card_numbers, "4 "), (ibans, "DE8900 ")])
def test_a_mail_made_of_numbers_alone_is_cut_where_looking_ends(rule: Rule, piece: str) -> None:
    text = piece * 60_000
    *_, (_, end) = rule(text)
    assert end == len(text)
