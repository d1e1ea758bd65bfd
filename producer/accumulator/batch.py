"""A batch of records for one partition, and the future of each record.

Callers append under the accumulator's lock, and the sender thread settles. The same lock guards what both touch: callbacks, waiters and the
outcome. A future is a (batch, index) pair without a result of its own, so settling costs the same for one record and for ten thousand.

Callbacks run on the sender thread, in the order of the batch's records. A callback that is added after the outcome is known runs at once,
on the caller's thread. The exception of a callback is logged and not raised.
"""

from __future__ import annotations

import concurrent.futures
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Generator, Sequence
from threading import get_ident
from types import CoroutineType
from typing import Any, Final, NoReturn, SupportsFloat, cast

from mypy_extensions import i64, mypyc_attr

from fencepost.producer.accumulator.concurrent_future import ConcurrentFuture
from fencepost.producer.accumulator.record_metadata import RecordMetadata
from fencepost.producer.errors import DeliveryError, FencepostError, Misuse, again, bound_to_process, plain
from fencepost.producer.foundations.rlock import RLock
from fencepost.producer.foundations.runtime import Lock
from fencepost.producer.foundations.timeouts import seconds
from fencepost.producer.wire.records.batch_builder import BatchBuilder
from fencepost.producer.wire.records.sizes import BATCH_OVERHEAD

log = logging.getLogger("fencepost.producer")

WAIT_SECONDS_MAX = 100 * 365 * 86_400.0

UNTOLD: Final = -2
"""For `log_append_time`: the records have the broker's time, and no answer told it. -1: the records have their own."""

Headers = Sequence[tuple[str, bytes | None]]
OnDelivery = Callable[["RecordFuture"], object]


class Region:
    """The lock, for all but `Accumulator.append`: while a thread holds it, Python may run the program's code (`Shared.inside`).
    `holder`: the thread that is in the region, 0 for none. A thread that is in it cannot enter it again."""

    def __init__(self, lock: Lock) -> None:
        self._lock = lock
        self.holder: i64 = 0

    def __enter__(self) -> None:
        me: i64 = get_ident()
        if self.holder == me:
            raise Misuse(INSIDE)
        self._lock.acquire()
        self.holder = me

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.holder = 0
        self._lock.release()

    def enter_with_lock(self) -> None:
        """The calling thread has only the lock, and continues with work during which Python may run the program's code."""
        self.holder = get_ident()

    def leave_without_lock(self) -> None:
        """The calling thread releases the lock. It may not have entered the region."""
        if self.holder == get_ident():
            self.holder = 0


COMPILED: Final = not hasattr(Region.enter_with_lock, "__code__")
INSIDE: Final = (
    "this is called in the middle of another call of the same producer, as a finalizer, a weak reference's callback or a signal's handler "
    "may be, and the other call goes on only when this one has ended"
)


