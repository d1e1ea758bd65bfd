"""Bar charts as SVG, which follow the reader's light or dark colours: of a run (`--plots DIR`), and of the tables in docs/performance.md.

    python -m tests.bench.plot

writes docs/images/*.svg from the page's own tables, so a chart never shows other figures than the table beside it. It measures nothing.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

from rich.console import Console
from rich.table import Table

from tests.bench.report import Row

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
PAGE: Final = DOCS / "performance.md"
IMAGES: Final = DOCS / "images"

WIDTH, LABEL, WORDS, BAR, GAP, TOP = 760, 240, 120, 18, 7, 52
STYLE: Final = (
    ".back{fill:#fff}text{font:12px system-ui,sans-serif;fill:#1c232d}.soft{fill:#5d6876}.bar{fill:#8796ad}.ours{fill:#205f8f}"
    "line{stroke:#5d6876;stroke-dasharray:3 3}"
    "@media(prefers-color-scheme:dark){.back{fill:#14171b}text{fill:#dfe4ea}.soft{fill:#98a3b1}.bar{fill:#5d6c82}.ours{fill:#7db7e4}line{stroke:#98a3b1}}"
)
OURS: Final = ("fencepost", "TransactionalP", "AsyncTransactionalP")


MORE: Final = (
    ("transactions", "committed records/s", "every 100 ms", "Apache Kafka: committed records per second, a commit every 100 ms"),
    ("pool", "requests/s", "Apache Kafka", "Apache Kafka: requests with a transaction each per second, 32 callers"),
)
"""Further charts of the page: the name, the first heading of the table, the column, and the title."""


class Bar(NamedTuple):
    """One bar: what it is, its length, and the words behind it."""

    label: str
    value: float
    words: str


def chart(title: str, bars: Sequence[Bar], *, note: str = "", mark: float | None = None) -> str:
    """The bars below each other, on a scale from 0 on. `mark`: a value with a dashed line, such as ×1."""
    longest = max((bar.value for bar in bars), default=1.0) or 1.0
    scale = (WIDTH - LABEL - WORDS) / longest
    height = TOP + len(bars) * (BAR + GAP) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        f'<rect class="back" width="{WIDTH}" height="{height}"/><text x="12" y="20" font-weight="600">{escape(title)}</text>',
        f'<text class="soft" x="12" y="38">{escape(note)}</text>',
    ]
    for number, bar in enumerate(bars):
        y = TOP + number * (BAR + GAP)
        kind = "ours" if bar.label.startswith(OURS) else "bar"
        wide = max(1.0, bar.value * scale)
        parts.append(
            f'<text x="{LABEL - 8}" y="{y + 13}" text-anchor="end">{escape(bar.label)}</text>'
            f'<rect class="{kind}" x="{LABEL}" y="{y}" width="{wide:.1f}" height="{BAR}" rx="2"/>'
            f'<text class="soft" x="{LABEL + wide + 6:.1f}" y="{y + 13}">{escape(bar.words)}</text>'
        )
    if mark is not None:
        x = LABEL + mark * scale
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 4}" y2="{height - 4}"/>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def charts_of(rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """A name and a chart for each table of a run: acknowledged records per second of each contender."""
    for where in dict.fromkeys((row.broker, row.scenario, row.partitions, row.codec) for row in rows):
        shown = [row for row in rows if (row.broker, row.scenario, row.partitions, row.codec) == where and row.acked_per_s]
        broker, scenario, partitions, codec = where
        bars = [Bar(row.contender.value, row.acked_per_s / 1e6, _words(row)) for row in shown]
        title = f"{broker}: acknowledged records per second, in millions"
        note = f"{scenario.value}; partitions: {partitions}; codec: {codec}; medians of {shown[0].rounds}" if shown else ""
        yield f"{_file_name(broker, scenario.name, partitions, codec)}.svg", chart(title, bars, note=note)


def _words(row: Row) -> str:
    return f"{row.acked_per_s / 1e6:.2f} M" + ("" if row.acked_ratio is None else f"  ×{row.acked_ratio:.2f}")


def write_charts(rows: Sequence[Row], directory: Path) -> None:
    """Write the charts of a run."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, svg in charts_of(rows):
        (directory / name).write_text(svg, encoding="utf-8")


