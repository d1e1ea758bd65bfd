"""The charts show the figures of the tables beside them."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console
from rich.table import Table

from tests.bench.load import Contender, Figures, Measurement, Scenario
from tests.bench.plot import IMAGES, PAGE, Bar, chart, charts_of_page, leading_number, multiple, show, tables_of, write_charts
from tests.bench.report import summarize

NAMES = charts_of_page(PAGE.read_text(encoding="utf-8"))


def test_bars_are_as_long_as_their_values() -> None:
    """Lengths are proportional, names are escaped, and our bars have their own colour."""
    svg = chart("a < b", [Bar("fencepost, futures", 4.0, "×4"), Bar("<other>", 1.0, "×1")], mark=1.0)
    tree = ElementTree.fromstring(svg)
    bars = [(each.get("class"), float(each.get("width", "0"))) for each in tree.iter() if each.tag.endswith("rect")][1:]
    assert [kind for kind, _ in bars] == ["ours", "bar"]
    assert bars[0][1] == pytest.approx(4 * bars[1][1], rel=0.01)
    assert "&lt;other&gt;" in svg


@pytest.mark.parametrize("name", NAMES)
def test_the_page_shows_its_own_figures(name: str) -> None:
    """`python -m tests.bench.plot` was run after the table changed, and the page shows the chart."""
    assert (IMAGES / name).read_text(encoding="utf-8") == NAMES[name]
    assert f"](images/{name})" in PAGE.read_text(encoding="utf-8")


def test_cells_are_read_as_multiples() -> None:
    """A figure with a unit is the one that the others are compared with; a dash is no bar."""
    assert [multiple(cell) for cell in ("×3.0", "0.62 M", "–", "×0.06")] == [3.0, 1.0, None, 0.06]
    assert tables_of("| a | b |\n|---|--:|\n| 1 | 2 |\n\n| c |\n|---|\n") == [[["a", "b"], ["1", "2"]], [["c"]]]


def test_a_run_leaves_charts(tmp_path: Path) -> None:
    """One for each table."""
    figures = Figures(acked=10, acked_per_s=1.5e6, cpu_ns=900.0)
    measured = [
        Measurement(broker="Apache Kafka", round=1, scenario=Scenario.ONE, contender=each, partitions=6, codec="none", figures=figures)
        for each in (Contender.FUTURES, Contender.CONFLUENT)
    ]
    write_charts(summarize(measured), tmp_path)
    (file,) = tmp_path.iterdir()
    assert re.fullmatch(r"[a-z0-9.-]+\.svg", file.name)
    assert ElementTree.parse(file).getroot().tag.endswith("svg")


def test_a_table_of_any_benchmark_becomes_charts(tmp_path: Path) -> None:
    """One for each column with numbers; the first column has the labels."""
    table = Table("", "requests/s", "how", title="stub: 32 callers")
    table.add_row("a pool", "1,600", "in threads")
    table.add_row("one producer", "×0.5", "alone")
    show(Console(quiet=True), table, tmp_path / "charts")
    (file,) = (tmp_path / "charts").iterdir()
    assert file.name == "stub-32-callers-requests-s.svg"
    assert "a pool" in file.read_text()
    assert [leading_number(cell) for cell in ("1.13 M  ×0.87", "1,600", "2.5k", "in threads", "")] == [1.13e6, 1600.0, 2500.0, None, None]
