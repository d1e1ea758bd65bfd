"""One batch in flight: its sealed bytes, their identity, and what is known about them.

It holds facts; `in_flight_window` decides what follows from them.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final

from fencepost.producer.accumulator.batch import Batch
from fencepost.producer.core.idempotence.sequence import advance
from fencepost.producer.errors import DeliveryError, Persisted
from fencepost.producer.wire.codecs.codec import Codec
from fencepost.producer.wire.records.batch_header import TRANSACTIONAL, pack_header
from fencepost.producer.wire.records.sizes import BATCH_OVERHEAD

NO_IDENTITY: Final = (-1, -1)
NO_SEQUENCE: Final = -1


class State(enum.Enum):
    """The state of a batch's sequences. The last two are resolved."""

    WAITING = "waiting to be sent (again)"
    FLYING = "sent, not answered"
    LOGGED = "the leader says that it has it, and does not know it when it is sent again"
    ACKED = "acknowledged"
    FAILED = "failed"


class InFlightBatch:
    """A stamped batch. `records`: its header and payload, as buffers that are never joined; `size`: their bytes.

    `doubt`: some attempt may have reached the log without an acknowledgement. `appended`: a leader said that every in-sync replica has it.
    `unrecognised`: the newest attempt got OUT_OF_ORDER_SEQUENCE_NUMBER. `insisted`: the leader has it as its newest batch, so it was sent
    once more. `oversized`: the leader only accepts it split. `sent_before_recreation`: sent before the producer learned that the topic was
    created again. `last_failure`: why the newest attempt that ended was no acknowledgement. `unplaced`: acknowledged through a later batch,
    so its offset is not known. `failure`: the decided outcome of the futures, even if the sequences are unresolved. `published`: the
    futures have their outcome; a batch that is published and unresolved is an orphan.
    """

    def __init__(
        self,
        batch: Batch,
        payload: Sequence[bytes | memoryview],
        *,
        codec: Codec,
        base_timestamp: int,
        max_timestamp: int,
        deadline_ms: float,
        transactional: bool = False,
    ) -> None:
        self.batch: Final = batch
        self.count: Final = int(batch.count)
        self.transactional: Final = transactional
        self.deadline_ms = deadline_ms
        self.records: tuple[bytes | memoryview, ...] = ()
        self.size: Final = BATCH_OVERHEAD + sum(map(len, payload))
        self.state = State.WAITING
        self.identity = NO_IDENTITY
        self.base_sequence = -1
        self.attempts = 0
        self.not_before_ms = 0.0
        self.doubt = False
        self.appended = False
        self.published = False
        self.asking = False
        self.in_grace = False
        self.unrecognised = False
        self.insisted = False
        self.oversized = False
        self.sent_before_recreation = False
        self.unplaced = False
        self.last_code = 0
        self.last_failure = ""
        self.base_offset = -1
        self.log_append_time = -1
        self.failure: DeliveryError | None = None
        self._payload: Final = payload
        self._codec: Final = codec
        self._base_timestamp: Final = base_timestamp
        self.max_timestamp: Final = max_timestamp

    def stamp(self, identity: tuple[int, int], base_sequence: int) -> None:
        """Put the header with this identity before the records. Only for a batch that is certainly not in the log under another
        identity."""
        assert not self.doubt, "a batch that may be in the log keeps its identity"
        self.identity = identity
        self.base_sequence = base_sequence
        header = pack_header(
            self._payload,
            attributes=self._codec | (TRANSACTIONAL if self.transactional else 0),
            last_offset_delta=self.count - 1,
            base_timestamp=self._base_timestamp,
            max_timestamp=self.max_timestamp,
            producer_id=identity[0],
            producer_epoch=identity[1],
            base_sequence=base_sequence,
            records_count=self.count,
        )
        self.records = (header, *self._payload)

    @property
    def data(self) -> bytes:
        """The whole batch in one piece, copied."""
        return b"".join(self.records)

    @property
    def next_sequence(self) -> int:
        """The sequence of the record after this batch's last one."""
        return advance(self.base_sequence, self.count)

    @property
    def unresolved(self) -> bool:
        """Whether the batch's sequences have no outcome yet."""
        return self.state in (State.WAITING, State.FLYING, State.LOGGED)

    @property
    def placed(self) -> bool:
        """Whether it is acknowledged, and its offset is known or not needed."""
        return self.state is State.ACKED and not self.unplaced

    @property
    def decided(self) -> bool:
        """Whether the futures' outcome is a failure, published or not."""
        return self.failure is not None

    @property
    def persisted(self) -> Persisted:
        """What `persisted` would be if the batch failed now."""
        if self.appended or self.state is State.ACKED:
            return Persisted.YES
        return Persisted.MAYBE if self.doubt or self.state in (State.FLYING, State.LOGGED) else Persisted.NO

    def newest_attempt(self) -> str:
        """What happened to the newest attempt, for an error message; empty if nothing did."""
        known = f"; last: {self.last_failure}" if self.last_failure else ""
        return f"; no answer to the newest request yet{known}" if self.state is State.FLYING else known

    def place(self, base_offset: int, log_append_time: int = -1) -> None:
        """Set the offset of an unplaced batch: its first record was found there."""
        if self.unplaced:
            self.unplaced = False
            self.base_offset = base_offset
            self.log_append_time = log_append_time

    def fail(self, kind: type[DeliveryError], reason: str, *, code: int = 0, persisted: Persisted | None = None) -> None:
        """Decide the futures' failure; `in_flight_window` publishes it after those of earlier batches."""
        self.failure = kind(
            reason,
            topic=self.batch.topic,
            partition=int(self.batch.partition),
            persisted=persisted if persisted is not None else self.persisted,
            code=code or self.last_code,
            attempts=self.attempts,
        )
