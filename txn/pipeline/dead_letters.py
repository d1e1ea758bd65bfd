"""Dead letters: messages that cannot be processed, in a topic of their own, written in the batch's transaction.

A dead letter has the message's key, value and headers, cut if they are too long. Further headers say what was wrong and where the message
is. Their names are those of the Spark writer's dead letters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fencepost.txn.loop.attempts import Failed
from fencepost.txn.loop.dead_letter_headers import headers, room_for_record
from fencepost.txn.pipeline.batch import offset_of, tp_of
from fencepost.txn.pipeline.errors import PoisonMessage

if TYPE_CHECKING:
    from confluent_kafka import Message


def dead_letter(message: Message, failed: Failed, *, group: str, largest: int) -> tuple[bytes | None, bytes | None, list[object]]:
    """The row (key, value, headers) of the dead letter. `largest`: the bytes that a record may take."""
    room = room_for_record(largest)
    key, value = message.key(), message.value()
    given: Any = message.headers() or []
    kept: list[tuple[str, Any]] = list(given)
    size = len(key or b"") + len(value or b"") + sum(len(name) + len(each or b"") + 16 for name, each in kept)
    cut = size > room
    if cut:
        kept = []
        key = key[:room] if key is not None else None
        value = value[: room - len(key or b"")] if value is not None else None
    topic, partition = tp_of(message)
    told: dict[str, object] = {
        "reason": failed.reason,
        "topic": topic,
        "partition": partition,
        "offset": offset_of(message),
        "timestamp": message.timestamp()[1],
        "attempts": failed.attempts,
        "cut": cut,
        "group": group,
    }
    named = [(name, each.encode() if isinstance(each, str) else each) for name, each in kept]
    return key, value, [*named, *headers(told)]


def poison(message: Message, failed: Failed) -> PoisonMessage:
    """The error for a pipeline without a topic for dead letters."""
    topic, partition = tp_of(message)
    error = PoisonMessage(failed.reason, topic=topic, partition=partition, offset=offset_of(message), attempts=failed.attempts)
    error.__cause__ = failed.error
    return error
