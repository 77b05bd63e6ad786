"""How the C library keeps memory: in few places, so that what is let go of is used again or given back."""

import ctypes

_M_ARENA_MAX = -8
"""`mallopt(3)` of glibc."""
_ARENAS = 1


def share_arenas() -> None:
    """Have all threads share one arena from now on.

    glibc gives threads arenas of their own, up to eight for each core, and none gives back what another one needs:
    25 MB after the long searches of 16 clients, 6 MB in a first sync. They would spare waits that threads under one
    interpreter's lock do not have.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, _ARENAS)


def give_back() -> None:
    """Give the system what is not in use: after work that needed much more than what follows."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
