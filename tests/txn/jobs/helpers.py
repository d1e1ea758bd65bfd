"""For tests of jobs: a stub with a topic, quick settings, and what readers have afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.txn import Job
from tests.reading import read_messages, read_values

LIMIT_S: Final = 60.0
TOPIC, DEAD = "flights", "flights.dead"
QUICK: Final[dict[str, Any]] = {
    "topic": TOPIC,
    "batch_ms": 200,
    "retry_backoff_ms": 5,
    "retry_backoff_max_ms": 50,
    "producer": {
        "linger_ms": 0,
        "retry_backoff_ms": 5,
        "retry_backoff_max_ms": 50,
        "reconnect_backoff_ms": 5,
        "reconnect_backoff_max_ms": 50,
    },
}


class PowerCut(BaseException):
    """A crash inside a transform or a source. The job's producer still aborts, as after Ctrl-C."""


def settings_for(bootstrap: str, **changed: Any) -> dict[str, Any]:
    """Settings with short pauses."""
    return {**QUICK, "bootstrap_servers": bootstrap, **changed, "producer": {**QUICK["producer"], **changed.pop("producer", {})}}


def quick(stub: BrokerStub, source: Any, name: str = "job", **changed: Any) -> Job:
    """A job that does not wait for long."""
    return Job(name, source, **settings_for(stub.bootstrap, **changed))


def values(stub: BrokerStub, topic: str = TOPIC) -> list[bytes]:
    """What a reader with read_committed finds, in the order of partition 0."""
    return read_values(stub.bootstrap, topic)


def dead_letters(stub: BrokerStub) -> list[tuple[bytes, dict[str, str]]]:
    """Value and headers of each dead letter."""
    found = []
    for message in read_messages(stub.bootstrap, DEAD):
        headers: Any = message.headers() or []
        found.append((message.value() or b"", {name: value.decode() for name, value in headers}))
    return found


def numbers(count: int) -> list[bytes]:
    return [b"record %d" % number for number in range(count)]


@pytest.fixture
def stub() -> Iterator[BrokerStub]:
    """A stub with the topic and the topic of dead letters."""
    with BrokerStub() as stub:
        for topic in (TOPIC, DEAD):
            stub.create_topic(topic, partitions=1)
        yield stub
