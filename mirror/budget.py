"""What one account receives from its server, counted in its mirror against the limit of the day."""

from collections.abc import Callable

from mirror.store import Store


class Budget:
    """Counts for one pass. limit: octets of a day, 0 for none.

    received: gives the octets that came since it was last asked.
    """

    def __init__(self, store: Store, received: Callable[[], int]) -> None:
        self._store = store
        self._received = received
        self.limit = 0

    def is_spent(self, rate: float) -> bool:
        """Count what came, and whether the day's limit is reached. rate: octets of texts a second, 0 when not known."""
        today = self._store.add_fetched(self._received(), rate)
        return 0 < self.limit <= today
