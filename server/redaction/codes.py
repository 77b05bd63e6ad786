"""One-time codes in a plain text: short numbers, and short words with digits, of mails that speak of such a code.

A heuristic, and wide on purpose. A number counts where words for a code stand within 300 characters, and anywhere in
the text when the subject has them; what is part of a date, a time, a price or a longer number does not.
"""

import re
from collections.abc import Iterator

from config.pattern import Patterns
from server.redaction.plain import Span

_REACH = 300
CODE_WORDS = (
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
"""For RE2: words for a one-time code."""
_WORDS = Patterns([CODE_WORDS])
_CANDIDATE = re.compile(
    r"(?<![0-9A-Za-z])(?<![0-9][.,:/-])(?!(?:19|20)[0-9]{2}-[01][0-9]-[0-3][0-9](?![0-9]))(?:[A-Za-z]{1,3}-)?"
    r"(?:[0-9]{4,10}|[0-9]{2,4}(?:[ -][0-9]{2,4}){1,3}|[0-9](?:[ -][0-9]){3,9}"
    r"|(?=[A-Z0-9-]{0,11}[0-9])(?=[A-Z0-9-]{0,11}[A-Z])[A-Z0-9]{3,10}(?:-[A-Z0-9]{3,5}){0,2})"
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
