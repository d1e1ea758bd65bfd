"""The documentation is true: what it names exists, what is generated is up to date, and every page can be found."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.pages import DOCS, ROOT, generator, page_text, programs

PAGES = sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md")])
FUNCTION = re.compile(r"`([\w./]+\.py):([\w.]+)`")
TEST = re.compile(r"`(tests/[\w./]+\.py)::(\w+)`")
NOTED = re.compile(r"\[\^([\w-]+)\](?!:)")
NOTE = re.compile(r"^\[\^([\w-]+)\]: (.*)$", re.MULTILINE)
GENERATORS = sorted(path.stem for path in DOCS.glob("make_*.py") if path.stem != "make_keywords")
"""The scripts that write pages."""
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


@cache
def defined(path: str) -> frozenset[str]:
    """The functions and classes of a source file, methods as Class.method."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    names = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names.update(f"{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(names)


def rows(page: Path) -> list[list[str]]:
    """The cells of the rows of a page's tables, without their rulers."""
    lines = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if not set("".join(row)) <= set("-:")]


@pytest.mark.parametrize("name", GENERATORS)
def test_a_generated_page_is_up_to_date(name: str) -> None:
    """It is what its script writes from the code."""
    made = generator(name)
    assert made.PAGE.read_text(encoding="utf-8") == made.page(), f"run: python docs/{name}.py"


def test_the_protocol_page_has_every_api_of_kafka() -> None:
    """Each key of Kafka 4.3, 0 to 92, has one row in the first table: the versions in which the stub serves it, or why it does not."""
    from fencepost.broker_stub.requests.router import served
    from fencepost.producer.wire import Api

    made = generator("make_protocol")
    made.page()  # registers the handlers
    assert sorted(Api) == list(range(93))
    assert {each.api for each in served()}.isdisjoint(made.NOT_SERVED)
    told = {int(row[0]): row[2] for row in reversed(rows(DOCS / "protocol.md")) if row[0].isdigit() and len(row) == 3}
    assert sorted(told) == list(range(93))
    assert {key for key, why in told.items() if why.startswith("no: ")} == {*made.NOT_SERVED}


def test_the_page_of_signatures_has_every_public_name() -> None:
    """Or it is an exception, which another page has."""
    import fencepost

    made = generator("make_api")
    written = page_text("api.md")
    named = [name for name in (*fencepost.__all__, *fencepost._SPARK) if name != "__version__" and f"\n### {name}\n" not in written]
    elsewhere = [getattr(fencepost, name) for name in named]
    assert [each for each in elsewhere if each not in made.ELSEWHERE and not issubclass(each, fencepost.FencepostError)] == []


def test_what_the_configuration_page_calls_missing_is_refused() -> None:
    """The producer refuses each setting of Kafka's that it does not have, and says what to do instead. It accepts the others' names."""
    from fencepost.producer import ConfigError
    from fencepost.producer.config.names import DOTTED
    from fencepost.producer.config.reader import read_settings

    made = generator("make_configuration")
    for name in made.MISSING:
        with pytest.raises(ConfigError, match=f"unknown setting '{name.replace('*', 'x')}': "):
            read_settings({"bootstrap.servers": "a:1", name.replace("*", "x"): "1"})
    assert [made.kafka_name(ours) for ours in made.KAFKA if made.kafka_name(ours) not in DOTTED] == ["partitioner.class"]


