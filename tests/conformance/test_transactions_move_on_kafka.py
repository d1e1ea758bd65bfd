"""A transaction whose coordinator and partition leaders all move while it is open ends as a whole: on the stub and on Apache Kafka."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

import pytest
from confluent_kafka import Consumer

from fencepost.broker_stub import BrokerStub
from fencepost.txn.producer import TransactionalProducer
from tests.conformance.fixtures import TOLD_ALIKE, require_kafka
from tests.conformance.kafka import KafkaCluster
from tests.conformance.survival.reader import Admin
from tests.once import once_is_enough
from tests.waiting import until

pytestmark = [pytest.mark.timeout(300), once_is_enough("asks Kafka itself")]

PARTITIONS = 4
RECORDS = 40
NODES = (1, 2, 3)
STATE_TOPIC = "__transaction_state"
CONFIG = {"min.insync.replicas": "2"}


class Site:
    """A cluster of three brokers. `restart` ends a broker and starts it again."""

    def __init__(self, bootstrap: str, restart: Callable[[int], object]) -> None:
        self.bootstrap = bootstrap
        self.restart = restart
        self.admin = Admin(bootstrap)

    def leaders(self, *topics: str) -> dict[tuple[str, int], int]:
        return {(topic, number): leader for topic in topics for number, (leader, _) in self.admin.in_sync(topic).items()}

    def await_in_sync(self, *topics: str) -> None:
        for topic in topics:
            until(
                partial(self.admin.in_sync, topic),
                f"every replica of {topic} is in sync",
                good=lambda found: all(leader > 0 and replicas == len(NODES) for leader, replicas in found.values()),
                timeout_s=60,
            )

    def read(self, topic: str) -> list[bytes]:
        """Every record that a read_committed consumer gets."""
        found: list[bytes] = []
        with closing(
            Consumer(
                {
                    "bootstrap.servers": self.bootstrap,
                    "group.id": secrets.token_hex(4),
                    "auto.offset.reset": "earliest",
                    "enable.partition.eof": True,
                    "isolation.level": "read_committed",
                    "log_level": 0,
                }
            )
        ) as consumer:
            consumer.subscribe([topic])
            ended: set[int] = set()
            while len(ended) < PARTITIONS:
                message = consumer.poll(30)
                assert message is not None
                if message.error() is None:
                    found.append(message.value() or b"")
                    ended.discard(message.partition() or 0)
                else:
                    ended.add(message.partition() or 0)
        return found


@pytest.fixture(scope="module", params=["stub, killed", "stub, without power", pytest.param("kafka", marks=TOLD_ALIKE)])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    if request.param == "kafka":
        require_kafka()
        with KafkaCluster(brokers=len(NODES), config={"transaction.state.log.num.partitions": 3}) as kafka:
            yield Site(kafka.bootstrap, lambda node: kafka.restart_broker(node, clean=False))
        return
    with BrokerStub(brokers=len(NODES), config={"transaction.state.log.num.partitions": 3}) as stub:

        def restart(node: int) -> None:
            if "power" in request.param:
                stub.lose_power(node)
            else:
                stub.stop_broker(node, clean=False)
            stub.start_broker(node)

        yield Site(stub.bootstrap, restart)


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "abort"])
def test_it_ends_as_a_whole(site: Site, commits: bool) -> None:
    """Each broker is killed once, between the transaction's records: every leader and the coordinator have moved."""
    topic = f"moved-{secrets.token_hex(4)}"
    site.admin.create(topic, partitions=PARTITIONS, replicas=len(NODES), config=CONFIG)
    with TransactionalProducer(bootstrap_servers=site.bootstrap, transactional_id=topic, transaction_timeout_ms=120_000) as producer:
        tx = producer.begin(60)
        leaders, moved = site.leaders(topic, STATE_TOPIC), set[tuple[str, int]]()
        for turn, node in enumerate((*NODES, None)):
            for number in range(RECORDS // 4):
                tx.send(topic, b"%d-%d" % (turn, number), partition=number % PARTITIONS)
            producer.flush(60)
            if node is None:
                break
            site.restart(node)
            site.await_in_sync(topic, STATE_TOPIC)
            now = site.leaders(topic, STATE_TOPIC)
            moved |= {key for key, leader in now.items() if leader != leaders[key]}
            leaders = now
        assert moved == leaders.keys()
        (tx.commit if commits else tx.abort)(60)
    wanted = sorted(b"%d-%d" % (turn, number) for turn in range(4) for number in range(RECORDS // 4))
    assert sorted(site.read(topic)) == (wanted if commits else [])
