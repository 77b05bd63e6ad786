"""Links: what of each is left out."""

import pytest

from server.redaction.links import link_spans


def without(text: str, *, keep_domain: bool) -> str:
    """The text with a star in place of what is left out."""
    for (start, end), _ in reversed(list(link_spans(text, keep_domain=keep_domain))):
        text = f"{text[:start]}*{text[end:]}"
    return text


@pytest.mark.parametrize(
    ("text", "domain", "stripped"),
    [
        ("see https://example.org/reset?token=abc now", "see https://example.org/* now", "see * now"),
        ("see https://example.org.", "see https://example.org.", "see *."),
        ("shop <https://shop.example/a/b>", "shop <https://shop.example/*>", "shop *"),
        ("https://bob:pw@example.org/x", "https://*@example.org/*", "*"),
        ("https://example.org?x=1", "https://example.org?*", "*"),
        ("HTTPS://EXAMPLE.ORG/X", "HTTPS://EXAMPLE.ORG/*", "*"),
        ("www.example.org/x", "www.example.org/*", "*"),
        ("example.org/x and example.org", "example.org/* and example.org", "* and example.org"),
        ("mailto:bob@example.org?subject=x", "mailto:bob@example.org?*", "*"),
        ("data:text/html,secret", "data:*", "*"),
        ("ftp://files.example.org/x", "ftp://files.example.org/*", "*"),
        ("slack://channel/x", "slack://channel/*", "*"),
        ("note: nothing here, 10:30, a/b, e.g. this", None, None),
    ],
)
def test_of_a_link_the_domain_or_nothing_stays(text: str, domain: str | None, stripped: str | None) -> None:
    assert without(text, keep_domain=True) == (domain or text)
    assert without(text, keep_domain=False) == (stripped or text)
