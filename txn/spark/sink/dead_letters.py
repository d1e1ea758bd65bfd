"""What happens to bad rows. They fail their batch, or become dead letters: records in a topic of their own (`on_bad_row`).

A dead letter has the row's key and value, cut if they are too long. Its headers say what is wrong, where the row was to go, and in which
batch. It is written in the batch's own transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fencepost.producer.accumulator.batch import RecordFuture
from fencepost.producer.errors import Misuse
from fencepost.producer.foundations.counted import counted
from fencepost.txn.protocol.own_topics import POLICY
from fencepost.txn.shared.participant import Participant
from fencepost.txn.spark.errors import BadRows
from fencepost.txn.spark.rows.task_summary import Summary
from fencepost.txn.spark.rows.topic_limits import TopicLimits
from fencepost.txn.spark.sink.permanent_errors import NEVER
from fencepost.txn.spark.sink.settings import WriterSettings
from fencepost.txn.transaction import Transaction

PYTHON: Final = ("on_bad_row", "bad_row_limit")
OPTIONS: Final = ("onBadRow", "badRowLimit")
"""The names in the data source."""
NAMED: Final = 3
MARGIN: Final = 4096
"""The bytes for the headers of a record that had to be cut."""


def is_too_much(bad: Sequence[Summary], settings: WriterSettings) -> bool:
    """Whether these fail the batch."""
    return count_of(bad) > settings.bad_rows_taken


def count_of(bad: Sequence[Summary]) -> int:
    """The number of rows that they stand for."""
    return sum(each.records for each in bad)


def refuse(bad: Sequence[Summary], settings: WriterSettings, batch: int, *, called: tuple[str, str] = PYTHON) -> BadRows:
    """The error that describes them. `called`: the names of the two settings for the user."""
    where_to, limit = called
    described = [each for each in bad if each.reason is not None][:NAMED]
    named = "; ".join(map(_described, described))
    left = count_of(bad) - len(described)
    more = f" (and others: {counted(left, 'more is known', 'more are known')})" if left else ""
    way_out = (
        f'set {where_to}="<topic>" for such rows'
        if settings.dead_letters is None
        else f"raise {limit}={settings.bad_row_limit}, because there are more than {where_to}={settings.on_bad_row!r} may take"
    )
    return BadRows(
        f"sink {settings.sink_id!r}, batch {batch}: rows that can never be written: {named}{more}. Nothing of the batch is visible. Correct"
        f" the query, or {way_out}"
    )


def check_dead_letter_topic(settings: WriterSettings, limits: TopicLimits, *, called: tuple[str, str] = PYTHON) -> None:
    """Raises Misuse if the topic of dead letters, as far as its configs are known, would not keep all of them."""
    topic = settings.dead_letters
    if topic is not None and limits.keyed(topic):
        raise Misuse(
            f"{called[0]}={topic!r}: the topic is compacted ({POLICY}). It refuses bad rows without a key, and keeps only the last one of"
            f" each key: set {POLICY}=delete for it, or name another topic. Nothing was written"
        )


def await_dead_letters(sent: Sequence[RecordFuture], topic: str, timeout_s: float) -> None:
    """Wait for the dead letters. Raises BadRows if the brokers refuse them permanently."""
    for future in sent:
        try:
            failure = future.exception(timeout_s)
        except TimeoutError:
            return  # The commit raises it.
        if failure is not None and failure.code in NEVER:
            raise BadRows(
                f"a bad row cannot be written to topic {topic!r}, the topic for bad rows, either: {failure}. Nothing of the batch is"
                f" visible. A topic that is compacted ({POLICY}) takes no row without a key: name another topic"
            ) from failure


def send_dead_letters(
    bad: Sequence[Summary], topic: str, transaction: Transaction | Participant, *, sink: str, batch: int, largest: int
) -> list[RecordFuture]:
    """Write the bad rows to the topic."""
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
    return f"{row.reason} ({where}, {counted(row.size, 'byte')} of key, value and headers)"
