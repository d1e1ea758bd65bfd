"""Where the programs run: on brokers of the stub, or of Apache Kafka. And what happens to the brokers meanwhile."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Protocol

from fencepost.broker_stub import BrokerStub
from fencepost.producer.wire import Api
from tests.conformance.kafka import KafkaCluster
from tests.conformance.survival.reader import Admin
from tests.ecosystem.sizes import BROKERS, FULL

SESSION_MS: Final = 3_000
CONFIG: Final = {
    "group.min.session.timeout.ms": str(SESSION_MS),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "offsets.topic.replication.factor": str(BROKERS),
    "transaction.state.log.replication.factor": str(BROKERS),
}
"""So that a dead member, and its open transaction, are soon found."""
INTERNAL: Final = ("__consumer_offsets", "__transaction_state")
LOST: Final = (
    Api.PRODUCE,
    Api.ADD_PARTITIONS_TO_TXN,
    Api.ADD_OFFSETS_TO_TXN,
    Api.TXN_OFFSET_COMMIT,
    Api.END_TXN,
    Api.INIT_PRODUCER_ID,
    Api.JOIN_GROUP,
    Api.SYNC_GROUP,
    Api.FIND_COORDINATOR,
)
"""The requests whose replies get lost."""


def drawn_version() -> int:
    """A level of transaction.version: with 0 and 1 clients do without the epochs of KIP-890."""
    return random.SystemRandom().choice((0, 1, 2)) if FULL else 2


class Brokers(Protocol):
    """What both kinds of brokers have."""

    @property
    def bootstrap(self) -> str: ...


class Site:
    """The brokers, and what may happen to them: name to mishap."""

    def __init__(self, name: str, brokers: Brokers, mishaps: Mapping[str, Callable[[random.Random], object]]) -> None:
        self.name = name
        self.bootstrap = brokers.bootstrap
        self.mishaps = mishaps
        self._admin = Admin(self.bootstrap)

    def create(self, topic: str, partitions: int) -> None:
        self._admin.create(topic, partitions=partitions, replicas=BROKERS)


@contextmanager
def on_stub() -> Iterator[Site]:
    """On the stub."""
    version = drawn_version()
    with BrokerStub(brokers=BROKERS, config=CONFIG, journal=0, transaction_version=version) as stub:

        def restart_broker(drawn: random.Random) -> None:
            stub.restart_broker(drawn.randint(1, BROKERS), clean=False)

        def move_coordinators(drawn: random.Random) -> None:
            for topic in INTERNAL:
                for partition in range(4):
                    if len(stub.isr(topic, partition)) > 1:
                        stub.move_leader(topic, partition)

        def lose_replies(drawn: random.Random) -> None:
            for api in LOST:
                stub.faults.on(api).reply().disconnect().times(2)

        mishaps = {"broker": restart_broker, "coordinators": move_coordinators, "replies": lose_replies}
        yield Site(f"the stub (transaction.version {version})", stub, mishaps)


@contextmanager
def on_kafka() -> Iterator[Site]:
    """On Apache Kafka."""
    version = drawn_version()
    with KafkaCluster(brokers=BROKERS, config=CONFIG, features={"transaction.version": version}) as cluster:

        def restart_broker(drawn: random.Random) -> None:
            cluster.restart_broker(drawn.randint(1, BROKERS), clean=False)

        yield Site(f"Apache Kafka (transaction.version {version})", cluster, {"broker": restart_broker})


SITES: Final = {"stub": on_stub, "kafka": on_kafka}
