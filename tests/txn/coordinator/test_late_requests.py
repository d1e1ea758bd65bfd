"""A request of a transaction that comes late, on the stub: nothing is lost, doubled, torn or opened by it, and nothing false is said.

`make late` plays the same on Apache Kafka.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.broker_stub.cluster.topics import OFFSETS_TOPIC, STATE_TOPIC
from fencepost.producer.wire.codes import Api, api_name
from tests.drawn import drawn
from tests.txn.coordinator.late_requests import REQUESTS, Moment, expected, play

TIMEOUT_MS: Final = 300
COLUMNS: Final[dict[str, dict[str, Any]]] = {
    "3.9": {"emulate": "3.9"},
    "4.3 at TV1": {"transaction_version": 1},
    "4.3 at TV2": {"transaction_version": 2},
}


class StubGround:
    """Two brokers of the stub."""

    def __init__(self, stub: BrokerStub, version: int) -> None:
        self._stub = stub
        self.bootstrap = stub.bootstrap
        self.version = version

    def move_coordinators(self) -> None:
        for topic in (STATE_TOPIC, OFFSETS_TOPIC):
            self._stub.move_leader(topic, 0)


@contextlib.contextmanager
def ground(column: str) -> Iterator[StubGround]:
    config = {"transaction.state.log.num.partitions": 1, "offsets.topic.num.partitions": 1}
    with BrokerStub(brokers=2, config=config, **COLUMNS[column]) as stub:
        yield StubGround(stub, COLUMNS[column].get("transaction_version", 0))


@drawn(3, kind=lambda row: row["request_"])
@pytest.mark.parametrize("moment", Moment, ids=lambda moment: moment.name.lower())
@pytest.mark.parametrize("request_", REQUESTS, ids=api_name)
@pytest.mark.parametrize("column", COLUMNS)
def test_what_comes_late_changes_nothing(column: str, request_: Api, moment: Moment) -> None:
    """Five requests are refused, or taken for what they are: repeats. A late InitProducerId takes the id over, as Kafka has it: then the
    producer recovers where the coordinator remembers its epoch (transaction version 2, and a transaction is open), and is told elsewhere
    that it may have been itself; a new producer goes on."""
    with ground(column) as place:
        cell = play(place, request_, moment, timeout_ms=TIMEOUT_MS)
    assert cell.told == expected(request_, moment, COLUMNS[column].get("transaction_version", 0))
