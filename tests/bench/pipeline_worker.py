"""One measurement of read-process-write in its own process: reads `Work` from standard input, writes `Found` to standard output.

The clock starts with the first message, after the group's assignment, and stops when the last message is committed.
"""

from __future__ import annotations

import enum
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

if __name__ == "__main__":
    # At the end of the path, so that what is measured is the installed package and not the checkout.
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from confluent_kafka import Consumer, KafkaException, Message, Producer

from fencepost import Pipeline

LIMIT_S = 120.0


class Contender(enum.Enum):
    """What reads, processes and writes."""

    ONE = "fencepost.Pipeline, transform"
    MANY = "fencepost.Pipeline, transform_many"
    CONFLUENT = "confluent-kafka, a loop"


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement: `rows` messages, with a commit after `batch_size` of them or `batch_ms`."""

    contender: Contender
    bootstrap: str
    source: str
    sink: str
    rows: int
    batch_size: int
    batch_ms: int


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Messages per second and CPU per message, from the first message to the last commit."""

    transactions: int
    records_per_s: float
    cpu_ns: float


class Watch:
    """The clocks, from the first message on."""

    def __init__(self) -> None:
        self.began = 0.0
        self._cpu_ns = 0

    def start(self) -> None:
        if not self.began:
            self.began, self._cpu_ns = time.perf_counter(), time.process_time_ns()

    def found(self, rows: int, transactions: int) -> Found:
        spent_s, cpu_ns = time.perf_counter() - self.began, time.process_time_ns() - self._cpu_ns
        return Found(transactions=transactions, records_per_s=rows / spent_s, cpu_ns=cpu_ns / rows)


def result(message: Message) -> bytes:
    """The work on one message, the same for all."""
    return (message.value() or b"")[:60]


def run_pipeline(work: Work, *, many: bool) -> Found:
    watch = Watch()

    def one(message: Message) -> bytes:
        if not watch.began:
            watch.start()
        return (message.value() or b"")[:60]

    def list_of(messages: list[Message]) -> list[tuple[bytes | None, bytes]]:
        watch.start()
        return [(message.key(), result(message)) for message in messages]

    how: dict[str, Callable[..., object]] = {"transform_many": list_of} if many else {"transform": one}
    with Pipeline(
        bootstrap_servers=work.bootstrap,
        source=work.source,
        sink=work.sink,
        group="bench",
        batch_size=work.batch_size,
        batch_ms=work.batch_ms,
        **how,  # type: ignore[arg-type]  # one of the two
    ) as pipeline:
        while (stats := pipeline.run_until_idle(timeout=LIMIT_S)).records_in < work.rows:
            pass
        return watch.found(work.rows, stats.batches)


def run_loop(work: Work) -> Found:
    """What a user of confluent-kafka writes, as short as it can be: without a way back after an abort."""
    watch = Watch()
    consumer = Consumer(
        {
            "bootstrap.servers": work.bootstrap,
            "group.id": "bench",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    producer = Producer(
        {
            "bootstrap.servers": work.bootstrap,
            "transactional.id": "bench",
            "queue.buffering.max.messages": 10_000_000,
            "batch.num.messages": 1_000_000,
            "batch.size": 256 * 1024,
            "linger.ms": 5,
        }
    )
    producer.init_transactions(LIMIT_S)
    consumer.subscribe([work.source])
    rows = transactions = 0
    try:
        while rows < work.rows:
            messages = consumer.consume(work.batch_size, timeout=work.batch_ms / 1000.0)
            if not messages:
                continue
            watch.start()
            producer.begin_transaction()
            for message in messages:
                if message.error() is not None:
                    raise KafkaException(message.error())
                producer.produce(work.sink, result(message), message.key())
            producer.send_offsets_to_transaction(consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), LIMIT_S)
            producer.commit_transaction(LIMIT_S)
            rows += len(messages)
            transactions += 1
        return watch.found(rows, transactions)
    finally:
        consumer.close()


def main() -> None:
    work = msgspec.json.decode(sys.stdin.buffer.read(), type=Work)
    found = run_loop(work) if work.contender is Contender.CONFLUENT else run_pipeline(work, many=work.contender is Contender.MANY)
    sys.stdout.buffer.write(msgspec.json.encode(found))


if __name__ == "__main__":
    main()
