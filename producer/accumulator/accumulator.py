"""The RecordAccumulator: callers append records and the sender thread takes batches, under one short lock and one byte budget.

An append encodes the record straight into the partition's open batch. The sender thread learns of a partition once per batch, not per
record. One wake-up covers everything that is appended until the sender thread looks.

The accumulator does not decide when a batch may leave: `core` does. It never waits: an append that finds no room returns None.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import get_ident
from typing import Final

from mypy_extensions import i64

from fencepost.producer.accumulator.batch import COMPILED, INSIDE, Batch, OnDelivery, RecordFuture, Shared
from fencepost.producer.accumulator.partitioner import RoundRobin, Sticky, partition_for_range
from fencepost.producer.errors import DeliveryError, FencepostError, Misuse, again
from fencepost.producer.wire.records.sizes import BATCH_OVERHEAD, RECORD_BOUND

CALLBACK_BYTES: Final[i64] = 80
"""The memory of a future and its delivery callback until the record has its outcome. The budget counts it, because it can be as much as
the record. A future without a callback is not counted: only the program keeps it."""

ROW_BYTES: Final[i64] = 8
"""The memory that a bulk takes for each row until then: the row's place in its batch. Counted for the same reason."""


class PartitionQueue:
    """Batches of one partition that wait for the sender thread, oldest first. Only the last one can be open for appends.
    `touched`: the sender thread has to look at the queue."""

    def __init__(self, topic: str, partition: i64) -> None:
        self.topic = topic
        self.partition: i64 = partition
        self.batches: deque[Batch] = deque()
        self.open: Batch | None = None
        self.queued_bytes: i64 = 0
        self.touched = False


class TopicQueues:
    """One topic's queues and its partitioner for records without a key. `available`: partitions that have a leader."""

    def __init__(self, topic: str, *, draw: Callable[[], int], round_robin: bool) -> None:
        self.topic = topic
        self.queues: list[PartitionQueue] = []
        self.partitions = 0
        self.available: list[int] = []
        self.sticky = Sticky(draw=draw)
        self.rotation: RoundRobin | None = RoundRobin() if round_robin else None

    def grow(self, partitions: int) -> None:
        """Make queues for new partitions. A topic never loses a queue."""
        for partition in range(len(self.queues), partitions):
            self.queues.append(PartitionQueue(self.topic, partition))

    def queue_for(self, key: bytes | None, partitions: i64) -> PartitionQueue:
        """The queue of a record that names no partition."""
        if self.rotation is not None:
            return self.queues[self.rotation.choose(self.available, partitions)]
        if key is not None:
            return self.queues[partition_for_range(key, 0, len(key), partitions)]
        current: i64 = self.sticky.current
        if current < 0 or current >= partitions:
            current = self.sticky.choose(self.available, partitions, [int(queue.queued_bytes) for queue in self.queues[:partitions]])
        return self.queues[current]


