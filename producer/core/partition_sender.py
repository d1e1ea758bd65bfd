"""The sender of one partition: it takes batches from the partition's queue into the in-flight window, and settles them.

A partition sender seals, stamps and expires batches. `produce_requests` chooses the node and the moment. Another thread packs a batch of
`pack_aside_bytes` or more. Meanwhile that batch stays at the head of the queue, so no batch passes it.
"""

from __future__ import annotations

from collections.abc import Callable

from fencepost.producer.accumulator.accumulator import Accumulator, PartitionQueue
from fencepost.producer.accumulator.batch import Batch
from fencepost.producer.config.settings import Settings
from fencepost.producer.core.cluster.view import NO_TOPIC_ID, Leadership
from fencepost.producer.core.events import NEVER, Command, Pack, Settle
from fencepost.producer.core.idempotence.in_flight_batch import InFlightBatch, State
from fencepost.producer.core.idempotence.in_flight_window import InFlightWindow
from fencepost.producer.core.idempotence.transaction_hooks import TransactionHooks
from fencepost.producer.errors import DeliveryError, DeliveryFatal, DeliveryTimeout, Persisted, plain
from fencepost.producer.wire.records import Codec, read_records
from fencepost.producer.wire.records.batch_builder import pack_headers

INTRODUCTION_MS = 600_000.0
"""After so long a rest a partition counts as one that does not know the producer id. Brokers keep an id for a day by default."""


