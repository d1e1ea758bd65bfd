"""What a transform returned, as rows by topic for `send_many`. A result that is no record raises TypeError."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from fencepost.txn.loop.output_record import OutputRecord

if TYPE_CHECKING:
    from confluent_kafka import Message

NOTHING: Final = type(None)
VALUES: Final = frozenset({bytes, NOTHING})
PAIRS: Final = frozenset({tuple, NOTHING})
RECORD: Final = "bytes, a (key, value) pair, an OutputRecord, or a list of these"

Rows = dict[str, list[object]]
"""For each topic its rows, in the order of the messages."""


def rows_of_results(messages: list[Message], results: list[object], sink: str | None) -> Rows:
    """The rows of one result for each message. A result that is bytes keeps the message's key."""
    kinds = set(map(type, results))
    if sink is not None and kinds <= VALUES:
        kind: Any = type(messages[0])
        if NOTHING not in kinds:
            return {sink: list(zip(map(kind.key, messages), results, strict=True))}
        return {sink: [(message.key(), value) for message, value in zip(messages, results, strict=True) if value is not None]}
    if sink is not None and kinds <= PAIRS:
        return {sink: [row for row in results if row is not None]}
    rows: Rows = {}
    for message, result in zip(messages, results, strict=True):
        _add(rows, _each(message, result), sink)
    return rows


def rows_of_many(given: object, sink: str | None) -> Rows:
    """The rows that a transform returned for a list of messages. A row that is bytes has no key."""
    if not isinstance(given, list | tuple):
        raise TypeError(f"transform_many returned {type(given).__name__}: a list of rows is wanted")
    listed = list(given)
    if sink is not None and set(map(type, listed)) <= {tuple, bytes}:
        return {sink: listed}
    rows: Rows = {}
    _add(rows, iter(listed), sink)
    return rows


def _each(message: Message, result: object) -> Iterator[object]:
    """The records of one result."""
    if result is None:
        return
    for each in result if isinstance(result, list) else (result,):
        yield (message.key(), each) if isinstance(each, bytes) else each


def _add(rows: Rows, records: Iterator[object], sink: str | None) -> None:
    for record in records:
        topic, row = _row(record)
        where = sink if topic is None else topic
        if where is None:
            raise TypeError("the transform returned a record without a topic, and the pipeline has no sink: return OutputRecord(topic=...)")
        rows.setdefault(where, []).append(row)


def _row(record: object) -> tuple[str | None, object]:
    """The topic that the record names, and the row."""
    if isinstance(record, tuple | bytes):
        return None, record
    if isinstance(record, OutputRecord):
        if record.headers is None and record.timestamp is None and record.partition is None:
            return record.topic, (record.key, record.value)
        headers = record.headers
        listed = list(headers.items() if hasattr(headers, "items") else headers) if headers is not None else None
        return record.topic, (record.key, record.value, listed, record.timestamp, record.partition)
    raise TypeError(f"the transform returned {type(record).__name__}: None, {RECORD}")
