"""Rows of a database as a source, by a key that rises. It works with any DB-API connection (PEP 249), and keeps one open while it reads."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, Final

import msgspec

from fencepost.producer.errors import ConfigError
from fencepost.txn.files.errors import BadInput, InputBroken
from fencepost.txn.jobs.source import ItemSource

POSITIONAL: Final = frozenset({"qmark", "format", "numeric"})
BY_NAME: Final = frozenset({"named", "pyformat"})
PAGE_ROWS: Final = 1_000
NAME: Final = "after"

Key = int | str


class DatabaseCursor(ItemSource):
    """Rows that a query returns after the last key, again and again until there is none.

        DatabaseCursor(
            lambda: sqlite3.connect("orders.db"),
            "SELECT id, customer, amount FROM orders WHERE id > ? ORDER BY id LIMIT 1000",
            key="id",
            start=0,
        )

    `connect`: returns a new connection. The query has one parameter, in the driver's own form: `?`, `%s`, `:1`, `:after` or `%(after)s`.
    It must return the rows after that key, ordered by it. `key`: the column; it is unique, a whole number or a text, and never changes.
    `start`: the key before the first row. `paramstyle`: PEP 249's, if the driver's module does not tell.

    Without a `transform` a row becomes a record with the key's text as its key and a JSON object of the columns as its value. A `transform`
    gets a dictionary of the columns. A row that is committed to the database with a key below one that was read is never read.
    """

    kind = "database"

    def __init__(self, connect: Callable[[], Any], query: str, *, key: str, start: Key, paramstyle: str | None = None) -> None:
        if not callable(connect):
            raise ConfigError(f"connect={connect!r:.300}: a function that returns a connection")
        if not query.strip():
            raise ConfigError(f"query={query!r:.300}: an SQL query with one parameter")
        if paramstyle is not None and paramstyle not in POSITIONAL | BY_NAME:
            raise ConfigError(f"paramstyle={paramstyle!r}: one of {', '.join(sorted(POSITIONAL | BY_NAME))}, or None")
        if not _is_key(start):
            raise ConfigError(f"start={start!r:.300}: a whole number or a text, below every key")
        self._connect = connect
        self._query = query
        self._key = key
        self._start = start
        self._paramstyle = paramstyle

    def __repr__(self) -> str:
        return f"DatabaseCursor({self._query!r}, key={self._key!r})"

    def open(self, position: Any) -> Iterator[tuple[dict[str, Any], Key] | None]:
        """The rows after this key, each with its key."""
        after: Key = self._start if position is None else position
        if type(after) is not type(self._start):
            raise BadInput(
                f"position={position!r:.300} is no key such as start={self._start!r}: the job has read another column, or its position was"
                " set"
            )
        with closing(self._connect()) as connection:
            style = self._paramstyle or _paramstyle_of(connection)
            while True:
                before = after
                for row in self._page(connection, style, after):
                    after = self._checked(row, after)
                    yield row, after
                if after == before:
                    return
                yield None  # The next query may take long.

    def to_record(self, row: dict[str, Any]) -> tuple[bytes, bytes]:
        """The record of a row, if there is no transform."""
        return str(row[self._key]).encode(), msgspec.json.encode(row)

    def _page(self, connection: Any, style: str, after: Key) -> Iterator[dict[str, Any]]:
        with closing(connection.cursor()) as cursor:
            cursor.execute(self._query, {NAME: after} if style in BY_NAME else (after,))
            names = [column[0] for column in cursor.description]
            if self._key not in names:
                raise BadInput(f"key={self._key!r}: the query returns no such column, but {', '.join(names)}")
            while rows := cursor.fetchmany(PAGE_ROWS):
                for row in rows:
                    yield dict(zip(names, row, strict=True))
        if hasattr(connection, "rollback"):  # PEP 249 does not require it.
            connection.rollback()  # So that the next query sees what others have committed meanwhile.

    def _checked(self, row: dict[str, Any], after: Any) -> Key:
        key: Any = row[self._key]
        if type(key) is not type(after):
            raise InputBroken(
                f"{self._key}={key!r:.300}: a key must be a whole number or a text, and of the same type as start={self._start!r}; cast"
                " it in the query"
            )
        if key <= after:
            raise InputBroken(
                f"{self._key}={key!r:.300} came after {after!r:.300}: the query must return the rows after its parameter, ordered by"
                f" {self._key}, which must be unique, and texts must be compared byte by byte"
            )
        found: Key = key
        return found


def _is_key(value: object) -> bool:
    return isinstance(value, int | str) and not isinstance(value, bool)


def _paramstyle_of(connection: Any) -> str:
    """What the driver's module says: the module of the connection's class, or the package that it is in."""
    name = type(connection).__module__
    while name:
        style = getattr(sys.modules.get(name), "paramstyle", None)
        if isinstance(style, str):
            return style
        name = name.rpartition(".")[0]
    raise BadInput(f"the module of {type(connection).__name__} does not tell its paramstyle: set paramstyle= to one of PEP 249's")
