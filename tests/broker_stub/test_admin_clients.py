"""Stock administrators: these clients manage topics, configs, records and groups of the stub."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from tests.broker_stub.stub_calls import DEADLINE_S

admin: Any = import_module("confluent_kafka.admin")  # it has types, but does not say that it exports what it imports


@pytest.fixture(scope="module")
def stub() -> Iterator[BrokerStub]:
    with BrokerStub(brokers=3) as running:
        yield running


@pytest.fixture
def topic() -> str:
    return f"t-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def group(stub: BrokerStub, topic: str) -> str:
    """A group without members that has committed offset 2 of the topic's first partition, where there are five records."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    name = f"g-{uuid.uuid4().hex[:8]}"
    stub.create_topic(topic, partitions=2, replication_factor=2)
    producer = Producer({"bootstrap.servers": stub.bootstrap})
    for number in range(5):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(DEADLINE_S) == 0
    consumer = Consumer({"bootstrap.servers": stub.bootstrap, "group.id": name})
    try:
        consumer.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
    finally:
        consumer.close()
    return name


class Confluent:
    """librdkafka's AdminClient, every call with a deadline."""

    def __init__(self, stub: BrokerStub) -> None:
        self.client = admin.AdminClient({"bootstrap.servers": stub.bootstrap, "log_level": 0})

    def only(self, futures: Any) -> Any:
        """What became of the one thing asked for."""
        (future,) = futures.values() if isinstance(futures, dict) else [futures]
        return future.result(timeout=DEADLINE_S)


@pytest.fixture(scope="module")
def confluent(stub: BrokerStub) -> Confluent:
    return Confluent(stub)


def test_confluent_manages_topics(stub: BrokerStub, confluent: Confluent, topic: str) -> None:
    """Created, listed, described, grown and deleted; made again it has another id; and errors arrive as what they are."""
    from confluent_kafka import KafkaError, KafkaException, TopicCollection

    client, only = confluent.client, confluent.only
    only(client.create_topics([admin.NewTopic(topic, 2, 2, config={"retention.ms": "1000"})]))
    assert topic in client.list_topics(timeout=DEADLINE_S).topics
    described = only(client.describe_topics(TopicCollection([topic])))
    assert [len(partition.replicas) for partition in described.partitions] == [2, 2]
    only(client.create_partitions([admin.NewPartitions(topic, 4)]))
    assert len(client.list_topics(topic, timeout=DEADLINE_S).topics[topic].partitions) == 4
    for wrong, code in (
        (client.create_topics([admin.NewTopic(topic, 1, 1)]), KafkaError.TOPIC_ALREADY_EXISTS),
        (client.create_partitions([admin.NewPartitions(topic, 4)]), KafkaError.INVALID_PARTITIONS),
        (client.delete_topics([f"{topic}-x"]), KafkaError.UNKNOWN_TOPIC_OR_PART),
    ):
        with pytest.raises(KafkaException) as caught:
            only(wrong)
        assert caught.value.args[0].code() == code
    before = str(described.topic_id)
    only(client.delete_topics([topic]))
    assert stub.cluster.topics.named(topic) is None
    only(client.create_topics([admin.NewTopic(topic, 1, 1)]))
    assert str(only(client.describe_topics(TopicCollection([topic]))).topic_id) != before


def test_confluent_manages_configs(stub: BrokerStub, confluent: Confluent, topic: str) -> None:
    """Described with their sources, set, appended to, deleted; the log obeys; a broker describes itself."""
    from confluent_kafka import KafkaException

    client, only = confluent.client, confluent.only
    stub.create_topic(topic, config={"segment.ms": "5000"})

    def describe() -> Any:
        return only(client.describe_configs([admin.ConfigResource(admin.ResourceType.TOPIC, topic)]))

    def alter(name: str, operation: Any, value: str | None) -> None:
        entry = admin.ConfigEntry(name, value, incremental_operation=operation)
        only(client.incremental_alter_configs([admin.ConfigResource(admin.ResourceType.TOPIC, topic, incremental_configs=[entry])]))

    told = describe()
    assert (told["segment.ms"].value, told["segment.ms"].source) == ("5000", admin.ConfigSource.DYNAMIC_TOPIC_CONFIG.value)
    assert (told["retention.ms"].value, told["retention.ms"].is_default) == ("604800000", True)
    alter("max.message.bytes", admin.AlterConfigOpType.SET, "100")
    alter("cleanup.policy", admin.AlterConfigOpType.APPEND, "compact")
    alter("segment.ms", admin.AlterConfigOpType.DELETE, None)
    told = describe()
    assert {name: told[name].value for name in ("max.message.bytes", "cleanup.policy", "segment.ms")} == {
        "max.message.bytes": "100",
        "cleanup.policy": "delete,compact",
        "segment.ms": "604800000",
    }
    assert stub.cluster.topics.named(topic).partitions[0].log.config.max_message_bytes == 100  # type: ignore[union-attr]  # it is there
    with pytest.raises(KafkaException, match="INVALID_CONFIG"):
        alter("retention.ms", admin.AlterConfigOpType.SET, "soon")
    broker = only(client.describe_configs([admin.ConfigResource(admin.ResourceType.BROKER, "2")]))
    assert broker["node.id"].value == "2"
    assert broker["num.partitions"].value == "1"


