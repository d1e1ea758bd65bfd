"""Pipelines on a real Kafka: each message once, with each group protocol, through aborts, and with a second pipeline of the same id."""

from __future__ import annotations

import secrets
from typing import Any, Final

import pytest
from confluent_kafka import Message

from fencepost.broker_stub import FaultProxy
from fencepost.producer import Fenced
from fencepost.producer.wire.codes import Api, ErrorCode
from fencepost.txn import Pipeline, PoisonMessage, TransactionalProducer
from tests.conformance.kafka import KafkaCluster
from tests.conformance.survival.reader import Admin
from tests.txn.pipeline.helpers import LIMIT_S, PARTITIONS, bill, group_at, invoices, order, results, settings_for
from tests.txn.pipeline.members import members_come_and_go

pytestmark = pytest.mark.timeout(300)

N: Final = 300
PROTOCOLS: Final[dict[str, dict[str, Any]]] = {
    "eager": {},
    "cooperative": {"partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer", "heartbeat.interval.ms": None},
}


class Site:
    """Topics and a group for one test."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        run = secrets.token_hex(4)
        self.names = {"source": f"orders-{run}", "sink": f"invoices-{run}", "dead_letters": None, "group": f"billing-{run}"}
        for topic in ("source", "sink"):
            Admin(bootstrap).create(str(self.names[topic]), partitions=PARTITIONS)

    def pipeline(self, **changed: Any) -> Pipeline:
        return Pipeline(**settings_for(self.bootstrap, **{**self.names, "transform": bill, **changed}))

    def order(self, numbers: range) -> None:
        order(self.bootstrap, numbers, topic=str(self.names["source"]))

    def is_whole(self, total: int = N) -> None:
        assert results(self.bootstrap, str(self.names["sink"])) == invoices(range(total))
        assert sum(group_at(self.bootstrap, str(self.names["source"]), str(self.names["group"]))) == total


@pytest.fixture
def site(kafka: KafkaCluster) -> Site:
    return Site(kafka.bootstrap)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_members_come_and_go(site: Site, protocol: str) -> None:
    """Partitions change hands while transactions are open, with each group protocol."""
    members_come_and_go(site.bootstrap, PROTOCOLS[protocol], **site.names)


def test_aborts_and_poison(site: Site) -> None:
    """Refused offsets, a lost reply of a commit, and a poison message: every message has one result."""
    site.order(range(N))
    with FaultProxy(site.bootstrap) as proxy:
        proxy.faults.on(Api.TXN_OFFSET_COMMIT).on_call(2).error(ErrorCode.ILLEGAL_GENERATION)
        proxy.faults.on(Api.END_TXN).after_append().on_call(3).disconnect()

        def picky(message: Message) -> bytes:
            if message.value() == b"order 200":
                raise KeyError("price")
            return bill(message)

        with pytest.raises(PoisonMessage, match="KeyError"):
            site.pipeline(bootstrap_servers=proxy.bootstrap, transform=picky, batch_size=40).run_until_idle(timeout=LIMIT_S)
        site.pipeline(bootstrap_servers=proxy.bootstrap).run_until_idle(timeout=LIMIT_S)
    site.is_whole()


def test_a_second_pipeline_with_the_same_id(site: Site) -> None:
    """The newer producer fences the older one, which stops with an error that says what to change."""
    site.order(range(N))
    name = f"{site.names['group']}-same"

    def overtaken(message: Message) -> bytes:
        if message.value() == b"order 200":
            with TransactionalProducer(bootstrap_servers=site.bootstrap, transactional_id=name) as newer:
                newer.init(LIMIT_S)
        return bill(message)

    with pytest.raises(Fenced, match="give each process its own instance"):
        site.pipeline(transform=overtaken, batch_size=1_000, batch_ms=4_000, transactional_id=name).run_until_idle(timeout=LIMIT_S)
    site.pipeline().run_until_idle(timeout=LIMIT_S)
    site.is_whole()
