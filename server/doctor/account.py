"""One mailbox under examination."""

from dataclasses import dataclass

from config.provider import Endpoint, Provider
from mirror.credential import Configured, Credential, Credentials


@dataclass(frozen=True, slots=True)
class Account:
    """A mailbox, and how it is logged in to."""

    user: str
    name: str
    provider: Provider
    credential_of: Credentials

    @property
    def mailbox(self) -> str:
        """`USER/PROVIDER`."""
        return f"{self.user}/{self.name}"

    def credential(self, endpoint: Endpoint) -> Credential:
        """What one of its servers is logged in to with."""
        found = self.credential_of(self.user, self.name, self.provider, endpoint)
        return found or Configured(self.provider, endpoint)
