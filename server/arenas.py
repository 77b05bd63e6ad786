"""How the C library keeps memory: in few places, so that what is let go of is used again."""

import ctypes

_M_ARENA_MAX = -8
"""`mallopt(3)` of glibc."""
_ARENAS = 1


def share_arenas() -> None:
    """Have all threads share one arena from now on.

    glibc gives threads arenas of their own, up to eight for each core, and none gives back what another one needs:
    25 MB after the long searches of 16 clients. They would spare waits that threads under one interpreter's lock do not
    have.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, _ARENAS)