def add_plots(parser: argparse.ArgumentParser) -> None:
    """The option `--plots DIR` of a benchmark."""
    parser.add_argument("--plots", type=Path, metavar="DIR", help="also write charts of the tables to this directory, as SVG")


def show(console: Console, table: Table, directory: Path | None) -> None:
    """Prints the table, and writes a chart of each of its columns with numbers, if there is a directory."""
    console.print(table)
    if directory is None:
        return
    directory.mkdir(parents=True, exist_ok=True)
    for name, svg in charts_of_table(table):
        (directory / name).write_text(svg, encoding="utf-8")


def charts_of_table(table: Table) -> Iterator[tuple[str, str]]:
    """A name and a chart for each column in which two rows or more have a number. The first column has the labels."""
    labels = [str(cell) for cell in table.columns[0].cells]
    for column in table.columns[1:]:
        cells = [str(cell) for cell in column.cells]
        bars = [
            Bar(label, value, words) for label, words in zip(labels, cells, strict=True) if (value := leading_number(words)) is not None
        ]
        if len(bars) > 1:
            yield f"{_file_name(table.title, column.header)}.svg", chart(str(column.header), bars, note=str(table.title or ""))


def leading_number(cell: str) -> float | None:
    """The number at the start of a cell, such as of `1.13 M  ×0.87` or `1,600`."""
    found = re.match(r"[×]?([\d,]*\.?\d+)\s*([kM]?)\b", cell)
    return None if found is None else float(found[1].replace(",", "")) * {"k": 1e3, "M": 1e6}.get(found[2], 1)


def _file_name(*parts: object) -> str:
    return "-".join(re.sub(r"[^a-z0-9.]+", "-", str(each).lower()).strip("-.") for each in parts if each)[:100]


def tables_of(page: str) -> list[list[list[str]]]:
    """The tables of a page, each as rows of cells, headings first."""
    found: list[list[list[str]]] = []
    is_open = False
    for line in page.splitlines():
        if not line.startswith("|"):
            is_open = False
        elif not set(line) <= set("|-: "):
            if not is_open:
                found.append([])
            is_open = True
            found[-1].append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def multiple(cell: str) -> float | None:
    """The number behind × in a cell, and 1 for a figure with a unit, which is the one that others are compared with."""
    found = re.match(r"×([\d.]+)", cell)
    if found is not None:
        return float(found[1])
    return 1.0 if re.fullmatch(r"[\d.]+( M)?", cell) else None


def charts_of_page(page: str) -> dict[str, str]:
    """The charts beside the tables of docs/performance.md, by file name."""
    (figures,) = [table for table in tables_of(page) if table[0][:2] == ["broker", "contender"]]
    column = figures[0].index("acked records/s")
    found = {}
    for broker in dict.fromkeys(row[0] for row in figures[1:]):
        rows = [(row[1], row[column], multiple(row[column])) for row in figures[1:] if row[0] == broker]
        bars = [Bar(label, value, words) for label, words, value in rows if value is not None]
        note = "one thread, 6 partitions, no codec; multiples of confluent-kafka with callbacks (dashed); longer is faster"
        name = re.sub(r"[^a-z]+", "-", broker.lower()).strip("-")
        found[f"throughput-{name}.svg"] = chart(f"{broker}: acknowledged records per second", bars, note=note, mark=1.0)
    for name, first, heading, title in MORE:
        (table,) = [table for table in tables_of(page) if table[0][0] == first]
        at = table[0].index(heading)
        rows = [(row[0].replace("`", ""), row[at], multiple(row[at])) for row in table[1:]]
        bars = [Bar(label, value, words) for label, words, value in rows if value is not None]
        found[f"{name}.svg"] = chart(title, bars, note="multiples of the bar with a figure (dashed); longer is faster", mark=1.0)
    return found


def main() -> None:
    """Write the charts of docs/performance.md."""
    IMAGES.mkdir(exist_ok=True)
    for name, svg in charts_of_page(PAGE.read_text(encoding="utf-8")).items():
        (IMAGES / name).write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
