"""How many, how much and how long, as people are told."""


def counted(number: int, one: str, many: str = "") -> str:
    """`1 mailbox`, `2 mailboxes`, `1,234 messages`. many: where it is more than an s at the end."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def octets(number: int) -> str:
    """`2.5 GB`, `3.1 kB`, `17 bytes`."""
    for size, unit in ((1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return counted(number, "byte")


def lasting(seconds: float) -> str:
    """`a few seconds`, `about 3 minutes`."""
    for size, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= 1.5 * size:
            return f"about {counted(round(seconds / size), unit)}"
    return "a few seconds" if seconds < 15 else "about a minute" if seconds >= 45 else "less than a minute"
