"""The audit log: whether its chain is whole."""

from collections.abc import Iterator

from config.identity import Settings
from server.amounts import counted
from server.audit.chain import Chain
from server.audit.report import verify
from server.doctor.finding import Finding, fail, ok
from server.key import DataKey, KeyUnsafe


def check_audit(settings: Settings) -> Iterator[Finding]:
    """Looked at only where there is a log and its key."""
    data_dir = settings.server.data_dir
    if not (data_dir / "audit").is_dir() or not (data_dir / "key").exists():
        return
    try:
        verdict = verify(Chain(data_dir, DataKey(data_dir), settings.audit.file_size, settings.audit.files))
    except (KeyUnsafe, OSError):
        return  # told by the check of permissions
    if verdict.problems:
        yield fail(
            "audit",
            data_dir / "audit",
            f"{len(verdict.problems)} places do not follow from what is before: {verdict.problems[0]}",
            "postmirror audit verify lists them; compare with your copy of the log",
        )
    else:
        yield ok("audit", data_dir / "audit", f"whole: {counted(verdict.lines, 'line')}")
