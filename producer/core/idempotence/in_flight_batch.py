"""One batch on its way: sealed bytes, the identity they carry, and what is known about them so far.

It holds facts; `in_flight_window` draws the conclusions.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final

from fencepost.producer.accumulator.batch import Batch
from fencepost.producer.core.idempotence.sequence import advance
from fencepost.producer.errors import DeliveryError, Persisted
from fencepost.producer.wire.records.batch_header import TRANSACTIONAL, pack_header
from fencepost.producer.wire.records.compression import Codec
from fencepost.producer.wire.records.sizes import BATCH_OVERHEAD

NO_IDENTITY: Final = (-1, -1)
NO_SEQUENCE: Final = -1


class State(enum.Enum):
    """Where a batch's sequences stand. The last two are resolved."""

    WAITING = "waiting to be sent (again)"
    FLYING = "sent, not answered"
    LOGGED = "the leader says that it has it, and does not know it when it is sent again"
    ACKED = "acknowledged"
    FAILED = "failed"


class InFlightBatch:
    """A stamped batch. `records`: its header, and what stands behind it, in pieces that are nowhere put together; `size`: their bytes.

    `doubt`: some attempt may have reached the log unseen. `appended`: a leader said that it did, and that every in-sync replica has it.
    `unrecognised`: the newest attempt was answered that it does not fit the sequence. `insisted`: the leader has it as its
    newest, so it was sent once more all the same. `oversized`: the leader would take
    it only in parts. `astray`: sent before it was known that the topic was
    made anew. `unplaced`: acknowledged through a later batch, so that the
    offset is not known. `failure`: decided for the futures,
    whatever the sequences do. `published`: the futures have been told; a batch that is published and unresolved is an orphan.
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
        self.astray = False
        self.unplaced = False
        self.last_code = 0
        self.base_offset = -1
        self.log_append_time = -1
        self.failure: DeliveryError | None = None
        self._payload: Final = payload
        self._codec: Final = codec
        self._base_timestamp: Final = base_timestamp
        self.max_timestamp: Final = max_timestamp

    def stamp(self, identity: tuple[int, int], base_sequence: int) -> None:
        """Put the header with this identity before the records. Only ever called for a batch known not to be in the log under another
        one."""
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
        """Whether it is not known yet what became of the batch's sequences."""
        return self.state in (State.WAITING, State.FLYING, State.LOGGED)

    @property
    def placed(self) -> bool:
        """Whether it is acknowledged, and where it is as far as it can be known."""
        return self.state is State.ACKED and not self.unplaced

    @property
    def decided(self) -> bool:
        """Whether the futures' outcome is a failure already, published or about to be."""
        return self.failure is not None

    @property
    def persisted(self) -> Persisted:
        """What could be said about the log if the batch failed now."""
        if self.appended or self.state is State.ACKED:
            return Persisted.YES
        return Persisted.MAYBE if self.doubt or self.state in (State.FLYING, State.LOGGED) else Persisted.NO

    def place(self, base_offset: int, log_append_time: int = -1) -> None:
        """Its first record was found at that offset."""
        if self.unplaced:
            self.unplaced = False
            self.base_offset = base_offset
            self.log_append_time = log_append_time

    def fail(self, kind: type[DeliveryError], reason: str, *, code: int = 0, persisted: Persisted | None = None) -> None:
        """Decide the futures' failure; `in_flight_window` publishes it in its turn."""
        self.failure = kind(
            reason,
            topic=self.batch.topic,
            partition=int(self.batch.partition),
            persisted=persisted if persisted is not None else self.persisted,
            code=code or self.last_code,
            attempts=self.attempts,
        )
