"""Figures, the sections they stand in, and the report of a whole run: as a table, as JSON and as Markdown.

A figure may be compared with another one by that one's key (`wire`, `echo`); the ratio is worked out when the report is
shown, so that parts may run in any order, and is left out when the other part did not run.
"""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.machine import Machine

_WIDTHS = (10, 10, 15)
_NAME_WIDTH = 38
_SCALES = {"s": 1.0, "ms": 1e-3, "MB": 1.0}


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured thing. value and tail are in the unit; what they are is said by the section's columns."""

    name: str
    value: float
    unit: str
    tail: float | None = None
    key: str = ""
    against: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """Figures of one kind. columns: what value and tail are; text: a table of its own."""

    title: str
    columns: tuple[str, str]
    figures: Sequence[Figure] = ()
    note: str = ""
    text: str = ""


@dataclass
class Report:
    """Everything one run found."""

    machine: Machine
    mailbox: str
    sections: list[Section] = field(default_factory=list)

    def ratio(self, figure: Figure) -> float | None:
        """How many times the figure it is compared with; None when there is none."""
        for other in self._figures():
            if figure.against and other.key == figure.against and other.value:
                return figure.value * _SCALES[figure.unit] / (other.value * _SCALES[other.unit])
        return None

    def show(self, console: Console) -> None:
        """Print the run; the columns of all sections stand below one another."""
        console.print(f"{self.machine}\n{self.mailbox}", soft_wrap=True, highlight=False, markup=False)
        for section in self.sections:
            console.print()
            table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
            table.add_column(f"[bold not dim]{section.title}", width=_NAME_WIDTH)
            for column, width in zip((*section.columns, "ratio"), _WIDTHS, strict=True):
                table.add_column(column, justify="right", width=width, no_wrap=True)
            for figure in section.figures:
                table.add_row(f"  {figure.name}", *self._cells(figure))
            console.print(table if section.figures else f"[bold]{section.title}", highlight=False)
            for text in filter(None, (section.text, section.note)):
                console.print(text.rstrip(), soft_wrap=True, highlight=False, markup=False)

    def markdown(self) -> str:
        """The run as the tables of a document."""
        blocks = []
        for section in self.sections:
            lines = [f"### {section.title}", ""]
            if section.figures:
                lines += [f"| | {section.columns[0]} | {section.columns[1]} | ratio |", "| --- | ---: | ---: | ---: |"]
            lines += [f"| {' | '.join((figure.name, *self._cells(figure)))} |" for figure in section.figures]
            if section.text:
                lines += ["```text", section.text.rstrip(), "```"]
            if section.note:
                lines += ["", section.note]
            blocks.append("\n".join(lines))
        return "\n\n".join(blocks) + "\n"

    def as_json(self) -> dict[str, Any]:
        """The run for programs."""
        return {
            "machine": asdict(self.machine),
            "mailbox": self.mailbox,
            "sections": [
                asdict(section)
                | {"figures": [asdict(figure) | {"ratio": self.ratio(figure)} for figure in section.figures]}
                for section in self.sections
            ],
        }

    def _cells(self, figure: Figure) -> tuple[str, str, str]:
        ratio = self.ratio(figure)
        return (
            f"{_shown(figure.value)} {figure.unit}",
            "" if figure.tail is None else f"{_shown(figure.tail)} {figure.unit}",
            "" if ratio is None else f"{_shown(ratio)} x {figure.against}",
        )

    def _figures(self) -> Iterator[Figure]:
        for section in self.sections:
            yield from section.figures


def seconds(name: str, runs: Sequence[float], *, key: str = "", against: str = "wire") -> Figure:
    """The median of several runs, and the slowest."""
    return Figure(name, statistics.median(runs), "s", max(runs), key, against)


def latency(name: str, taken: Sequence[float], *, key: str = "", against: str = "echo") -> Figure:
    """p50 and p99 of many calls, which are given in seconds."""
    ordered = sorted(taken)
    p50, p99 = (1_000 * ordered[min(len(ordered) - 1, int(len(ordered) * share))] for share in (0.5, 0.99))
    return Figure(name, p50, "ms", p99, key, against)


def _shown(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
