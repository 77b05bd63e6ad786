"""A small chart of the first sync, as SVG: what is done when, ours and others', from the figures of the report."""

import html
from collections.abc import Sequence

from bench.figures import Figure, Section

_WIDTH, _ROW, _LEFT, _RIGHT = 720, 26, 250, 70
_OURS, _THEIRS = "#2f6f9f", "#b5b5b5"


def first_sync_chart(section: Section) -> str:
    """Bars of the section's seconds, the longest as wide as the chart; sums of the tools that go together."""
    bars = _bars(section.figures)
    longest = max(seconds for _, seconds, _ in bars)
    height = _ROW * len(bars) + 40
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" font-family="sans-serif" '
        'font-size="13" role="img">',
        f"<title>{html.escape(section.title)}, seconds</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="10" y="20" font-weight="bold">{html.escape(section.title)}: seconds, shorter is better</text>',
    ]
    for number, (name, seconds, is_ours) in enumerate(bars):
        top = 32 + number * _ROW
        width = max(1.0, (_WIDTH - _LEFT - _RIGHT) * seconds / longest)
        lines += [
            f'<text x="{_LEFT - 8}" y="{top + 15}" text-anchor="end">{html.escape(name)}</text>',
            f'<rect x="{_LEFT}" y="{top + 3}" width="{width:.1f}" height="16" fill="{_OURS if is_ours else _THEIRS}"/>',
            f'<text x="{_LEFT + width + 6:.1f}" y="{top + 15}">{seconds:.1f}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def _bars(figures: Sequence[Figure]) -> list[tuple[str, float, bool]]:
    """(name, seconds, whether it is ours) of what is worth a bar."""
    by_name = {figure.name: figure.value for figure in figures if figure.unit == "s"}
    bars = [
        (name.removeprefix("postmirror: "), by_name[name], True)
        for name in ("postmirror: first 500 searchable", "postmirror: everything listed", "postmirror: searchable",
                     "postmirror: the pass")
        if name in by_name
    ]  # fmt: skip
    for indexer in ("mu index", "notmuch new"):
        for fetcher in ("mbsync", "mbsync, FSync no"):
            if {fetcher, indexer} <= by_name.keys():
                bars.append((f"{fetcher} + {indexer}", by_name[fetcher] + by_name[indexer], False))
    return bars
