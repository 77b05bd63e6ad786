"""A report compares figures across its sections, whatever their units, and shows them in three forms."""

from io import StringIO

import pytest
from rich.console import Console

from bench.figures import Figure, Report, Section, latency, seconds
from bench.machine import this_machine


@pytest.fixture
def report() -> Report:
    return Report(
        this_machine(),
        "200 generated messages",
        [
            Section("Sync", ("median", "slowest"), [seconds("first sync", [4.0, 6.0, 5.0])]),
            Section("Wire floor", ("median", "slowest"), [seconds("raw FETCH", [2.0], key="wire", against="")]),
            Section("Pass", ("median", "slowest"), [Figure("warm pass", 20.0, "ms", 25.0, "", "wire")]),
        ],
    )


def test_a_ratio_is_worked_out_across_units_and_whichever_part_ran_first(report: Report) -> None:
    ratios = [[figure["ratio"] for figure in section["figures"]] for section in report.as_json()["sections"]]
    assert ratios == [[2.5], [None], [0.01]]


def test_a_figure_without_its_reference_has_no_ratio(report: Report) -> None:
    del report.sections[1]
    assert report.ratio(report.sections[0].figures[0]) is None


def test_latency_is_p50_and_p99_in_milliseconds() -> None:
    figure = latency("search", [number / 1_000 for number in range(1, 101)])
    assert (figure.value, figure.tail) == (51.0, 100.0)


def test_table_and_document_show_the_same_cells(report: Report) -> None:
    terminal = StringIO()
    report.show(Console(file=terminal, width=120))
    for cell in ("first sync", "5.00 s", "6.00 s", "2.50 x wire", "20.0 ms"):
        assert cell in terminal.getvalue()
        assert cell in report.markdown()
