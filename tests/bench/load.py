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
    AIOKAFKA = "aiokafka"
    KAFKA_PYTHON = "kafka-python"
    JAVA = "Java, ProducerPerformance"
    CEILING = "ceiling (replay)"


class Scenario(enum.Enum):
    """What the caller's side looks like."""

    ONE = "one calling thread"
    FOUR = "four calling threads"
    BESIDE_BURNER = "one calling thread, and one that burns CPU"
    LONE = "a lone record, linger 0"
    MEMORY = "memory over a long run"

    @property
    def threads(self) -> int:
        return 4 if self is Scenario.FOUR else 1


SLOW = {Contender.AIOKAFKA: 10, Contender.KAFKA_PYTHON: 10}
"""Who gets a tenth of the records, so that nobody waits for minutes; the table says so."""

WAITS = {Contender.CONFLUENT: 500, Contender.CONFLUENT_BATCH: 500}
"""Who asks for the interpreter again for every record that is acknowledged: beside a thread that computes, that is 5 ms each time."""

LONE = (Contender.FUTURES, Contender.CONFLUENT, Contender.AIOKAFKA, Contender.KAFKA_PYTHON)
MEMORY = (Contender.CALLBACKS, Contender.MANY, Contender.ARROW, Contender.CONFLUENT)
SINGLE = (Contender.AIOKAFKA, Contender.KAFKA_PYTHON, Contender.JAVA)
"""Who can be measured with lone records, whose memory is looked at, and who is measured with one caller only."""

REPLAYED = (Contender.CEILING, Contender.JAVA)
"""Who is not called by the worker: no bursts, and no cost of a call."""


def takes_part(contender: Contender, scenario: Scenario) -> bool:
    """Whether the scenario means anything for the contender."""
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
    """By which number its records are divided."""
    if scenario is Scenario.LONE:
        return 1
    return WAITS.get(contender, 1) if scenario is Scenario.BESIDE_BURNER and contender in WAITS else SLOW.get(contender, 1)


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
    codec: str = "none"
    java: list[str] = []
    """The command that starts a JVM with Kafka's classes, up to the name of one."""

    @property
    def keys(self) -> list[bytes]:
        """The keys that are sent, over and over."""
        return [b"%0*d" % (self.key_bytes, number) for number in range(min(self.records, KEYS_DISTINCT))]

    @property
    def value(self) -> bytes:
        return b"v" * self.value_bytes


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What one measurement found. The ceiling and Java make no calls that could be seen, so they have no costs of one.

    `burst_us`: per call while the buffer has room, all threads together. `send_us`: per call over the long run, waiting for room
    included. `burner_share`: of one core, what the burning thread got. `p50_us`, `p99_us`: from the call for a lone record to its
    acknowledgement. `grown_bytes`: by how much the resident memory of the long run's peak exceeds what it was before,
    `grown_share`: of what the buffer may hold.
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
    """Figures and where they belong."""

    broker: str
    round: int
    scenario: Scenario
    contender: Contender
    partitions: int
    codec: str
    figures: Figures
