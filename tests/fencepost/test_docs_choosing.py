"""The program of docs/choosing.md is an outbox whose rows are in Kafka once, and the page counts the traps that docs/pipelines.md has."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from fencepost import BrokerStub
from tests.pages import page_text, programs

PAGE = page_text("choosing.md")
NUMBERS = {"fifteen": 15}


def test_the_outbox_is_relayed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three requests, each with a run of the relay. A row that was not deleted after its run, as by a crash, is not sent again."""
    monkeypatch.chdir(tmp_path)
    (program,) = programs(PAGE)
    with BrokerStub() as stub:
        program = program.replace("localhost:9092", stub.bootstrap)
        exec(program, {})
        exec(program.replace('database.execute("DELETE', 'print("DELETE'), {})
        with closing(sqlite3.connect("shop.db")) as database:
            assert database.execute("SELECT id FROM outbox").fetchall() == [(2,)]
        exec(program, {})
        assert [(each.key, each.value) for each in stub.records("orders", 0)] == [(b"alice", b"ordered")] * 3
    with closing(sqlite3.connect("shop.db")) as database:
        assert database.execute("SELECT count(*) FROM orders").fetchone() == (3,)
        assert database.execute("SELECT * FROM outbox").fetchall() == []


def test_the_page_counts_the_traps() -> None:
    """The loop of docs/pipelines.md has as many numbered traps as this page says."""
    (said,) = re.findall(r"\[(\w+) traps\]", PAGE)
    assert len(re.findall(r"^\d+\. ", page_text("pipelines.md"), re.MULTILINE)) == NUMBERS[said]
