"""The systemd unit that keeps `serve` running: what it may write is its data and nothing else."""

from dataclasses import dataclass
from pathlib import Path

_HEAD = """\
[Unit]
Description=Postmirror: a mirror of mailboxes for AI agents
{after}
[Service]
Type=exec
{user}ExecStart={command}
Restart=on-failure
RestartSec=5
# A parsing process that grows too large is started again by itself: the rest goes on.
OOMPolicy=continue
TimeoutStopSec=30
LimitNOFILE=65536
UMask=0077
"""

_FOR_ANYBODY = """\
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictNamespaces=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
"""

_FOR_THE_SYSTEM = """\
CapabilityBoundingSet=
AmbientCapabilities=
DevicePolicy=closed
KeyringMode=private
MemoryDenyWriteExecute=yes
PrivateDevices=yes
PrivateTmp=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHome={home}
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
ProtectSystem=strict
RemoveIPC=yes
SystemCallFilter=~@privileged
"""

_TAIL = """
[Install]
WantedBy={target}
"""


@dataclass(frozen=True, slots=True)
class Unit:
    """What a unit is about.

    program: the command line's first words. user: as whom the system runs it, "" for a user's own unit. writable:
    folders that are written, which must be there when it starts.
    """

    program: tuple[str, ...]
    config: Path
    user: str
    writable: tuple[Path, ...]

    @property
    def text(self) -> str:
        """The unit's file."""
        command = " ".join(map(_quoted, (*self.program, "serve", "--config", str(self.config))))
        if not self.user:
            return (
                _HEAD.format(after="", user="", command=command) + _FOR_ANYBODY + _TAIL.format(target="default.target")
            )
        paths = (*self.writable, self.config, *map(Path, self.program))
        home = "read-only" if any(str(path).startswith(("/home/", "/root/", "/run/user/")) for path in paths) else "yes"
        return "".join(
            (
                _HEAD.format(
                    after="Wants=network-online.target\nAfter=network-online.target\n",
                    user=f"User={self.user}\n",
                    command=command,
                ),
                "".join(f"ReadWritePaths={_quoted(str(path))}\n" for path in self.writable),
                _FOR_ANYBODY,
                _FOR_THE_SYSTEM.format(home=home),
                _TAIL.format(target="multi-user.target"),
            )
        )


def _quoted(word: str) -> str:
    """A word of a unit's line: specifiers and variables are none, blanks are kept."""
    word = word.replace("%", "%%").replace("$", "$$")
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if escaped != word or any(each in word for each in " \t'") else word
