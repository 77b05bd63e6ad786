"""One-time codes in a plain text: short numbers, and short words with digits, of mails that speak of such a code.

A heuristic, and wide on purpose. A number counts where words for a code stand within 300 characters, and anywhere in
the text when the subject has them; what is part of a date, a time, a price or a longer number does not. A code whose
characters stand in boxes, cells or lines of their own is one code.
"""

import re
from collections.abc import Iterator

from config.pattern import Patterns
from server.redaction.plain import Span

_REACH = 300
_CODE_WORDS = (
    r"(?i)one[- ]?time|single[- ]use|pass[- ]?code|pass ?key code|\botps?\b|\b(?:m?tan|pin)\b|2fa|two[- ]factor"
    r"|(?:verif\w*|security|confirm\w*|auth\w*|access|login|log[- ]in|sign[- ]?in|activation|recovery|reset|unlock"
    r"|registration|validation|temporary|approval)[ -](?:code|number|password|pin|token)"
    r"|(?:code|number|password|pin) (?:to|for) (?:verif|log|sign|confirm|auth|reset)\w*"
    r"|(?:your|the|this|enter|use|following) (?:\w+ ){0,2}code\b|\bcode ?(?:is\b|:)"
    r"|einmal[- ]?(?:code|passwort|kennwort|pin)|(?:best.tigungs|verifizierungs|sicherheits|anmelde|zugangs|freischalt|"
    r"aktivierungs|pr.f|login)-?(?:code|nummer|pin)|\bcode (?:lautet|zur?m?)\b"
    r"|code (?:de|d') ?(?:v.rification|s.curit.|confirmation|connexion|validation|acc.s)|code . usage unique"
    r"|c.digo (?:de|.nico)|codice (?:di|monouso)|wachtwoord|verificatiecode|kod (?:weryf|jednor|potw)\w*"
    r"|bekr.ftelsekod|engangskod\w*|engangskode|vahvistuskoodi|do.rulama kodu"
    r"|[\x{41a}\x{43a}]\x{43e}\x{434}|\x{9a8c}\x{8bc1}\x{7801}|\x{9a57}\x{8b49}\x{78bc}|\x{52a8}\x{6001}\x{7801}"
    r"|\x{6821}\x{9a8c}\x{7801}|\x{8a8d}\x{8a3c}|\x{78ba}\x{8a8d}\x{30b3}\x{30fc}\x{30c9}"
    r"|\x{30ef}\x{30f3}\x{30bf}\x{30a4}\x{30e0}|\x{c778}\x{c99d} ?(?:\x{bc88}\x{d638}|\x{cf54}\x{b4dc})"
)
CODE_WORDS = _CODE_WORDS.replace("[- ]", r"[-\s]").replace(" ", r"\s")
"""For RE2: words for a one-time code, also where a line ends between two of them."""
_WORDS = Patterns([CODE_WORDS])
_UNIT = r"(?:st|nd|rd|th|[ap]m|h|hrs?|hours?|d|days?|m|min|mins|minutes?|s|secs?|seconds?|[kmgt]i?b|[km]|px|pt|eur|usd)"
_CANDIDATE = re.compile(
    r"(?<![0-9A-Za-z])(?<![0-9][.,:/-])(?!(?:19|20)[0-9]{2}-[01][0-9]-[0-3][0-9](?![0-9]))"
    # One character in each box.
    r"(?:(?=[A-Za-z]?(?:[\W_]{1,5}[A-Za-z]){0,9}[\W_]{0,5}[0-9])"
    r"[A-Za-z0-9](?:[\W_]{1,5}[A-Za-z0-9](?![A-Za-z0-9])){3,23}"
    r"|(?:[A-Za-z]{1,3}-)?(?:"
    r"[0-9]{2,6}(?:[ \n|_\u00b7\u2022-]{1,4}[0-9]{2,6}){1,3}|[0-9]{4,10}"
    rf"|(?![0-9]{{1,4}}{_UNIT}(?![0-9A-Za-z]))"
    r"(?=[A-Z0-9-]{0,11}[0-9])(?=[A-Z0-9-]{0,11}[A-Z])[A-Z0-9]{3,10}(?:-[A-Z0-9]{3,5}){0,2}"
    rf"|(?!(?i:[0-9]{{1,4}}{_UNIT})(?![0-9A-Za-z]))"
    r"(?=[A-Za-z0-9-]{0,11}[0-9])(?=[A-Za-z0-9-]{0,11}[A-Za-z])(?:[A-Za-z0-9]{3,10}(?:-[A-Za-z0-9]{3,5}){1,2}|[A-Za-z0-9]{4,10})))"
    r"(?![0-9A-Za-z])(?![.,:/-][0-9])"
)


def speaks_of_codes(text: str) -> bool:
    """Whether a text has words for a one-time code."""
    return _WORDS.found_in(text)


def one_time_codes(text: str, *, everywhere: bool) -> Iterator[Span]:
    """Where codes are: near the words for one, or everywhere in the text."""
    words = [(0, len(text))] if everywhere else _WORDS.spans(0, text)
    done = 0
    for start, end in words:
        for match in _CANDIDATE.finditer(text, max(done, start - _REACH, 0), end + _REACH):
            yield match.span()
        done = max(done, end + _REACH)
