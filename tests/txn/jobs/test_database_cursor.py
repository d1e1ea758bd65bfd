"""Rows of a database as a source of a job, with sqlite3: each row once, through stops and new rows."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer.errors import ConfigError
from fencepost.txn import DatabaseCursor, JobFailed
from tests.reading import read_messages
from tests.txn.jobs.helpers import DEAD, TOPIC, quick, stub, values

__all__ = ["stub"]

pytestmark = pytest.mark.timeout(120)

QUERY = "SELECT id, name FROM orders WHERE id > ? ORDER BY id LIMIT 100"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "orders.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT)")
    return path


def insert(database: Path, numbers: range) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.executemany("INSERT INTO orders VALUES (?, ?)", [(number, f"order {number}") for number in numbers])


def rows_of(database: Path, query: str = QUERY, **given: Any) -> DatabaseCursor:
    return DatabaseCursor(lambda: sqlite3.connect(database), query, **{"key": "id", "start": 0, **given})


def test_rows_are_sent_once(stub: BrokerStub, database: Path) -> None:
    """A run may stop after any row. Rows that come later are sent by the next run; a gap in the keys is none."""
    insert(database, range(1, 1_001, 3))
    with quick(stub, rows_of(database), batch_size=70) as job:
        for _ in range(3):
            job.run(max_batches=1)
    quick(stub, rows_of(database)).run()
    insert(database, range(2_000, 2_010))
    assert quick(stub, rows_of(database)).run().records_in == 10
    expected = [*range(1, 1_001, 3), *range(2_000, 2_010)]
    messages = read_messages(stub.bootstrap, TOPIC)
    assert [each.key() for each in messages] == [b"%d" % number for number in expected]
    assert [json.loads(each.value() or b"") for each in messages] == [{"id": number, "name": f"order {number}"} for number in expected]


@pytest.mark.parametrize("dead", [None, DEAD])
def test_a_refused_row_that_is_deleted(stub: BrokerStub, database: Path, dead: str | None) -> None:
    """The brokers refuse a row's record. The row is deleted before it becomes a dead letter. The row after it is sent."""
    stub.create_topic("small", partitions=1, config={"max.message.bytes": 1_000})
    insert(database, range(1, 21))
    tried: list[int] = []

    def transform(row: dict[str, Any]) -> bytes:
        tried.append(row["id"])
        if tried.count(12) == 2:  # in a transaction of its own
            with closing(sqlite3.connect(database)) as connection, connection:
                connection.execute("DELETE FROM orders WHERE id = 12")
        return str(row["name"]).encode() + (b"x" * 3_000 if row["id"] == 12 else b"")

    stats = quick(stub, rows_of(database), transform=transform, topic="small", dead_letters=dead).run()
    assert (stats.records_in, stats.dead_letters) == (19, 0)
    assert values(stub, "small") == [b"order %d" % number for number in range(1, 21) if number != 12]


@pytest.mark.parametrize(
    ("placeholder", "paramstyle"), [("?", "qmark"), (":after", "named"), ("?1", "numeric"), ("?", None)], ids=lambda value: str(value)
)
def test_the_forms_of_parameters(stub: BrokerStub, database: Path, placeholder: str, paramstyle: str | None) -> None:
    """The parameter is passed as the driver wants it: a sequence, or a mapping with the name `after`."""
    insert(database, range(1, 11))
    quick(stub, rows_of(database, QUERY.replace("?", placeholder), paramstyle=paramstyle), transform=lambda row: row["name"].encode()).run()
    assert values(stub) == [b"order %d" % number for number in range(1, 11)]


def test_texts_as_keys(stub: BrokerStub, database: Path) -> None:
    """A key may be a text."""
    insert(database, range(1, 31))
    query = "SELECT name FROM orders WHERE name > ? ORDER BY name LIMIT 7"
    quick(stub, rows_of(database, query, key="name", start=""), transform=lambda row: row["name"].encode()).run()
    assert values(stub) == sorted(b"order %d" % number for number in range(1, 31))


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT id FROM orders WHERE id > ? ORDER BY id DESC", "id=9 came after 10: the query must return the rows after its parameter"),
        ("SELECT id FROM orders WHERE id >= ? ORDER BY id LIMIT 3", "id=3 came after 3"),
        ("SELECT name FROM orders WHERE id > ?", "key='id': the query returns no such column, but name"),
        ("SELECT id * 1.5 AS id FROM orders WHERE id > ? ORDER BY id", "id=1.5: a key must be a whole number or a text"),
    ],
)
def test_queries_that_would_lose_or_double_rows(stub: BrokerStub, database: Path, query: str, reason: str) -> None:
    """They are refused when it shows, with the key."""
    insert(database, range(1, 11))
    with pytest.raises(JobFailed, match=reason):
        quick(stub, rows_of(database, query)).run()
    assert len(set(values(stub))) == len(values(stub))


def test_what_the_driver_raises(stub: BrokerStub, database: Path) -> None:
    """Its own error reaches the program, and the next run continues."""
    insert(database, range(1, 11))
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        quick(stub, rows_of(database, QUERY.replace("orders", "none"))).run()
    assert quick(stub, rows_of(database)).run().records_in == 10


def test_another_key(stub: BrokerStub, database: Path) -> None:
    """A job that has read another column cannot continue with this one."""
    insert(database, range(1, 3))
    quick(stub, rows_of(database)).run()
    with pytest.raises(JobFailed, match="position=2 is no key such as start=''"):
        quick(stub, rows_of(database, key="name", start="")).run()


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: DatabaseCursor(5, QUERY, key="id", start=0), "connect=5"),  # type: ignore[arg-type]  # the mistake
        (lambda: DatabaseCursor(dict, " ", key="id", start=0), "query=' '"),
        (lambda: DatabaseCursor(dict, QUERY, key="id", start=1.5), r"start=1\.5"),  # type: ignore[arg-type]  # the mistake
        (lambda: DatabaseCursor(dict, QUERY, key="id", start=0, paramstyle="percent"), "paramstyle='percent': one of format, named"),
    ],
)
def test_mistakes(make: Callable[[], DatabaseCursor], reason: str) -> None:
    """They are refused by name when the source is made."""
    with pytest.raises(ConfigError, match=reason):
        make()


def test_a_driver_that_does_not_tell_its_form(stub: BrokerStub) -> None:
    """It must be named."""

    class Connection:
        def close(self) -> None:
            return

    with pytest.raises(JobFailed, match="set paramstyle= to one of PEP 249's"):
        quick(stub, DatabaseCursor(Connection, QUERY, key="id", start=0)).run()