def test_confluent_describes_the_cluster(stub: BrokerStub, confluent: Confluent) -> None:
    """Every broker at its address, and the cluster's id."""
    cluster = confluent.only(confluent.client.describe_cluster(include_authorized_operations=True))
    assert {node.id: (node.host, node.port) for node in cluster.nodes} == stub.addresses
    assert cluster.cluster_id == stub.cluster.cluster_id
    assert cluster.authorized_operations


def test_confluent_manages_records_and_offsets(stub: BrokerStub, confluent: Confluent, topic: str, group: str) -> None:
    """Records are deleted up to an offset, and the earliest offset is that one; leaders are elected."""
    from confluent_kafka import ElectionType, TopicPartition

    client, only = confluent.client, confluent.only
    first = TopicPartition(topic, 0)
    assert only(client.delete_records([TopicPartition(topic, 0, 3)])).low_watermark == 3
    assert only(client.list_offsets({first: admin.OffsetSpec.earliest()})).offset == 3
    assert only(client.list_offsets({first: admin.OffsetSpec.latest()})).offset == 5
    assert [record.offset for record in stub.records(topic, 0)] == [3, 4]
    preferred = stub.leader(topic, 0)
    stub.move_leader(topic, 0)
    assert only(client.elect_leaders(ElectionType.PREFERRED, [first]))[first] is None
    assert stub.leader(topic, 0) == preferred


def test_confluent_manages_groups(stub: BrokerStub, confluent: Confluent, topic: str, group: str) -> None:
    """Listed, described, their offsets read and moved, deleted."""
    from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, TopicPartition

    client, only = confluent.client, confluent.only

    def offset() -> int:
        found = only(client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])]))
        return int(found.topic_partitions[0].offset)

    listed = only(client.list_consumer_groups(states={ConsumerGroupState.EMPTY})).valid
    assert group in [each.group_id for each in listed]
    described = only(client.describe_consumer_groups([group]))
    assert (described.state, described.members) == (ConsumerGroupState.EMPTY, [])
    assert offset() == 2
    only(client.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 4)])]))
    assert offset() == 4
    only(client.delete_consumer_groups([group]))
    assert offset() == -1001


def test_kafka_python(stub: BrokerStub, topic: str, group: str) -> None:
    """kafka-python's admin client: topics, configs, partitions, groups and offsets."""
    from kafka import KafkaAdminClient, TopicPartition
    from kafka.errors import TopicAlreadyExistsError

    client = KafkaAdminClient(bootstrap_servers=stub.bootstrap)
    other = f"{topic}-2"
    try:
        client.create_topics({other: {"num_partitions": 1, "replication_factor": 1}})
        assert {topic, other} <= set(client.list_topics())
        with pytest.raises(TopicAlreadyExistsError):
            client.create_topics({other: {"num_partitions": 1, "replication_factor": 1}})
        client.create_partitions({other: 3})
        assert len(client.describe_topics([other])[0]["partitions"]) == 3
        assert group in [each["group_id"] for each in client.list_groups()]
        assert client.describe_groups([group])[group]["group_state"] == "Empty"
        assert client.list_group_offsets([group])[group][TopicPartition(topic, 0)].offset == 2
        client.delete_records({TopicPartition(topic, 0): 1})
        assert [record.offset for record in stub.records(topic, 0)] == [1, 2, 3, 4]
        client.delete_groups([group])
        client.delete_topics([other])
        assert stub.cluster.topics.named(other) is None
    finally:
        client.close()


def test_aiokafkas_admin_client(stub: BrokerStub, topic: str, group: str) -> None:
    """aiokafka's admin client, which speaks old versions: topics, configs, partitions and groups."""
    from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
    from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
    from aiokafka.structs import TopicPartition

    other = f"{topic}-2"

    async def run() -> None:
        client = AIOKafkaAdminClient(bootstrap_servers=stub.bootstrap)
        await client.start()
        try:
            await client.create_topics([NewTopic(other, 1, 1)])
            assert {topic, other} <= set(await client.list_topics())
            await client.create_partitions({other: NewPartitions(3)})
            (described,) = await client.describe_topics([other])
            assert len(described["partitions"]) == 3
            (configs,) = await client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, other)])
            assert "retention.ms" in [entry[0] for entry in configs.resources[0][4]]
            assert group in [each[0] for each in await client.list_consumer_groups()]
            (answer,) = await client.describe_consumer_groups([group])
            assert answer.groups[0][2] == "Empty"
            offsets = await client.list_consumer_group_offsets(group)
            assert offsets[TopicPartition(topic, 0)].offset == 2
            await client.delete_topics([other])
        finally:
            await client.close()

    asyncio.run(asyncio.wait_for(run(), 3 * DEADLINE_S))
    assert stub.cluster.topics.named(other) is None