class Shared:
    """What the batches of one accumulator share: the lock, the way to wake the sender thread, and the id of that thread.

    `woken`: the sender thread was woken and has not looked yet. `looks`: how often it has looked. `planning` is held while a plan is made
    and committed (`arrow_append`), so that concurrent plans do not invalidate each other.

    Python may run the program's code at nearly any point. Where an object is made, a collection may run a finalizer. Uncompiled, a signal
    handler may run anywhere. That code may call the producer on the thread that holds the lock. So all work is done in `region`, which
    detects such a call (`inside`): the thread does not wait for itself, and does not see unfinished work.

    Only `Accumulator.append` takes the bare `lock`, for work that runs no such code when compiled. It enters the region for the rest.
    Uncompiled, `lock` and `region` are one RLock, which is taken without a call at which Ctrl-C could strike. `held` is always the Region.
    """

    def __init__(self, *, patience_s: float) -> None:
        self.planning = threading.Lock()
        self.renew_lock()
        self.wake: Callable[[], object] = no_sender
        self.patience_s = patience_s
        self.sender_ident = 0
        self.urgent: list[Batch] = []
        self.woken = False
        self.looks = 0
        self.forked: FencepostError | None = None
        self.leave: Callable[[BaseException], None] | None = None
        self.stranded: Callable[[BaseException | None], None] | None = None
        self.awaiter: Callable[[RecordFuture], Coroutine[Any, Any, RecordMetadata]] = no_awaiter
        self.bulk_awaiter: Callable[[Any], Coroutine[Any, Any, Any]] = no_awaiter

    def renew_lock(self) -> None:
        """Take a new lock that no thread holds: in a forked child."""
        self.lock: Lock = Lock() if COMPILED else cast(Lock, RLock())
        self.held = Region(self.lock)
        self.region: Region = self.held if COMPILED else cast(Region, self.lock)

    def inside(self) -> bool:
        """Whether the calling thread holds the lock already, in another call of the producer."""
        if COMPILED:
            return self.held.holder == get_ident()
        return bool(cast(Any, self.lock)._is_owned())

    def rouse(self) -> None:
        """Wake the sender thread. Callers repeat this if Ctrl-C struck in the middle of it. A forked child wakes nothing: the sender thread
        is the parent's."""
        if self.forked is None:
            self.wake()

    def rouse_after(self, looks: int) -> None:
        """Wake the sender thread, and then note that it is woken unless it has looked since. `looks`: how often it had looked.

        The note comes second, because code that interrupts this thread may wait for the sender thread."""
        self.rouse()
        with self.region:
            if self.looks == looks:
                self.woken = True

    def hasten(self, batches: list[Batch]) -> None:
        """Have these batches sent without further lingering, because a caller waits for them."""
        looks = -1
        try:
            with self.region:
                self._make_urgent(batches)
                if self.urgent and not self.woken:
                    looks = self.looks
            if looks >= 0:
                self.rouse_after(looks)
        except BaseException:
            if looks >= 0:
                self.rouse()
            raise

    def _make_urgent(self, batches: list[Batch]) -> None:
        for batch in batches:
            if not batch.urgent:
                # No calls here: uncompiled, Ctrl-C can strike at each.
                batch.urgent = True
                self.urgent += [batch]

    def came_back(self, error: BaseException | None = None) -> None:
        """A callback has returned, or raised. In a child process that it forked on the sender thread this ends the process."""
        if self.stranded is not None:
            self.stranded(error)

    def pass_on(self, error: BaseException) -> None:
        """A callback raised. Where callbacks run on the caller's event loop, KeyboardInterrupt and SystemExit go on to that loop."""
        if self.leave is not None and isinstance(error, (KeyboardInterrupt, SystemExit)):
            self.leave(error)

    def refuse_after_fork(self) -> None:
        """Raise in a child of the process that made the producer: nothing works there."""
        if self.forked is not None:
            raise again(self.forked)

    def on_sender(self) -> bool:
        """Whether the caller is on the sender thread, which would wait for itself forever."""
        return get_ident() == self.sender_ident

    def why_no_wait(self, call: str) -> str:
        """Why waiting for the sender thread in this call would never end; empty if it would."""
        if self.on_sender():
            if self.leave is not None:  # AsyncProducer's
                return f"{call} on the thread of the event loop would never end, because this thread delivers: await it instead"
            return f"{call} inside a delivery callback would never end: the callback runs on the thread that delivers"
        return f"{call} would never end: {INSIDE}" if self.inside() else ""


def no_awaiter(future: RecordFuture) -> Coroutine[Any, Any, RecordMetadata]:
    """The awaiter of an accumulator without a producer."""
    raise Misuse("this future cannot be awaited")


def no_sender() -> None:
    """`wake` before there is a sender thread."""


class Follower:
    """Follows some of a batch's records without a future for each (`bulk`)."""

    def span_context(self) -> object:
        """The span of the call that sent the records; None without one."""
        return None

    def settle(self) -> None:
        """The batch has its outcome."""
        raise NotImplementedError

    def move(self, pieces: list[Batch]) -> None:
        """The batch was split: these pieces hold its records, in order."""
        raise NotImplementedError


def wake_all(waiting: list[threading.Lock] | None) -> None:
    """Release the locks of the waiting threads."""
    if waiting is not None:
        for held in waiting:
            held.release()


