"""What a check says: fine, odd or broken, and what to do about it."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal

State = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the examination, never with a secret.

    name: of the fault, for scripts. about: which mailbox, server or file.
    """

    name: str
    about: str
    state: State
    says: str
    fix: str = ""

    def as_json(self) -> dict[str, str]:
        """The same as an object."""
        return asdict(self)


def ok(name: str, about: object, says: str) -> Finding:
    """All is well."""
    return Finding(name, str(about), "ok", says)


def warn(name: str, about: object, says: str, fix: str) -> Finding:
    """It works, and something should be looked at."""
    return Finding(name, str(about), "warn", says, fix)


def fail(name: str, about: object, says: str, fix: str) -> Finding:
    """It does not work, or it is not safe."""
    return Finding(name, str(about), "fail", says, fix)


def worst(findings: Iterable[Finding]) -> State:
    """The state of all of them together."""
    states = {finding.state for finding in findings}
    return "fail" if "fail" in states else "warn" if "warn" in states else "ok"
