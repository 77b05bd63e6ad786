"""A process that wants an access token: prints it, or what stands in the way. Arguments: data directory, settings."""

import sys
from pathlib import Path

from config.provider import OAuth
from mirror.errors import UpstreamError
from server.key import DataKey
from server.oauth.grants import Grants
from server.oauth.source import AccessToken
from server.state.store import State


def main() -> None:
    """Ask once."""
    data_dir, oauth = Path(sys.argv[1]), OAuth.model_validate_json(sys.argv[2])
    grants = Grants(State(data_dir), DataKey(data_dir))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    try:
        sys.stdout.write(AccessToken(grants, "alice", "work", oauth).secret())
    except UpstreamError as exc:
        sys.stdout.write(f"{type(exc).__name__}: {exc}")


if __name__ == "__main__":
    main()