class Batch:
    """Records of one partition, from the first append to the outcome that they share. `urgent`: the batch does not linger.
    `kept`: bytes that the budget counts in addition to those of the records."""

    def __init__(self, topic: str, partition: i64, created_ms: float, shared: Shared) -> None:
        self.topic = topic
        self.partition: i64 = partition
        self.created_ms = created_ms
        self.builder: BatchBuilder | None = BatchBuilder()
        self.count: i64 = 0
        self.size: i64 = BATCH_OVERHEAD
        self.kept: i64 = 0
        self.urgent = False
        self.settled = False
        self.base_offset: i64 = -1
        self.log_append_time: i64 = -1
        self.failure: DeliveryError | None = None
        self.unseen: i64 = 0
        self.pieces: list[Batch] | None = None
        self.shared = shared
        self.newest_follower: Follower | None = None
        self._followers: list[Follower] | None = None
        self._waiting: list[threading.Lock] | None = None
        # Made here and not with the first callback, because a finalizer may not run there (`Shared`).
        self._callbacks: list[OnDelivery] | None = []
        self._watched: list[RecordFuture] | None = []

    # -- appending, under the accumulator's lock ---------------------------------------------------------------------

    def append(
        self, timestamp: i64, key: bytes | None, value: bytes | None, headers: bytes | None, on_delivery: OnDelivery | None
    ) -> RecordFuture:
        builder = self.builder
        assert builder is not None
        # The future comes first. Uncompiled, Ctrl-C can strike at any call, and no call may stand between a record's bytes and its count.
        future = RecordFuture(self, self.count, timestamp)
        if on_delivery is None:
            builder.append(timestamp, key, value, headers)
        else:
            self._watch(future, on_delivery)
            try:
                builder.append(timestamp, key, value, headers)
            except BaseException:
                self._watch_no_more()
                raise
        self.size = builder.size
        self.count += 1
        return future

    def refill(self, timestamp: i64, key: bytes | None, value: bytes | None, headers: bytes | None) -> None:
        """Append a record that already has a future (a split), or needs none (a bulk)."""
        builder = self.builder
        assert builder is not None
        builder.append(timestamp, key, value, headers)
        self.size = builder.size
        self.count += 1

    def extend(self, records: bytes | memoryview, count: i64, size: i64, base_timestamp: i64, max_timestamp: i64) -> None:
        """Append records that were encoded for this place. `size` and the timestamps are those of the batch with them."""
        builder = self.builder
        assert builder is not None
        builder.extend(records, count, size, base_timestamp, max_timestamp)
        self.size = size
        self.count += count

    def follow(self, follower: Follower) -> None:
        """Tell the follower of the outcome, or of a split."""
        # No calls here, as in `Accumulator.line_up`.
        if self._followers is None:
            self._followers = [follower]
        else:
            self._followers += [follower]
        self.newest_follower = follower

    def follow_no_more(self, follower: Follower) -> None:
        """Remove the newest follower: its records did not come into the batch."""
        if self._followers is not None and self.newest_follower is follower:
            self._followers.pop()
            self.newest_follower = None

    def _watch(self, future: RecordFuture, on_delivery: OnDelivery) -> None:
        callbacks, watched = self._callbacks, self._watched
        assert callbacks is not None
        assert watched is not None
        noted = len(watched)
        try:
            callbacks.append(on_delivery)
            watched.append(future)
        except BaseException:
            del callbacks[noted:], watched[noted:]
            raise

    def _watch_no_more(self) -> None:
        """Remove the newest callback: its record did not come into the batch."""
        if self._callbacks and self._watched:
            del self._callbacks[-1], self._watched[-1]

    # -- the outcome -------------------------------------------------------------------------------------------------

    def span_contexts(self) -> list[object]:
        """The spans of the calls that sent the batch's records, where calls have spans (`telemetry`)."""
        with self.shared.region:
            callbacks, followers = [*(self._callbacks or [])], [*(self._followers or [])]
        found = [*(getattr(each, "span_context", None) for each in callbacks), *(each.span_context() for each in followers)]
        return [each for each in found if each is not None]

    def settle(self, base_offset: i64, log_append_time: i64, failure: DeliveryError | None) -> None:
        """Publish the outcome, wake the waiting threads and run the callbacks. Only the first call has an effect."""
        with self.shared.region:
            if self.settled:
                return
            self.base_offset = base_offset
            self.log_append_time = log_append_time
            self.failure = failure
            self.builder = None
            waiting, callbacks, watched = self._waiting, self._callbacks, self._watched
            self._waiting = self._callbacks = self._watched = None
            if failure is not None:
                self.unseen = self.count
            self.settled = True  # Last, because `done` and `result` look at it without the lock, and then read the outcome.
        wake_all(waiting)
        followers, self._followers, self.newest_follower = self._followers, None, None
        if followers is not None:
            for follower in followers:
                follower.settle()
        if callbacks is not None and watched is not None:
            for index in range(len(callbacks)):
                if not isinstance(callbacks[index], Unread):
                    watched[index]._note_read()
                run_callback(callbacks[index], watched[index])

    def split_into(self, pieces: list[Batch]) -> None:
        """Hand futures, waiters and callbacks over to the batches that replace this one. They hold its records in order."""
        with self.shared.region:
            self.pieces = pieces
            self.builder = None
            waiting, callbacks, watched = self._waiting, self._callbacks, self._watched
            self._waiting = self._callbacks = self._watched = None
            if callbacks is not None and watched is not None:
                for index in range(len(callbacks)):
                    watched[index]._move()
                    watched[index].batch._watch(watched[index], callbacks[index])
            followers, self._followers, self.newest_follower = self._followers, None, None
            if followers is not None:
                for follower in followers:
                    follower.move(pieces)
        wake_all(waiting)

    def wait(self, timeout_s: float) -> bool:
        """Wait until this batch, or all pieces that replaced it, have an outcome; False if the time passed first. Ctrl-C interrupts it."""
        deadline = deadline_after(timeout_s)
        if not self._wait_until(deadline):
            return False
        pieces = self.pieces
        if pieces is not None:
            for piece in pieces:
                if not piece.wait(deadline - time.monotonic()):
                    return False
        return True

    def _wait_until(self, deadline: float) -> bool:
        """Wait for an outcome or a split. Each waiting thread makes one lock: an Event makes three and takes five times as long."""
        held = threading.Lock()
        held.acquire()
        with self.shared.region:
            if self.settled or self.pieces is not None:
                return True
            if self._waiting is None:
                self._waiting = []
            self._waiting.append(held)
        happened = held.acquire(timeout=max(0.0, deadline - time.monotonic()))
        if not happened:
            self._wait_no_more(held)
        return happened

    def _wait_no_more(self, held: threading.Lock) -> None:
        with self.shared.region:
            if self._waiting is not None:
                self._waiting.remove(held)

    def complete(self) -> bool:
        """Whether every record of the batch has an outcome."""
        pieces = self.pieces
        if pieces is None:
            return self.settled
        return all(piece.complete() for piece in pieces)


