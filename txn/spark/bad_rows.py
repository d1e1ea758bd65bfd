"""Rows that can never be written: the error that fails their batch, or the records that they become in a topic of their own.

Such a record keeps key and value, cut where they are too long, and says in its headers what was wrong, where the row was to go, and in
which batch. It is written in the batch's own transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from txn.borrower import Borrower
from txn.spark.errors import BadRows
from txn.spark.summary import Summary
from txn.spark.writer_settings import WriterSettings
from txn.transaction import Transaction

PYTHON: Final = ("on_bad_row", "bad_row_limit")
OPTIONS: Final = ("onBadRow", "badRowLimit")
"""The same of the data source."""
NAMED: Final = 3
MARGIN: Final = 4096
"""Bytes left for the headers of a record that had to be cut."""
KEPT_BYTES: Final = 2 * 1024 * 1024
"""Bytes of keys and values of bad rows that a Spark task brings to the driver, which holds those of all tasks."""


def is_too_much(bad: Sequence[Summary], settings: WriterSettings) -> bool:
    """Whether these fail the batch."""
    return len(bad) > (0 if settings.dead_letters is None else settings.bad_row_limit)


def refuse(bad: Sequence[Summary], settings: WriterSettings, batch: int, *, called: tuple[str, str] = PYTHON) -> BadRows:
    """The error that names them. `called`: how the user knows the two settings."""
    where_to, limit = called
    named = "; ".join(_described(each) for each in bad[:NAMED])
    more = f" (and others like them: {len(bad) - NAMED} more are known)" if len(bad) > NAMED else ""
    way_out = (
        f'let {where_to}="<topic>" take such rows'
        if settings.dead_letters is None
        else f"raise {limit}={settings.bad_row_limit}, as there are more than {where_to}={settings.on_bad_row!r} is to take"
    )
    return BadRows(
        f"sink {settings.sink_id!r}, batch {batch}: rows that can never be written: {named}{more}. Nothing of the batch is visible. Mend"
        f" the query, or {way_out}"
    )


def bury(bad: Sequence[Summary], topic: str, transaction: Transaction | Borrower, *, sink: str, batch: int, largest: int) -> None:
    """Write them to the topic."""
    for row in bad:
        room = max(0, largest - MARGIN)
        key = row.key[:room] if row.key is not None else None
        value = row.value[: room - len(key or b"")] if row.value is not None else None
        told = {
            "fencepost.reason": row.reason,
            "fencepost.topic": row.topic,
            "fencepost.partition": row.partition,
            "fencepost.bytes": row.size,
            "fencepost.cut": row.cut or (key, value) != (row.key, row.value),
            "fencepost.sink": sink,
            "fencepost.batch": batch,
        }
        transaction.send(topic, value, key=key, headers=[(name, str(each).encode()) for name, each in told.items() if each is not None])


def _described(row: Summary) -> str:
    place = "no topic" if row.topic is None else f"topic {row.topic!r}"
    where = place if row.partition is None else f"{place}, partition {row.partition}"
    return f"{row.reason} ({where}, {row.size} bytes of key, value and headers)"