def test_the_error_page_has_every_row_and_every_exception() -> None:
    """Every code of the verdict tables, every public exception and every code of Kafka's is on the page."""
    from fencepost.producer import errors
    from fencepost.producer.core.error_table import TABLE
    from fencepost.producer.wire.codes import ErrorCode
    from fencepost.txn import errors as txn_errors
    from fencepost.txn.keyed_topic import errors as keyed_topic_errors
    from fencepost.txn.ledger import errors as ledger_errors
    from fencepost.txn.protocol import error_table as verdict

    page = page_text("errors.md")
    assert all(f"| {int(code)} | {code.name} | {row.action.name} |" in page for codes in TABLE.values() for code, row in codes.items())
    assert all(f"| {int(code)} | {code.name} | {row.step.name} |" in page for rows in verdict.TABLE.values() for code, row in rows.items())
    modules = (errors, txn_errors, keyed_topic_errors, ledger_errors)
    names = [name for module in modules for name in module.__all__ if name[0].isupper()]
    assert [name for name in names if f"`{name}`" not in page] == []
    assert [code.name for code in ErrorCode if code is not ErrorCode.NONE and f"{code.name} ({int(code)})" not in page] == []


def test_the_programs_about_observing_run(capsys: pytest.CaptureFixture[str]) -> None:
    """What docs/observing.md prints makes producers that work."""
    from fencepost import BrokerStub

    stats, interceptors = programs(page_text("observing.md"))
    for program in (stats, interceptors):
        names: dict[str, Any] = {}
        exec(program, names)
        with BrokerStub() as stub, names["make"](stub.bootstrap) as producer:
            producer.send("t", b"x").result(20)
            (record,) = stub.records("t", 0)
            if "metrics" in names:
                names["watch"](producer.stats())
                assert 'record_acknowledged_total{client_id="fencepost"} 1.0' in names["metrics"](producer)
            else:
                assert list(record.headers) == [("sent-by", b"shop-1")]
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_function_that_a_page_names_exists(page: Path) -> None:
    """`file.py:function` leads somewhere."""
    named = FUNCTION.findall(page.read_text(encoding="utf-8"))
    assert [f"{path}:{name}" for path, name in named if not (ROOT / path).is_file() or name not in defined(path)] == []


def test_the_journey_names_a_function_at_every_step() -> None:
    """Each numbered step of docs/journey.md says where in the code it happens."""
    text = page_text("journey.md")
    steps = re.findall(r"^(\d+)\. (.*(?:\n {3}.*)*)", text, re.MULTILINE)
    assert [int(number) for number, _ in steps] == list(range(1, len(steps) + 1))
    assert len(steps) >= 10
    assert [number for number, step in steps if not FUNCTION.search(step)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    """`tests/file.py::test` is there."""
    named = TEST.findall(page.read_text(encoding="utf-8"))
    assert [f"{path}::{name}" for path, name in named if not (ROOT / path).is_file() or name not in defined(path)] == []


def test_every_guarantee_names_the_test_that_keeps_it() -> None:
    """Each row of the tables of events in docs/guarantees.md, the producer's and Spark's, ends with at least one test."""
    page = DOCS / "guarantees.md"
    every = rows(page)
    notes = dict(NOTE.findall(page.read_text(encoding="utf-8")))
    starts = [place for place, row in enumerate(every) if row[0] == "event"]
    assert len(starts) == 2
    for start, end in zip(starts, [*starts[1:], len(every)], strict=True):
        table = every[start + 1 : end]
        assert len(table) >= 20
        noted = [(row[0], NOTED.findall(row[-1])) for row in table]
        assert [event for event, names in noted if not names or not all(TEST.search(notes[name]) for name in names)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_note_is_there_and_used(page: Path) -> None:
    """A reference `[^name]` has one note of that name, and each note has a reference."""
    text = page.read_text(encoding="utf-8")
    names = [name for name, _ in NOTE.findall(text)]
    assert len(names) == len(set(names))
    assert set(names) == set(NOTED.findall(text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Links within the repository lead to files that exist."""
    assert [link for link in LINK.findall(page.read_text(encoding="utf-8")) if not (page.parent / link).exists()] == []


def test_every_page_can_be_found_from_the_index() -> None:
    """docs/README.md links to every page beside it."""
    linked = set(LINK.findall(page_text("README.md")))
    assert {page.name for page in DOCS.glob("*.md")} - {"README.md"} <= linked