class PartitionSender:
    """See the module. `query_not_before_ms`: no question about the log before then. `asking`: one is on its way; it was asked under the
    leadership `asked_under`. `turn_ms` belongs to `ready_partitions`, `waits_in` to `produce_requests`."""

    def __init__(self, queue: PartitionQueue, settings: Settings, accumulator: Accumulator, *, pack_aside_bytes: int | None = None) -> None:
        self.queue = queue
        self.topic = queue.topic
        self.partition = int(queue.partition)
        self.window = InFlightWindow(
            limit=settings.max_in_flight,
            idempotent=settings.enable_idempotence,
            retries=settings.retries,
            timeout_ms=settings.delivery_timeout_ms,
            grace_ms=settings.resolve_grace_ms,
        )
        self.asking = False
        self.asked_at_launch = 0
        self.asked_under: Leadership = (-1, -1, NO_TOPIC_ID)
        self.query_attempts = 0
        self.query_not_before_ms = 0.0
        self.turn_ms = NEVER
        self.waits_in: dict[PartitionSender, None] | None = None
        self._resting_since_ms = NEVER
        self._settings = settings
        self._accumulator = accumulator
        self._aside_bytes = pack_aside_bytes
        self._to_pack: Batch | None = None
        self._packing: Batch | None = None
        self._payload: bytes | None = None

    @property
    def idle(self) -> bool:
        """Whether there is nothing to send, resolve or publish."""
        return not self.queue.batches and not self.window.in_flight_batches

    def oldest_ms(self) -> float:
        """When the oldest batch without an outcome was made, in ms; infinity without one."""
        for in_flight in self.window.in_flight_batches:
            if not in_flight.published:
                return in_flight.batch.created_ms
        head = self._accumulator.head(self.queue)
        return head.created_ms if head is not None else NEVER

    def wait_in(self, line: dict[PartitionSender, None] | None) -> None:
        """Leave the line that the sender waits in, and go to the end of `line`. A sender that waits in `line` already keeps its place."""
        if self.waits_in is line:
            return
        if self.waits_in is not None:
            self.waits_in.pop(self, None)
        self.waits_in = line
        if line is not None:
            line[self] = None

    def rest(self, now_ms: float) -> None:
        """There is nothing left to do."""
        self._resting_since_ms = now_ms

    def resume(self, now_ms: float) -> None:
        """There is something to do again. After a long rest, brokers may have dropped the producer id (producer.id.expiration.ms)."""
        if now_ms - self._resting_since_ms >= INTRODUCTION_MS:
            self.window.introduced = False
        self._resting_since_ms = NEVER

    def next_batch(self, now_ms: float, hooks: TransactionHooks) -> InFlightBatch | None:
        """The batch to send now: one to send again, or a fresh one that has lingered enough. None if that one has to be packed first."""
        in_flight = self.window.sendable(now_ms)
        if in_flight is None and self._has_fresh(now_ms) and hooks.admit(self.topic, self.partition) and not self._waits_for_packing():
            in_flight = self._seal(self._accumulator.take(self.queue), transactional=hooks.transactional_id is not None)
            hooks.wrote(self.topic, self.partition)
            self.window.enter(in_flight)
        return in_flight

    def next_size(self, now_ms: float) -> int:
        """The bytes that `next_batch` would add to a request, before compression; 0 if there is nothing to send."""
        in_flight = self.window.sendable(now_ms)
        if in_flight is not None:
            return in_flight.size
        head = self._accumulator.head(self.queue)
        return int(head.size) if head is not None and self._has_fresh(now_ms) else 0

    def pack(self) -> list[Command]:
        """Have the batch packed that `next_batch` held back for it."""
        wanted, self._to_pack = self._to_pack, None
        return [Pack(wanted, self._settings.compression_type, self._settings.compression_level)] if wanted is not None else []

    def packed(self, batch: Batch, payload: bytes) -> None:
        """The batch was packed. It may have failed meanwhile."""
        if batch is self._packing:
            self._payload = payload

    def _has_fresh(self, now_ms: float) -> bool:
        """Whether the head of the queue may leave now, or may once it is packed and no thread packs it yet. After its deadline it may not
        leave, even if it cannot fail yet because older batches have no outcome."""
        head = self._accumulator.head(self.queue)
        if head is None or not self.window.has_room() or self.ready_at_ms(now_ms) > now_ms or self._deadline(head) <= now_ms:
            return False
        return self._packing is None or self._payload is not None or head is not self._packing

    def _waits_for_packing(self) -> bool:
        """Whether another thread has to pack the head of the queue. If so, the head takes no more records."""
        head = self._accumulator.head(self.queue)
        if head is None or self._aside_bytes is None or head.size < self._aside_bytes or head is self._packing:
            return False
        self._accumulator.close_head(self.queue)
        self._to_pack = self._packing = head
        self._payload = None
        return True

    def ready_at_ms(self, now_ms: float) -> float:
        """When the head of the queue may leave; infinity if the queue is empty."""
        head = self._accumulator.head(self.queue)
        if head is None:
            return NEVER
        if head.urgent or self._accumulator.is_full(self.queue) or self._accumulator.hurried() or head.size >= self._settings.batch_size:
            return now_ms
        return head.created_ms + self._settings.linger_ms

    def expire(self, now_ms: float, why_blocked: Callable[[PartitionSender, float], str]) -> list[Command]:
        """Fail queued batches that are past their delivery deadline, once all batches before them have an outcome."""
        commands: list[Command] = []
        head = self._accumulator.head(self.queue) if self._all_published() else None
        while head is not None and self._deadline(head) <= now_ms:
            failure = self._unsent(head, why_blocked)
            commands.append(Settle(self._accumulator.take(self.queue), failure=failure))
            head = self._accumulator.head(self.queue)
        return commands

    def publish(self) -> list[Command]:
        """Settle the batches whose outcome is due, in order."""
        return [
            Settle(in_flight.batch, failure=in_flight.failure)
            if in_flight.decided
            else Settle(in_flight.batch, in_flight.base_offset, in_flight.log_append_time)
            for in_flight in self.window.take_finished()
        ]

    def split(self, in_flight: InFlightBatch) -> None:
        """Replace a batch that the broker found too large by two. They keep its sequences, deadline and futures."""
        records = read_records(in_flight.data)
        middle = len(records) // 2
        pieces = []
        for part in (records[:middle], records[middle:]):
            batch = Batch(self.topic, self.partition, in_flight.batch.created_ms, in_flight.batch.shared)
            for record in part:
                batch.refill(record.timestamp, record.key, record.value, pack_headers(record.headers) if record.headers else None)
            pieces.append(batch)
        self._accumulator.replace(in_flight.batch, pieces)
        in_flight_batches = [self._seal(batch, transactional=in_flight.transactional) for batch in pieces]
        for piece in in_flight_batches:
            piece.attempts = in_flight.attempts
        self.window.replace(in_flight, in_flight_batches)

    def deadline(self, now_ms: float) -> float:
        """The next delivery deadline, in ms."""
        times = self.window.deadlines()
        head = self._accumulator.head(self.queue)
        if head is not None:
            times.append(self._deadline(head))
        return soonest(times, now_ms)

    def turn(self, now_ms: float) -> float:
        """When the sender may next send or ask something that it may not now, in ms."""
        times = [self.window.backoff_until()]
        head = self._accumulator.head(self.queue) if self.window.has_room() else None
        if head is not None:
            # Also where the head may leave sooner: a caller may have changed that since this round looked (`ready_at_ms`).
            times.append(head.created_ms + self._settings.linger_ms)
        if not self.asking and (self.window.wants_answer() or self.window.wants_offsets()):
            times.append(self.query_not_before_ms)
        return soonest(times, now_ms)

    def drop(self, kind: type[DeliveryError], reason: str) -> list[Command]:
        """Fail all batches that are not on their way. The others keep their places until they are answered."""
        self.window.drop(kind, reason)
        return self._publish_and_fail_queue(kind, reason)

    def fail_all(self, reason: str) -> list[Command]:
        """The producer ends: fail all batches. Each failure says whether its batch may be in the log."""
        self.window.fail_all(DeliveryFatal, reason, 0)
        return self._publish_and_fail_queue(DeliveryFatal, reason)

    def _publish_and_fail_queue(self, kind: type[DeliveryError], reason: str) -> list[Command]:
        """Publish the outcomes that are due. If no batch is left on its way, fail the queued ones."""
        commands = self.publish()
        while self.queue.batches and self._all_published():
            failure = kind(reason, topic=self.topic, partition=self.partition, persisted=Persisted.NO)
            commands.append(Settle(self._accumulator.take(self.queue), failure=failure))
        return commands

    def _all_published(self) -> bool:
        return all(in_flight.published for in_flight in self.window.in_flight_batches)

    def _seal(self, batch: Batch, *, transactional: bool) -> InFlightBatch:
        builder = batch.builder
        assert builder is not None
        codec = self._settings.compression_type
        packed = self._payload if batch is self._packing else None
        self._packing = self._payload = None
        if packed is None and codec is not Codec.NONE:
            packed = builder.payload(codec, self._settings.compression_level)
        payload = builder.pieces() if packed is None else [packed]
        return InFlightBatch(
            batch,
            payload,
            codec=codec,
            base_timestamp=int(builder.base_timestamp),
            max_timestamp=int(builder.max_timestamp),
            deadline_ms=self._deadline(batch),
            transactional=transactional,
        )

    def _deadline(self, batch: Batch) -> float:
        return batch.created_ms + self._settings.delivery_timeout_ms

    def _unsent(self, batch: Batch, why_blocked: Callable[[PartitionSender, float], str]) -> DeliveryTimeout:
        blocked = why_blocked(self, batch.created_ms) if not self._in_flight() else "older batches of the partition are not resolved"
        return DeliveryTimeout(
            f"not sent within delivery_timeout_ms={plain(self._settings.delivery_timeout_ms)}: {blocked}",
            topic=self.topic,
            partition=self.partition,
            persisted=Persisted.NO,
        )

    def _in_flight(self) -> bool:
        return any(in_flight.state is State.FLYING for in_flight in self.window.in_flight_batches)


def soonest(times: list[float], now_ms: float) -> float:
    """The earliest of the times that are later than now; infinity if none is."""
    found = NEVER
    for time in times:
        if now_ms < time < found:
            found = time
    return found
