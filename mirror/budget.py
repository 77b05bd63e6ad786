"""What one account receives from its server, counted in its mirror against the limit of the day."""

from collections.abc import Callable

from mirror.store import Store

_WITHOUT_LIMIT = 2**62


class Budget:
    """Counts for one pass. limit: octets of a day, 0 for none.

    received: gives the octets that came since it was last asked.
    """

    def __init__(self, store: Store, received: Callable[[], int]) -> None:
        self._store = store
        self._received = received
        self.limit = 0

    def left(self, rate: float, ahead: int) -> int:
        """Count what came, and how many octets of the day are left beside those on their way; 0 for none.

        rate: octets of texts a second, 0 when not known. ahead: octets that were asked for and have not come.
        """
        today = self._store.add_fetched(self._received(), rate)
        return max(0, self.limit - today - ahead) if self.limit else _WITHOUT_LIMIT
