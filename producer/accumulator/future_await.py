"""`await` for a record's future, on any event loop: the loop of an AsyncProducer, or another one beside a sender thread.

It never blocks a loop. Cancelling the waiter does not cancel the record. A failure counts as read when the waiter gets it, not when the
sender thread wakes the waiter: the waiter may be cancelled until then, or its loop may be closed.
"""

from __future__ import annotations

import asyncio
from typing import Protocol, SupportsFloat

from fencepost.producer.accumulator.batch import RecordFuture, Unread
from fencepost.producer.accumulator.record_metadata import Deliveries, RecordMetadata
from fencepost.producer.foundations.loop_post import post


class Settling(Protocol):
    """A future that tells its callbacks once, on the sender thread."""

    def done(self) -> bool: ...

    def _hasten(self) -> None: ...

    def _tell(self, onlooker: Unread) -> None: ...


class SettlingBulk(Settling, Protocol):
    """The future of a bulk."""

    def result(self, timeout: SupportsFloat | None = None) -> Deliveries: ...


async def outcome(future: RecordFuture) -> RecordMetadata:
    """The record's metadata once it is acknowledged; raises its DeliveryError."""
    if not future.done():
        await _settled(future)
    return future.result(0)


async def bulk_outcome(bulk: SettlingBulk) -> Deliveries:
    """The results of a bulk's rows, once every row has one."""
    if not bulk.done():
        await _settled(bulk)
    return bulk.result(0)


async def _settled(future: Settling) -> None:
    loop = asyncio.get_running_loop()
    settled = loop.create_future()

    def tell(_: object) -> None:
        try:
            if _running() is loop:
                _wake(settled)
            else:
                hand_over()
        except BaseException:
            # A signal handler raised in here. The waiter must be woken all the same.
            hand_over()
            raise

    def hand_over() -> None:
        post(loop, _wake, settled)

    future._hasten()
    future._tell(Unread(tell))
    await settled


def _wake(settled: asyncio.Future[None]) -> None:
    if not settled.done():
        settled.set_result(None)


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