# Not tracked by the cycle collector when compiled. A program that keeps millions of futures would pay their price again in collections that
# find nothing. The only possible cycle, through a batch's callbacks, is cut when the batch settles, and every batch settles.
@mypyc_attr(acyclic=True)
class RecordFuture:
    """The outcome of one `send`, now or later: an index into a batch."""

    def __init__(self, batch: Batch, index: i64, timestamp: i64) -> None:
        self.batch = batch
        self._index: i64 = index
        self._timestamp: i64 = timestamp
        self._looked = False

    def done(self) -> bool:
        """Whether the record has been acknowledged or has failed."""
        self._rehome()
        return self.batch.settled

    def result(self, timeout: SupportsFloat | None = None) -> RecordMetadata:
        """Where the record is in the log. Waits up to `timeout` seconds for the outcome (None: until the delivery deadline decides).

        Raises DeliveryError (its `persisted` says whether the record may be in the log), or TimeoutError if `timeout` passed first.
        Waiting sends the record's batch without further lingering.
        """
        failure = self.exception(timeout)
        if failure is not None:
            raise failure
        batch = self.batch
        offset = batch.base_offset + self._index if batch.base_offset >= 0 else -1
        timestamp = self._timestamp if batch.log_append_time == -1 else max(batch.log_append_time, -1)
        return RecordMetadata(batch.topic, int(batch.partition), int(offset), int(timestamp))

    def exception(self, timeout: SupportsFloat | None = None) -> DeliveryError | None:
        """The failure, or None for an acknowledged record. Waits and raises TimeoutError like `result`."""
        limit_s = self.batch.shared.patience_s if timeout is None else seconds(timeout, 0.0)
        self._rehome()
        if not self.batch.settled:
            self._wait(limit_s)
        self._note_read()
        failure = self.batch.failure
        return None if failure is None else failure.again()

    def add_done_callback(self, callback: OnDelivery) -> None:
        """Run `callback(self)` on the sender thread once the outcome is known, or here at once if it already is."""
        if not self._when_settled(callback):
            self._note_read()
            run_callback(callback, self)

    def _tell(self, onlooker: Unread) -> None:
        """The same for a callback of this package, after which the outcome does not count as read."""
        if not self._when_settled(onlooker):
            run_callback(onlooker, self)

    def _when_settled(self, callback: OnDelivery) -> bool:
        """Have the callback run once the outcome is known; False if it already is."""
        shared = self.batch.shared
        shared.refuse_after_fork()
        if shared.inside():
            raise Misuse(f"{INSIDE}: give `send` an `on_delivery` instead")
        with shared.region:
            self._move()
            waits = not self.batch.settled
            if waits:
                self.batch._watch(self, callback)
        return waits

    def concurrent(self) -> concurrent.futures.Future[RecordMetadata]:
        """A `concurrent.futures.Future` with this record's outcome, for `concurrent.futures.wait` and `as_completed`. Cancelling it does
        not cancel the record."""
        return follow(self)

    def __repr__(self) -> str:
        if not self.done():
            outcome = "pending"
        elif self.batch.failure is not None:
            outcome = f"failed: {self.batch.failure}"
        else:
            outcome = f"offset {int(self.batch.base_offset + self._index)}" if self.batch.base_offset >= 0 else "acknowledged"
        return f"RecordFuture({self.batch.topic}-{int(self.batch.partition)}, {outcome})"

    def __reduce__(self) -> NoReturn:
        raise bound_to_process("RecordFuture", "pass on what its result() returns")

    def _rehome(self) -> None:
        """After a split, point at the piece that holds this record now."""
        if self.batch.pieces is not None and not self.batch.shared.inside():
            with self.batch.shared.region:
                self._move()

    def _move(self) -> None:
        """The same, under the lock."""
        pieces = self.batch.pieces
        while pieces is not None:
            for piece in pieces:
                if self._index < piece.count:
                    self.batch = piece
                    break
                self._index -= piece.count
            pieces = self.batch.pieces

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        """`await future` is `result()` for asyncio: on any event loop, without a thread that waits. Cancelling it does not cancel the
        record."""
        return self.batch.shared.awaiter(self).__await__()

    def _hasten(self) -> None:
        """Have the record's batch sent without further lingering, because a caller waits for it."""
        shared = self.batch.shared
        if not self.batch.urgent or (shared.urgent and not shared.woken):
            shared.hasten([self.batch])

    def _note_read(self) -> None:
        """The program has read this record's outcome, so `flush` and `close` need not report its failure."""
        batch = self.batch
        if not self._looked and batch.failure is not None:
            if batch.shared.inside():
                self._see(batch)
            else:
                with batch.shared.region:
                    self._see(batch)

    def _see(self, batch: Batch) -> None:
        if not self._looked:
            self._looked = True
            batch.unseen -= 1

    def _wait(self, limit_s: float) -> None:
        shared = self.batch.shared
        shared.refuse_after_fork()
        refusal = shared.why_no_wait("waiting for a delivery")
        if refusal:
            raise Misuse(refusal)
        deadline = deadline_after(limit_s)
        while not self.batch.settled:
            self._hasten()
            if not self.batch._wait_until(deadline):
                raise TimeoutError(
                    f"{self.batch.topic}-{self.batch.partition}: no outcome within {plain(limit_s)} s; the record is still on its way"
                )
            self._rehome()


