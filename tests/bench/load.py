"""The structs that travel between the bench and its worker processes: what a measurement does, and what it found. It measures nothing."""

from __future__ import annotations

import enum

import msgspec

KEYS_DISTINCT = 100_000


class Contender(enum.Enum):
    """The producers that send. Each one observes the delivery of every record."""

    FUTURES = "fencepost, futures"
    CALLBACKS = "fencepost, callbacks"
    MANY = "fencepost, send_many"
    ARROW = "fencepost, send_arrow"
    CONFLUENT = "confluent-kafka, callbacks"
    CONFLUENT_BATCH = "confluent-kafka, produce_batch"
    AIOKAFKA = "aiokafka"
    KAFKA_PYTHON = "kafka-python"
    JAVA = "Java, ProducerPerformance"
    CEILING = "ceiling (replay)"


class Scenario(enum.Enum):
    """What the calling side does."""

    ONE = "one calling thread"
    FOUR = "four calling threads"
    BESIDE_BURNER = "one calling thread, and one that burns CPU"
    LONE = "a lone record, linger 0"
    MEMORY = "memory over a long run"

    @property
    def threads(self) -> int:
        return 4 if self is Scenario.FOUR else 1


SLOW = {Contender.AIOKAFKA: 10, Contender.KAFKA_PYTHON: 10}
"""These contenders get a tenth of the records, because they would take minutes. The table says so."""

WAITS = {Contender.CONFLUENT: 500, Contender.CONFLUENT_BATCH: 500}
"""These contenders take the GIL for every acknowledged record. Beside a thread that computes, each time takes 5 ms."""

LONE = (Contender.FUTURES, Contender.CONFLUENT, Contender.AIOKAFKA, Contender.KAFKA_PYTHON)
MEMORY = (Contender.CALLBACKS, Contender.MANY, Contender.ARROW, Contender.CONFLUENT)
SINGLE = (Contender.AIOKAFKA, Contender.KAFKA_PYTHON, Contender.JAVA)
"""The contenders that are measured with lone records, those whose memory is measured, and those with one calling thread only."""

REPLAYED = (Contender.CEILING, Contender.JAVA)
"""The worker does not call these contenders, so they have no bursts and no cost per call."""


def takes_part(contender: Contender, scenario: Scenario) -> bool:
    """Whether the scenario makes sense for the contender."""
    match scenario:
        case Scenario.ONE:
            return True
        case Scenario.LONE:
            return contender in LONE
        case Scenario.MEMORY:
            return contender in MEMORY
        case _:
            return contender not in SINGLE


def fewer(contender: Contender, scenario: Scenario) -> int:
    """The divisor of the contender's number of records."""
    if scenario is Scenario.LONE:
        return 1
    return WAITS.get(contender, 1) if scenario is Scenario.BESIDE_BURNER and contender in WAITS else SLOW.get(contender, 1)


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement. It sends `bursts` times `burst` records into an empty buffer, and then `records` in a long run."""

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
    codec: str = "none"
    java: list[str] = []
    """The command that starts a JVM with Kafka's classes, up to the name of one."""

    @property
    def keys(self) -> list[bytes]:
        """The keys that are sent; they repeat."""
        return [b"%0*d" % (self.key_bytes, number) for number in range(min(self.records, KEYS_DISTINCT))]

    @property
    def value(self) -> bytes:
        return b"v" * self.value_bytes


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The results of one measurement. The ceiling and Java have no visible calls, so they have no cost per call.

    `burst_us`: per call while the buffer has room, all threads together. `send_us`: per call in the long run, with the waits for room.
    `burner_share`: the burning thread's share of one core. `p50_us`, `p99_us`: from the call for a lone record to its acknowledgement.
    `grown_bytes`: how much the peak of resident memory in the long run exceeds the memory before it. `grown_share`: the same, as a share of
    `buffer_memory`.
    """

    acked: int
    acked_per_s: float
    cpu_ns: float
    burst_us: float | None = None
    send_us: float | None = None
    burner_share: float | None = None
    p50_us: float | None = None
    p99_us: float | None = None
    grown_bytes: int | None = None
    grown_share: float | None = None


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """Figures, and the table and row to which they belong."""

    broker: str
    round: int
    scenario: Scenario
    contender: Contender
    partitions: int
    codec: str
    figures: Figures
