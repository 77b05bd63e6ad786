"""The folders of a mailbox, how large they are, and how long a first sync will take."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from config.provider import Provider
from mirror.credential import Credential
from mirror.errors import UpstreamRefused
from mirror.folder_names import with_roles, with_rule
from mirror.pace import done_by
from mirror.upstream import Upstream

SAMPLE = 200
"""Messages of a folder whose sizes are asked for; the rest is taken to be like them."""
_LONGEST = 20.0
_RATE = 1_000_000.0
_MESSAGES = 100.0
"""Octets and messages a second that a first sync gets through, on a common line and machine."""


@dataclass(frozen=True, slots=True)
class Folder:
    """One folder. messages: None when the server does not say. octets: estimated from a sample of its messages."""

    name: str
    role: str
    messages: int | None
    octets: int
    wanted: bool


@dataclass(frozen=True, slots=True)
class Mailbox:
    """What was seen. daily: octets that the server allows in a day, 0 for no known limit."""

    folders: tuple[Folder, ...]
    daily: int

    @property
    def counted(self) -> Sequence[Folder]:
        """The folders whose mail is fetched: with labels, what is in several of them is fetched once."""
        everything = [folder for folder in self.folders if folder.role == "\\All" and folder.wanted]
        apart = [folder for folder in self.folders if folder.role in ("\\Junk", "\\Trash") and folder.wanted]
        return everything + apart if everything else [folder for folder in self.folders if folder.wanted]

    @property
    def messages(self) -> int:
        """How many messages a first sync fetches, about."""
        return sum(folder.messages or 0 for folder in self.counted)

    @property
    def octets(self) -> int:
        """How much a first sync fetches, about."""
        return sum(folder.octets for folder in self.counted)

    def seconds(self) -> float:
        """How long a first sync takes, about, the server's daily limit counted."""
        now = datetime.now(UTC)
        rate = self.octets / max(self.octets / _RATE, self.messages / _MESSAGES, 1.0)
        ends = done_by(self.octets, rate, daily=self.daily, today=0, now=now)
        return (ends - now).total_seconds() if ends else 0.0


def look(provider: Provider, credential: Credential) -> Mailbox:
    """Log in and look, changing nothing. Raises AuthenticationRefused, UpstreamUnavailable and other UpstreamErrors."""
    until = time.monotonic() + _LONGEST
    with Upstream.connect(provider, credential=credential) as upstream:
        listed, statuses = upstream.list_folders()
        listed = [folder for folder in with_rule(with_roles(listed), provider.sync) if folder.selectable]
        statuses = {**upstream.statuses([each.raw for each in listed if each.raw not in statuses]), **statuses}
        counts = {raw: status.messages for raw, status in statuses.items()}
        sizes: dict[bytes, float] = {}
        for folder in sorted(listed, key=lambda each: -counts.get(each.raw, 0)):
            if counts.get(folder.raw) and time.monotonic() < until:
                sizes[folder.raw] = _mean_size(upstream, folder.raw)
        seen = sum(counts[raw] for raw in sizes)
        common = sum(size * counts[raw] for raw, size in sizes.items()) / seen if seen else 0.0
        daily = provider.sync.daily_bytes if provider.sync.daily_bytes is not None else upstream.quirk.daily_bytes
        folders = tuple(
            Folder(
                each.name,
                each.role,
                counts.get(each.raw),
                int((sizes.get(each.raw) or common) * counts.get(each.raw, 0)),
                each.wanted,
            )
            for each in listed
        )
        return Mailbox(folders, daily)


def _mean_size(upstream: Upstream, raw: bytes) -> float:
    try:
        upstream.examine(raw)
        uids = sorted(upstream.uids())
        sizes = [each.size for each in upstream.enumerate_uids(uids[:: len(uids) // SAMPLE + 1])]
    except UpstreamRefused:
        return 0.0
    return sum(sizes) / len(sizes) if sizes else 0.0
