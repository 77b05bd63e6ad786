"""The sync worker, given what mailboxes are signed in to with: the mirror knows nothing of state.db."""

from mirror.worker import main
from server.oauth.source import credentials_of

if __name__ == "__main__":
    main(credentials_of)