def deadline_after(seconds: float) -> float:
    """The monotonic time so many seconds from now, at most WAIT_SECONDS_MAX: no lock can wait longer."""
    return time.monotonic() + min(seconds, WAIT_SECONDS_MAX)


class Unread:
    """A callback of this package. It passes on that there is an outcome, or the outcome itself, which the program may never read.
    `span_context`: that of the record's span, if it has one."""

    def __init__(self, call: Callable[[Any], object]) -> None:
        self._call = call
        self.span_context: object = None

    def __call__(self, settled: Any) -> object:
        return self._call(settled)


def follow(future: RecordFuture) -> concurrent.futures.Future[RecordMetadata]:
    """A `concurrent.futures.Future` that gets the record's outcome as soon as there is one."""
    followed: concurrent.futures.Future[RecordMetadata] = ConcurrentFuture(future._note_read)

    def tell(settled: RecordFuture) -> None:
        failure = settled.batch.failure
        if failure is not None:
            followed.set_exception(failure.again())
        else:
            followed.set_result(settled.result())

    future._tell(Unread(tell))
    return followed


def hasten(future: RecordFuture) -> None:
    """Have the record's batch sent without further lingering, because a caller waits for its outcome."""
    future._hasten()


def tell(future: RecordFuture, onlooker: Unread) -> None:
    """`RecordFuture.add_done_callback`, after which the outcome does not count as read."""
    future._tell(onlooker)


def run_callback(callback: OnDelivery, future: RecordFuture) -> None:
    """Run one delivery callback. What it raises is logged here and not raised, KeyboardInterrupt and SystemExit on the sender thread
    included: they must not end the sender thread."""
    shared = future.batch.shared
    try:
        returned = callback(future)
        if returned is not None and isinstance(returned, CoroutineType):
            returned.close()
            raise TypeError("on_delivery is an async function, which the producer does not await: give a function, or await the future")
        shared.came_back()
    except BaseException as error:
        shared.came_back(error)
        log.exception("a delivery callback for %s-%d raised", future.batch.topic, future.batch.partition)
        shared.pass_on(error)
