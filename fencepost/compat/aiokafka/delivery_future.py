"""The future that `AIOKafkaProducer.send` returns: an asyncio.Future that costs nothing until the program uses it.

To make and resolve an asyncio.Future takes longer than to send a record, and many programs never look at it. So `send` returns an
UntouchedFuture, which only points at fencepost's future. When the program first awaits it, gives it a callback or cancels it, it becomes a
DeliveryFuture, an ordinary asyncio.Future that gets its outcome with all others of its batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextvars import Context
from functools import partial
from typing import Any, Final

from fencepost.compat.aiokafka.structs import RecordMetadata, TopicPartition
from fencepost.compat.aiokafka.translation import translated
from fencepost.producer.accumulator.batch import Batch, RecordFuture, Unread, hasten, tell

SET_UP: Final = asyncio.Future.__init__
NEW: Final = tuple.__new__
"""RecordMetadata(...) calls a Python function for the same."""


class DeliveryFuture(asyncio.Future[RecordMetadata]):
    """The outcome of one `send`: its RecordMetadata, or None with acks=0. It can be awaited, and given to `asyncio.wait`, `gather`,
    `wait_for` and `shield`. `underlying`: fencepost's future of the record.

    Cancelling it does not cancel the record. A failure that the program does not read is logged, as asyncio or as fencepost's producer
    does it.
    """

    __slots__ = ("_outcomes", "underlying")

    _outcomes: Outcomes
    underlying: RecordFuture

    def __repr__(self) -> str:
        return f"<DeliveryFuture {self.underlying!r}{', cancelled' if self.cancelled() else ''}>"


class UntouchedFuture(DeliveryFuture):
    """A DeliveryFuture that the program has not used."""

    __slots__ = ()

    def __init__(self, record: RecordFuture, outcomes: Outcomes) -> None:
        self.underlying = record
        self._outcomes = outcomes

    def done(self) -> bool:
        """Whether the record has its outcome."""
        return self.underlying.done()

    def cancelled(self) -> bool:
        """No: `cancel` uses the future."""
        return False

    def result(self) -> RecordMetadata:
        """The metadata. Raises the record's error, or InvalidStateError if there is no outcome yet."""
        return self._used().result()

    def exception(self) -> BaseException | None:
        """The record's error, or None. Raises InvalidStateError if there is no outcome yet."""
        return self._used().exception()

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel the future, not the record."""
        return self._used().cancel(msg=msg)

    def add_done_callback(self, callback: Callable[[Any], object], /, *, context: Context | None = None) -> None:
        """Have the loop call `callback(self)` once there is an outcome."""
        self._used().add_done_callback(callback, context=context)

    def remove_done_callback(self, callback: Callable[[Any], object], /) -> int:
        """There is none."""
        return 0

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """The producer's loop."""
        return self._outcomes.loop

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        hasten(self.underlying)
        return self._used().__await__()

    __iter__ = __await__

    def _used(self) -> DeliveryFuture:
        """The same future, set up."""
        self.__class__ = DeliveryFuture  # type: ignore[assignment]  # both have the same slots
        SET_UP(self, loop=self._outcomes.loop)
        self._outcomes.follow(self)
        return self


class Outcomes:
    """What the futures of one producer share: the loop, and whether brokers acknowledge at all. It watches each batch once, for all of its
    futures that are in use."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, acknowledged: bool) -> None:
        self.loop = loop
        self.acknowledged = acknowledged
        self._followed: dict[Batch, list[DeliveryFuture]] = {}

    def follow(self, future: DeliveryFuture) -> None:
        """Give the future its outcome, now or later."""
        record = future.underlying
        if record.done():
            self._give(future)
            return
        batch = record.batch
        followed = self._followed.get(batch)
        if followed is not None:
            followed.append(future)
        else:
            self._followed[batch] = [future]
            tell(record, Unread(partial(self._settled, batch)))

    def _settled(self, batch: Batch, record: RecordFuture) -> None:
        """The batch has its outcome, or was split and the first record's part has it."""
        for future in self._followed.pop(batch):
            self.follow(future)

    def _give(self, future: DeliveryFuture) -> None:
        """Resolve the future."""
        if future.done():
            return  # It was cancelled. The producer reports a failure.
        record = future.underlying
        failure = record.exception(0)
        try:
            if failure is not None:
                future.set_exception(translated(failure))
            elif self.acknowledged:
                at, batch = record.result(0), record.batch
                place = NEW(TopicPartition, (at.topic, at.partition))
                known = at.timestamp if at.timestamp >= 0 else None
                future.set_result(
                    NEW(RecordMetadata, (at.topic, at.partition, place, at.offset, known, int(batch.log_append_time != -1), None))
                )
            else:
                future.set_result(None)  # type: ignore[arg-type]  # a None in the type for acks=0 would fail in every program
        except RuntimeError:
            if not self.loop.is_closed():
                raise
            # There is no loop that could call the future's callbacks.
