"""The programs of docs/jobs.md run as printed, and its table has every setting."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fencepost import BrokerStub
from fencepost.txn.jobs.settings import JobSettings
from tests.fencepost.cli.shell import run
from tests.pages import page_text, programs
from tests.reading import read_values
from tests.txn.jobs.pages_server import PagesServer

PAGE = page_text("jobs.md")


def test_the_programs_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each twice: the second time it sends nothing."""
    monkeypatch.chdir(tmp_path)
    Path("flights.csv").write_text("tailnum,carrier\nN1,UA\nN2,B6\n")
    with closing(sqlite3.connect("orders.db")) as connection, connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT, amount INTEGER)")
        connection.executemany("INSERT INTO orders VALUES (?, 'c', 5)", [(1,), (2,)])
    printed = programs(PAGE)
    assert len(printed) == 4
    with BrokerStub() as stub, PagesServer([{"id": 1}]) as server:
        for program in printed * 2:
            changed = program.replace("localhost:9092", stub.bootstrap).replace('"orders", orders', f'"job{len(program)}", orders')
            changed = changed.replace("https://api.example.com/orders?after=", f"{server.url}?page=").replace(
                'page["orders"]', 'page["records"]'
            )
            names: dict[str, Any] = {}
            exec(changed, names)
        assert read_values(stub.bootstrap, "flights") == [b'{"tailnum":"N1","carrier":"UA"}', b'{"tailnum":"N2","carrier":"B6"}']
        assert read_values(stub.bootstrap, "orders") == [
            b'{"id":1,"customer":"c","amount":5}',
            b'{"id":2,"customer":"c","amount":5}',
            b'{"id":1}',
        ]
        assert len(read_values(stub.bootstrap, "numbers")) == 1_000


def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As printed, one after the other."""
    monkeypatch.chdir(tmp_path)
    Path("flights.csv").write_text("tailnum,carrier\nN1,UA\n")
    commands = re.findall(r"^    fencepost (.*)$", PAGE, re.MULTILINE)
    assert len(commands) == 4
    with BrokerStub() as stub:
        for command in commands:
            ran = run(*command.split(), FENCEPOST_BOOTSTRAP=stub.bootstrap)
            assert ran.returncode == 0, ran.stderr
        assert run("jobs", "list", FENCEPOST_BOOTSTRAP=stub.bootstrap).stderr == "none\n"


def test_every_setting_is_on_the_page() -> None:
    """The table of settings names every setting, with its default."""
    for name in JobSettings.__struct_fields__:
        assert f"`{name}`" in PAGE, name
    for name, default in (("batch_size", "10,000, 1,000"), ("attempts", "3"), ("transaction_timeout_ms", "30,000"), ("aborts_max", "10")):
        assert re.search(rf"`{name}`[^|]*\| {default} \|", PAGE), name