class Accumulator:
    """The byte budget, the topics' queues and the batches without an outcome.

    `batch_size`: the bytes after which a batch takes no more records. `buffer_memory`: the bytes that records, callbacks and rows may take,
    queued and in flight. `clock`: milliseconds. `waiting`: how many callers wait for room. `newest_hurry`: the newest flush or wait
    for room; it is set when `hurried` knows of it. `refusal`: the error that every append raises, once it is set. `takes_aside`: a record
    that is sent in the middle of another call of the same thread is accepted. `on_outcome`: called with each batch that is about to have
    its outcome, with its first record's offset, its failure, and its age in milliseconds.
    """

    def __init__(self, *, batch_size: int, buffer_memory: int, clock: Callable[[], float], shared: Shared) -> None:
        self.shared = shared
        self.topics: dict[str, TopicQueues] = {}
        self.used: i64 = 0
        self.waiting: i64 = 0
        self.newest_hurry: object = None
        self._flushing: dict[object, None] = {}
        self.refusal: FencepostError | None = None
        self.takes_aside = True
        self.on_outcome: Callable[[Batch, int, DeliveryError | None, float], object] | None = None
        self._memory: i64 = buffer_memory
        self._limit: i64 = buffer_memory
        self._turn: i64 = 0
        self._aside: list[tuple[TopicQueues, bytes | None, Batch]] = []
        self._aside_bytes: i64 = 0
        self.batch_size: i64 = batch_size
        self._clock = clock
        self._touched: list[PartitionQueue] = []
        self._incomplete: dict[Batch, None] = {}

    # -- callers' side -----------------------------------------------------------------------------------------------

    def append(
        self,
        topic: TopicQueues,
        partition: i64,
        timestamp: i64,
        key: bytes | None,
        value: bytes | None,
        headers: bytes | None,
        on_delivery: OnDelivery | None,
    ) -> RecordFuture | None:
        """Append one record. `partition` -1 lets the partitioner choose. None if the budget has no room."""
        need: i64 = RECORD_BOUND
        if key is not None:
            need += len(key)
        if value is not None:
            need += len(value)
        if headers is not None:
            need += len(headers)
        held = self.shared.held
        if (not COMPILED or held.holder != 0) and self.shared.inside():
            return self._put_aside(topic, partition, timestamp, key, value, headers, on_delivery, need)
        try:
            with self.shared.lock:
                if self._aside:
                    held.enter_with_lock()
                    self.bring_in()
                if self.refusal is not None:
                    held.enter_with_lock()
                    raise again(self.refusal)
                if self.used + need > self._limit and not self._has_turn(need):
                    held.holder = 0
                    return None
                if partition < 0 and key is None and topic.sticky.current < 0:
                    held.enter_with_lock()
                queues = topic.queues
                queue = queues[partition] if partition >= 0 else topic.queue_for(key, topic.partitions)
                batch = self.begin_record(queue, need)
                before: i64 = batch.size
                # If the encoder refuses the record, a new batch is in no queue yet.
                future = batch.append(timestamp, key, value, headers, on_delivery)
                if queue.open is not batch:
                    self.line_up(queue, batch)
                    before = 0
                grown: i64 = batch.size - before
                self.used += grown
                if on_delivery is not None:
                    # Not part of `need`: a record that fits the budget is never kept out by its callback.
                    batch.kept += CALLBACK_BYTES
                    self.used += CALLBACK_BYTES
                queue.queued_bytes += grown
                if partition < 0 and key is None and topic.rotation is None:
                    topic.sticky.spend(grown)
                due = not self.shared.woken and len(self._touched) > 0
                held.holder = 0
            if due:
                self.wake_if_due()
        except BaseException:
            held.leave_without_lock()
            self.wake_if_due()  # Ctrl-C may have struck after a new batch was queued.
            raise
        return future

    def _put_aside(
        self,
        topic: TopicQueues,
        partition: i64,
        timestamp: i64,
        key: bytes | None,
        value: bytes | None,
        headers: bytes | None,
        on_delivery: OnDelivery | None,
        need: i64,
    ) -> RecordFuture | None:
        """`append` in the middle of another call of this thread, which holds the lock (`Shared`). The record gets a batch of its own. The
        next thread that takes the lock queues that batch (`bring_in`), the sender thread at the latest. None if the budget has no room: the
        caller cannot wait here."""
        if self.refusal is not None:
            raise again(self.refusal)
        if not self.takes_aside:
            raise Misuse(INSIDE)
        if self.used + self._aside_bytes + need > self._limit:
            return None
        batch = Batch(topic.topic, partition, self._clock(), self.shared)
        future = batch.append(timestamp, key, value, headers, on_delivery)
        if on_delivery is not None:
            batch.kept += CALLBACK_BYTES
        self._aside_bytes += need
        self._aside += [(topic, key, batch)]
        try:
            self.shared.rouse()
        except BaseException:
            self.shared.rouse()  # Ctrl-C may have struck before it was woken.
            raise
        return future

    def bring_in(self) -> None:
        """Queue the batches that were put aside, in order. The caller is in the region."""
        while self._aside:
            topic, key, batch = self._aside[0]
            queue = topic.queues[batch.partition] if batch.partition >= 0 else topic.queue_for(key, topic.partitions)
            batch.partition = queue.partition
            self.line_up(queue, batch)
            # No calls from here on, as in `line_up`.
            self.used += batch.size + batch.kept
            queue.queued_bytes += batch.size
            self._aside_bytes = 0
            del self._aside[0]

    def begin_record(self, queue: PartitionQueue, need: i64) -> Batch:
        """The batch that takes a record of up to `need` bytes (`record_bound`): the partition's open batch, or a new one if the
        record would make that too large.

        A new batch is in no queue yet. The caller queues it with `line_up` once the record is in it, so that no thread sees an empty batch.
        """
        batch = queue.open
        if batch is None or batch.size + need - BATCH_OVERHEAD > self.batch_size:
            # To make a batch may run the program's code (`Shared`), and `append` has only the bare lock.
            self.shared.held.enter_with_lock()
            batch = self.new_batch(queue)
        return batch

    def new_batch(self, queue: PartitionQueue) -> Batch:
        """An empty batch of the partition, in no queue yet."""
        return Batch(queue.topic, queue.partition, self._clock(), self.shared)

    def room(self) -> i64:
        """The bytes that the budget has left for the calling thread. The caller holds the lock, also for `room_for`."""
        return (self._memory if self._turn == get_ident() else self._limit) - self.used

    def room_for(self, need: i64) -> bool:
        """Whether the budget has room for a record of so many bytes."""
        if self.refusal is not None:
            raise again(self.refusal)
        return self.used + need <= self._limit or self._has_turn(need)

    # -- turns of callers that wait for room -------------------------------------------------------------------------

    def begin_turn(self) -> None:
        """The calling thread is the first of those that wait for room, and tries to get it. Until then no other thread gets any."""
        self._turn = get_ident()
        self._limit = -1

    def keep_room(self, need: i64) -> None:
        """The calling thread finds no room for `need` bytes. If it has its turn, these are reserved, and others get the rest."""
        if self._turn == get_ident():
            self._limit = self._memory - need

    def end_turn(self) -> None:
        """The calling thread no longer waits."""
        if self._turn == get_ident():
            self._turn = 0
            self._limit = self._memory

    def _has_turn(self, need: i64) -> bool:
        """Whether the calling thread has its turn, and the budget has `need` bytes."""
        if self._turn != get_ident():
            return False
        if self.used + need <= self._memory:
            return True
        self.keep_room(need)
        return False

    # -- waking the sender thread ------------------------------------------------------------------------------------

    def wake_if_due(self) -> None:
        """Wake the sender thread if there are new batches and it is not woken already. The caller does not hold the lock."""
        shared = self.shared
        with shared.region:
            looks = -1 if shared.woken or not self._touched else shared.looks
        if looks >= 0:
            shared.rouse_after(looks)

    def line_up(self, queue: PartitionQueue, batch: Batch) -> None:
        """Queue a new batch, with its first record in it, behind the one that was open."""
        # No calls here: uncompiled, Ctrl-C can strike at each, and all of this has to happen or nothing.
        queue.batches += (batch,)
        queue.open = batch
        self._incomplete[batch] = None
        if not queue.touched:
            queue.touched = True
            self._touched += [queue]

    def begin_flush(self, flush: object) -> list[Batch]:
        """Stop lingering until `end_flush`, and wake the sender thread. Returns every batch that has no outcome yet.

        `flush` identifies the call, so that the caller can end it even if Ctrl-C struck before it had begun."""
        with self.shared.region:
            self.bring_in()
            self._flushing[flush] = None
            self.newest_hurry = flush
            waiting = list(self._incomplete)
        self.shared.rouse()
        return waiting

    def end_flush(self, flush: object) -> None:
        """The flush is over, or was interrupted."""
        with self.shared.region:
            self._flushing.pop(flush, None)

    # -- the sender's side -------------------------------------------------------------------------------------------

    def take_touched(self) -> list[PartitionQueue]:
        """The queues that got a new batch since the last call. From here on, the next new batch wakes the sender thread again."""
        with self.shared.region:
            self.bring_in()
            touched, self._touched = self._touched, []
            self.shared.woken = False
            self.shared.looks += 1
            for queue in touched:
                queue.touched = False
            return touched

    def take_urgent(self) -> list[Batch]:
        """The batches for which callers began to wait since the last call."""
        with self.shared.region:
            urgent, self.shared.urgent = self.shared.urgent, []
            return urgent

    def hurried(self) -> bool:
        """Whether no batch lingers: a caller flushes or waits for room, or the producer is closing."""
        return bool(self._flushing) or self.waiting > 0 or self.refusal is not None

    def head(self, queue: PartitionQueue) -> Batch | None:
        """The oldest batch of the queue, which stays in it."""
        with self.shared.region:
            return queue.batches[0] if queue.batches else None

    def is_full(self, queue: PartitionQueue) -> bool:
        """Whether the head takes no more records."""
        return len(queue.batches) > 1 or queue.open is None

    def close_head(self, queue: PartitionQueue) -> None:
        """The head takes no more records. It stays in the queue."""
        with self.shared.region:
            if len(queue.batches) == 1:
                queue.open = None

    def take(self, queue: PartitionQueue) -> Batch:
        """Remove the head. If it was open, the next append begins a new batch."""
        with self.shared.region:
            batch = queue.batches.popleft()
            if queue.open is batch:
                queue.open = None
            queue.queued_bytes -= batch.size
            batch.urgent = True
            return batch

    def replace(self, batch: Batch, pieces: list[Batch]) -> None:
        """Replace a batch that was split by its pieces, in the budget and among the batches without an outcome.

        Each piece has a header. The budget counts the additional headers without asking for room, and gets them back with the pieces."""
        with self.shared.region:
            del self._incomplete[batch]
            self.used -= batch.size
            for piece in pieces:
                self._incomplete[piece] = None
                self.used += piece.size
            pieces[0].kept = batch.kept
        batch.split_into(pieces)

    def unsettled(self) -> list[Batch]:
        """The batches without an outcome, queued and in flight."""
        with self.shared.region:
            incomplete = [*self._incomplete]
        return [batch for batch in incomplete if not batch.settled]

    def unacknowledged(self) -> int:
        """The number of records without an outcome."""
        return sum([int(batch.count) for batch in self.unsettled()])

    def release(self, batch: Batch) -> None:
        """Give the bytes of a batch with an outcome back to the budget."""
        with self.shared.region:
            del self._incomplete[batch]
            self.used -= batch.size + batch.kept
