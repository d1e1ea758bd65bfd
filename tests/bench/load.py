"""What one measurement is asked to do and what it found: the structs that travel between the bench and its worker processes.

It measures nothing.
"""

from __future__ import annotations

import enum

import msgspec

KEYS_DISTINCT = 100_000


class Contender(enum.Enum):
    """Who sends. Each of them observes the delivery of every record."""

    FUTURES = "fencepost, futures"
    CALLBACKS = "fencepost, callbacks"
    MANY = "fencepost, send_many"
    ARROW = "fencepost, send_arrow"
    CONFLUENT = "confluent-kafka, callbacks"
    CONFLUENT_BATCH = "confluent-kafka, produce_batch"
    CEILING = "ceiling (replay)"


class Scenario(enum.Enum):
    """What the caller's side looks like."""

    ONE = "one calling thread"
    FOUR = "four calling threads"
    BESIDE_BURNER = "one calling thread, and one that burns CPU"

    @property
    def threads(self) -> int:
        return 4 if self is Scenario.FOUR else 1


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement. `records` are sent in the long run, `bursts` times `burst` records before it into an empty buffer."""

    contender: Contender
    scenario: Scenario
    bootstrap: str
    topic: str
    records: int
    burst: int
    bursts: int
    partitions: int
    key_bytes: int
    value_bytes: int
    linger_ms: float
    batch_bytes: int
    buffer_bytes: int

    @property
    def keys(self) -> list[bytes]:
        """The keys that are sent, over and over."""
        return [b"%0*d" % (self.key_bytes, number) for number in range(min(self.records, KEYS_DISTINCT))]

    @property
    def value(self) -> bytes:
        return b"v" * self.value_bytes


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What one measurement found. The ceiling makes no calls, so it has no costs of one.

    `burst_us`: per call while the buffer has room, all threads together. `send_us`: per call over the long run, waiting for room
    included. `burner_share`: of one core, what the burning thread got.
    """

    acked: int
    acked_per_s: float
    cpu_ns: float
    burst_us: float | None = None
    send_us: float | None = None
    burner_share: float | None = None


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """Figures and where they belong."""

    broker: str
    round: int
    scenario: Scenario
    contender: Contender
    figures: Figures
