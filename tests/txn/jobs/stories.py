"""Stories about jobs that are told on the stub and on Apache Kafka."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.producer import Fenced
from fencepost.txn import IteratorSource, Job, TransactionalProducer
from tests.reading import read_values
from tests.txn.jobs.helpers import LIMIT_S, numbers, settings_for

N = 300
SLOW_S = 3.0
"""Longer than the timeout. Kafka's coordinator looks every ten seconds, if it is not told otherwise."""


def counting(count: int) -> IteratorSource:
    """`count` records; the position is the number of the next one."""
    return IteratorSource(lambda position: ((b"record %d" % number, number + 1) for number in range(position or 0, count)))


def job_at(bootstrap: str, topic: str, **changed: Any) -> Job:
    """A job of the topic's name that writes these records to it."""
    return Job(topic, counting(N), **settings_for(bootstrap, topic=topic, **changed))


def is_overtaken(bootstrap: str, topic: str) -> None:
    """A second run ends the first one in the middle of a batch, and continues at the last commit."""

    def overtaken(item: bytes) -> bytes:
        if item == b"record 120":
            assert job_at(bootstrap, topic, batch_size=30).run(max_batches=2).records_in == 60
        return item

    with pytest.raises(Fenced, match=f"another run of job '{topic}' has begun"):
        job_at(bootstrap, topic, transform=overtaken, batch_size=50, batch_ms=20_000).run(timeout=LIMIT_S)
    assert read_values(bootstrap, topic) == numbers(160)
    job_at(bootstrap, topic).run(timeout=LIMIT_S)
    assert read_values(bootstrap, topic) == numbers(N)


def leaves_a_transaction_open(bootstrap: str, topic: str) -> None:
    """The next run ends it at once, and does not wait for its timeout."""
    job_at(bootstrap, topic, batch_size=100).run(max_batches=1)
    killed = TransactionalProducer(
        bootstrap_servers=bootstrap, transactional_id=f"fencepost-job.{topic}", transaction_timeout_ms=600_000, linger_ms=0
    )
    killed.begin(LIMIT_S).send(topic, b"from the killed run").result(LIMIT_S)
    began = time.monotonic()
    assert job_at(bootstrap, topic).run(timeout=LIMIT_S).records_in == N - 100
    assert time.monotonic() - began < 20
    assert read_values(bootstrap, topic) == numbers(N)
    killed.close(0)


def takes_too_long(bootstrap: str, topic: str, slow_s: float = SLOW_S) -> None:
    """The source waits while a transaction with records is open, and the coordinator aborts it. The job takes a new identity, and reads the
    batch again."""
    slept: list[None] = []

    def slow(position: Any) -> Iterator[tuple[bytes, int]]:
        for number in range(position or 0, 1_500):
            if number == 700 and not slept:
                slept.append(None)
                time.sleep(slow_s)
            yield b"record %d" % number, number + 1

    settings = settings_for(bootstrap, topic=topic, batch_size=1_000, batch_ms=900, transaction_timeout_ms=1_000)
    stats = Job(topic, IteratorSource(slow), **settings).run(timeout=LIMIT_S)
    assert stats.aborts >= 1
    assert read_values(bootstrap, topic) == numbers(1_500)
