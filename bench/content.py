"""How fast mail becomes content, and how it agrees with another parser's published results. `python -m bench.content`.

One core, CPU time, the whole corpus in memory before the clock starts. bleach alone on the raw HTML is the yardstick.
"""

import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from bleach.sanitizer import Cleaner

from mirror.content import read_content
from mirror.mail.charset import decode
from mirror.message import read_message
from mirror.page.markup import TAGS
from mirror.sanitize import clean_html
from tests.corpus import corpus_root, messages
from tests.mirror.agreement import FIELDS, VERDICTS, Comparison, comparisons


@dataclass(frozen=True, slots=True)
class Speed:
    """Seconds of every message for one stage, and what went through it."""

    stage: str
    seconds: list[float]
    size: int

    def line(self) -> str:
        """One row of the table."""
        total, count = sum(self.seconds), len(self.seconds)
        ordered = sorted(self.seconds)
        p50, p99 = ordered[count // 2] * 1000, ordered[int(count * 0.99)] * 1000
        return (
            f"{self.stage:<34}{count:>7}{self.size / 1e6:>9.1f}{count / total:>9.0f}{self.size / 1e6 / total:>9.2f}"
            f"{p50:>9.2f}{p99:>9.2f}{ordered[-1] * 1000:>9.1f}"
        )


def measure(raws: list[bytes]) -> list[Speed]:
    """The whole way of every message, the same without the HTML form, and bleach alone on the raw HTML."""
    whole, text_only, bleach_alone = [], [], []
    html_size = 0
    for raw in raws:
        started = time.process_time()
        content = read_content(raw)
        read = time.process_time()
        clean_html(content.normalised_html)
        whole.append(time.process_time() - started)
        text_only.append(read - started)
        message = read_message(raw)
        for body in message.bodies:
            if body.media_type == "text/html":
                markup = decode(body.data, body.charset, message.hint)
                html_size += len(body.data)
                started = time.process_time()
                Cleaner(tags=TAGS, strip=True, strip_comments=True).clean(markup)
                bleach_alone.append(time.process_time() - started)
    size = sum(map(len, raws))
    return [
        Speed("parse + clean + text", whole, size),
        Speed("parse + text (searchable)", text_only, size),
        Speed("bleach alone, raw HTML parts", bleach_alone, html_size),
    ]


def ours_on_html(raws: list[bytes]) -> Speed:
    """The whole way of the messages that have HTML, by the size of their HTML parts."""
    seconds, size = [], 0
    for raw in raws:
        html = sum(len(body.data) for body in read_message(raw).bodies if body.media_type == "text/html")
        if html:
            started = time.process_time()
            clean_html(read_content(raw).normalised_html)
            seconds.append(time.process_time() - started)
            size += html
    return Speed("parse + clean + text, HTML mails", seconds, size)


def agreement(corpus: Path) -> list[str]:
    """The agreement table, then every disagreement and who is right."""
    by_field: dict[str, list[Comparison]] = defaultdict(list)
    for comparison in comparisons(corpus):
        by_field[comparison.field].append(comparison)
    lines = [f"{'field':<20}{'agree':>7}{'of':>6}{'%':>8}"]
    for field in FIELDS:
        agreed, count = sum(row.agrees for row in by_field[field]), len(by_field[field])
        lines.append(f"{field:<20}{agreed:>7}{count:>6}{100 * agreed / count:>8.1f}")
    for field in FIELDS:
        for row in by_field[field]:
            if not row.agrees:
                verdict = VERDICTS.get((field, row.where.strip()), "?")
                lines.append(f"  {field}, {' '.join(row.where.split())[:50]}: {verdict}")
    return lines


def main() -> int:
    """Print both tables; 1 when there is no corpus."""
    corpus = corpus_root()
    if corpus is None:
        print("no mail corpus: set POSTMIRROR_CORPUS or put it at ../shared/corpus")
        return 1
    raws = [path.read_bytes() for path in messages()]
    print(f"{'stage':<34}{'count':>7}{'MB':>9}{'msg/s':>9}{'MB/s':>9}{'p50 ms':>9}{'p99 ms':>9}{'worst':>9}")
    speeds = [*measure(raws), ours_on_html(raws)]
    for speed in speeds:
        print(speed.line())
    html_only, bleach_alone = speeds[3], speeds[2]
    ratio = (html_only.size / sum(html_only.seconds)) / (bleach_alone.size / sum(bleach_alone.seconds))
    print(f"HTML mail, whole pipeline against bleach alone on the raw HTML: {ratio:.2f} times as fast\n")
    print("\n".join(agreement(corpus)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
