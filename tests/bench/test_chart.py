"""The chart of the first sync shows ours and the sums of the tools that go together."""

import xml.etree.ElementTree as ET

from bench.chart import first_sync_chart
from bench.figures import Figure, Section, seconds


def test_chart_is_svg_with_a_bar_for_each_way_to_a_searchable_mailbox() -> None:
    figures = [
        seconds("postmirror: searchable", [2.0]),
        seconds("postmirror: the pass", [4.0]),
        seconds("mbsync", [1.0]),
        seconds("mu index", [5.0]),
        Figure("searchable / (mbsync + mu index)", 0.3, "x"),
    ]
    drawn = ET.fromstring(first_sync_chart(Section("First <sync>", ("median", "slowest"), figures)))
    space = "{http://www.w3.org/2000/svg}"
    texts = [element.text for element in drawn.iter(f"{space}text")]
    widths = [float(element.attrib["width"]) for element in drawn.iter(f"{space}rect")][1:]

    assert texts[1:] == ["searchable", "2.0", "the pass", "4.0", "mbsync + mu index", "6.0"]
    assert widths == sorted(widths)
