"""Rows that can never be written. They fail their batch, or become records in a topic of their own (`on_bad_row`).

Such a record keeps key and value, cut where they are too long. Its headers say what is wrong, where the row was to go, and in which batch.
The batch's own transaction has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fencepost.producer.accumulator.batch import RecordFuture
from fencepost.producer.errors import Misuse
from fencepost.txn.ledger.own_topics import POLICY
from fencepost.txn.shared.participant import Participant
from fencepost.txn.spark.errors import BadRows
from fencepost.txn.spark.rows.task_summary import Summary
from fencepost.txn.spark.rows.topic_limits import TopicLimits
from fencepost.txn.spark.sink.permanent_errors import NEVER
from fencepost.txn.spark.sink.settings import WriterSettings
from fencepost.txn.transaction import Transaction

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
    return count_of(bad) > settings.bad_rows_taken


def count_of(bad: Sequence[Summary]) -> int:
    """How many rows they stand for."""
    return sum(each.records for each in bad)


def refuse(bad: Sequence[Summary], settings: WriterSettings, batch: int, *, called: tuple[str, str] = PYTHON) -> BadRows:
    """The error that names them. `called`: how the user knows the two settings."""
    where_to, limit = called
    described = [each for each in bad if each.reason is not None][:NAMED]
    named = "; ".join(map(_described, described))
    left = count_of(bad) - len(described)
    more = f" (and others: {left} more are known)" if left else ""
    way_out = (
        f'let {where_to}="<topic>" take such rows'
        if settings.dead_letters is None
        else f"raise {limit}={settings.bad_row_limit}, as there are more than {where_to}={settings.on_bad_row!r} is to take"
    )
    return BadRows(
        f"sink {settings.sink_id!r}, batch {batch}: rows that can never be written: {named}{more}. Nothing of the batch is visible. Mend"
        f" the query, or {way_out}"
    )


def check_letters(settings: WriterSettings, limits: TopicLimits, *, called: tuple[str, str] = PYTHON) -> None:
    """Raises Misuse where the topic of bad rows, as far as its configs are known, would not keep them all."""
    topic = settings.dead_letters
    if topic is not None and limits.keyed(topic):
        raise Misuse(
            f"{called[0]}={topic!r}: the topic is compacted ({POLICY}), takes no bad row that has no key, and of those with one key keeps"
            f" the last: set {POLICY}=delete for it, or name another topic. Nothing was written"
        )


def check_buried(sent: Sequence[RecordFuture], topic: str, timeout_s: float) -> None:
    """Wait for what `bury` has sent. Raises BadRows where the brokers refuse that, and would again."""
    for future in sent:
        try:
            failure = future.exception(timeout_s)
        except TimeoutError:
            return  # The commit tells.
        if failure is not None and failure.code in NEVER:
            raise BadRows(
                f"a bad row cannot be written to topic {topic!r} either, where such rows go: {failure}. Nothing of the batch is visible. A"
                f" topic that is compacted ({POLICY}) takes no row without a key: name one that is not"
            ) from failure


def bury(
    bad: Sequence[Summary], topic: str, transaction: Transaction | Participant, *, sink: str, batch: int, largest: int
) -> list[RecordFuture]:
    """Write them to the topic."""
    sent = []
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
        headers = [(name, str(each).encode()) for name, each in told.items() if each is not None]
        sent.append(transaction.send(topic, value, key=key, headers=headers))
    return sent


def _described(row: Summary) -> str:
    place = "no topic" if row.topic is None else f"topic {row.topic!r}"
    where = place if row.partition is None else f"{place}, partition {row.partition}"
    return f"{row.reason} ({where}, {row.size} bytes of key, value and headers)"
