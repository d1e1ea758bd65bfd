"""librdkafka's share consumer against the stub, from confluent-kafka. Java's is in tests/conformance/test_java_tools.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, ShareConsumer

from fencepost import Producer
from fencepost.broker_stub import BrokerStub
from fencepost.producer.wire.messages import incremental_configs
from tests.broker_stub.share.share_calls import GROUP
from tests.broker_stub.stub_calls import Talker
from tests.waiting import until

pytestmark = pytest.mark.timeout(200)

WAIT_S = 60.0
VALUES = [b"%d" % number for number in range(20)]


@pytest.fixture
def stub() -> Iterator[BrokerStub]:
    """Two brokers, and twenty records in two partitions. The group "g" begins at the earliest offset."""
    with BrokerStub(brokers=2) as running, Talker(running) as talker:
        running.create_topic("t", partitions=2, replication_factor=2)
        config = incremental_configs.AlterableConfig(name="share.auto.offset.reset", value="earliest")
        resource = incremental_configs.AlterConfigsResource(resource_type=GROUP, resource_name="g", configs=[config])
        answer: Any = talker.ask(incremental_configs.IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert answer.responses[0].error_code == 0
        with Producer(bootstrap_servers=running.bootstrap) as producer:
            for number, value in enumerate(VALUES):
                producer.send("t", value, partition=number % 2)
        yield running


def consumer(stub: BrokerStub) -> ShareConsumer:
    made = ShareConsumer({"bootstrap.servers": stub.bootstrap, "group.id": "g", "share.acknowledgement.mode": "explicit"})
    made.subscribe(["t"])
    return made


def test_two_members_do_every_record_once(stub: BrokerStub) -> None:
    """Each record is released at its first delivery, and accepted at the second, by the member that gets it."""
    delivered: Counter[bytes] = Counter()
    with closing(consumer(stub)) as first, closing(consumer(stub)) as second:

        def work() -> int:
            for member in (first, second):
                for message in member.poll(0.2):
                    assert message.error() is None
                    value = message.value()
                    assert value is not None
                    delivered[value] += 1
                    member.acknowledge(message, AcknowledgeType.ACCEPT if delivered[value] > 1 else AcknowledgeType.RELEASE)
                member.commit_sync(WAIT_S)
            return sum(count >= 2 for count in delivered.values())

        until(work, "all records are accepted", good=lambda done: done == len(VALUES), timeout_s=WAIT_S)
        assert [*first.poll(0.5), *second.poll(0.5)] == []
    assert delivered == dict.fromkeys(VALUES, 2)
