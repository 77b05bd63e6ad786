"""What a sync pass did and how far it is, for people and for `--json`."""

import json
from dataclasses import asdict, dataclass, field


@dataclass
class FolderReport:
    """What a pass did in one folder. bytes: octets of mail fetched. closed: the server refuses to open it, for good."""

    name: str
    messages: int = 0
    new: int = 0
    changed: int = 0
    removed: int = 0
    bytes: int = 0
    seconds: float = 0.0
    error: str = ""
    closed: bool = False


@dataclass
class Report:
    """What a pass did. searchable_s: seconds from its start until the last text was indexed, 0 when none was.

    waiting: messages whose texts wait for another day, because the limit of this one is reached.
    """

    seconds: float = 0.0
    searchable_s: float = 0.0
    folders: dict[int, FolderReport] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)
    waiting: int = 0

    @property
    def complete(self) -> bool:
        """Whether every folder that can be opened was brought to agree, and nothing waits."""
        return not self.waiting and not any(folder.error and not folder.closed for folder in self.folders.values())

    def as_json(self) -> str:
        """One object: `seconds`, `searchable_s`, `complete`, `dropped`, `waiting`, and `folders` by name."""
        return json.dumps(
            {
                "seconds": round(self.seconds, 3),
                "searchable_s": round(self.searchable_s, 3),
                "complete": self.complete,
                "dropped": self.dropped,
                "waiting": self.waiting,
                "folders": {folder.name: asdict(folder) for folder in self.folders.values()},
            }
        )

    @property
    def work(self) -> int:
        """How many messages were new, changed or removed."""
        return sum(folder.new + folder.changed + folder.removed for folder in self.folders.values())


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a pass has come: texts stored of those known to be missing when it began filling."""

    folder: str
    done: int
    total: int
