"""`await` for a record's future, on any event loop: the loop of an AsyncProducer, or another one beside a sender thread.

It never blocks a loop. Cancelling the waiter does not cancel the record. If that record then fails, the failure counts as not read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from fencepost.producer.accumulator.batch import RecordFuture
from fencepost.producer.accumulator.record_metadata import Deliveries, RecordMetadata


class Settling(Protocol):
    """A future that tells its callbacks once, on the sender thread."""

    def done(self) -> bool: ...

    def hasten(self) -> None: ...

    def add_done_callback(self, callback: Any) -> None: ...


class SettlingBulk(Settling, Protocol):
    """The future of a bulk."""

    def result(self, timeout: float | None = None) -> Deliveries: ...


async def outcome(future: RecordFuture) -> RecordMetadata:
    """The record's metadata once it is acknowledged; raises its DeliveryError."""
    if not future.done():
        await _settled(future, future.overlooked)
    return future.result(0)


async def bulk_outcome(bulk: SettlingBulk) -> Deliveries:
    """The results of a bulk's rows, once every row has one."""
    if not bulk.done():
        await _settled(bulk, lambda: None)
    return bulk.result(0)


async def _settled(future: Settling, abandoned: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    settled = loop.create_future()

    def tell(_: object) -> None:
        try:
            if settled.cancelled():
                abandoned()
            elif _running() is loop:
                _wake(settled)
            else:
                hand_over()
        except BaseException:
            # A signal handler raised in here. The waiter must be woken all the same.
            hand_over()
            raise

    def hand_over() -> None:
        with suppress(RuntimeError):  # the waiter's loop is closed
            loop.call_soon_threadsafe(_wake, settled)

    future.hasten()
    future.add_done_callback(tell)
    await settled


def _wake(settled: asyncio.Future[None]) -> None:
    if not settled.done():
        settled.set_result(None)


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
