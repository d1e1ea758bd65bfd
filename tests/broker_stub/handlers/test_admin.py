"""What administrators change, and what others then see of it, under a virtual clock. The answers themselves are compared with Apache
Kafka's in tests/conformance."""

from __future__ import annotations

import time
from typing import Any

import pytest

from fencepost.producer import wire
from fencepost.producer.wire import Api, ErrorCode
from fencepost.producer.wire.messages import configs, end_txn
from fencepost.producer.wire.messages.incremental_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from fencepost.producer.wire.messages.topic_admin import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    DeleteTopicsRequest,
)
from tests.broker_stub.stub_calls import Inside, batch, fetch_request, metadata_request, numbered, only

SET, DELETE = 0, 1


def alter(world: Inside, operation: int, name: str, value: str | None, *, topic: str = "t") -> int:
    resource = AlterConfigsResource(
        resource_type=2, resource_name=topic, configs=[AlterableConfig(name=name, config_operation=operation, value=value)]
    )
    return int(world.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0].error_code)


def delete_records(world: Inside, offset: int) -> Any:
    parts = [DeleteRecordsPartition(offset=offset)]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=parts)], timeout_ms=5_000)
    world.replies.clear()
    world.send(request, 2)
    world.pass_time(500)  # followers learn of it with their next fetch
    answer: Any = world.replies[0].response
    return answer.topics[0].partitions[0]


def earliest(world: Inside) -> int:
    asked = wire.ListOffsetsPartition(timestamp=-2)
    return int(only(world.ask(wire.ListOffsetsRequest(topics=[wire.ListOffsetsTopic(name="t", partitions=[asked])]), 7)).offset)


def test_a_log_obeys_new_configs_and_keeps_to_them() -> None:
    """A change counts from the next batch on, also for the log of the next leader and for partitions that are added later."""
    world = Inside(brokers=2)
    world.topic(replicas=2)
    assert world.produce(batch(bytes(500))).error_code == 0
    assert alter(world, SET, "max.message.bytes", "200") == 0
    assert world.produce(batch(bytes(500))).error_code == ErrorCode.MESSAGE_TOO_LARGE
    partition = world.cluster.find("t", 0)
    assert partition is not None
    world.cluster.move_leader(partition)
    assert world.produce(batch(bytes(500))).error_code == ErrorCode.MESSAGE_TOO_LARGE
    world.cluster.add_partitions(world.topic_named(), 2)
    assert world.produce(batch(bytes(500)), partition=1).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert alter(world, DELETE, "max.message.bytes", None) == 0
    assert world.produce(batch(bytes(500)), partition=1).error_code == 0


def test_more_replicas_needed_from_now_on() -> None:
    """min.insync.replicas takes effect at once, in both directions: on acks=all, and on what consumers may read."""
    world = Inside(brokers=2)
    world.topic(replicas=2)
    follower = 3 - world.leader()
    assert world.produce(batch()).error_code == 0
    world.cluster.stop_broker(follower)
    assert world.produce(batch()).error_code == 0
    assert alter(world, SET, "min.insync.replicas", "2") == 0
    assert world.produce(batch()).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.produce(batch(), acks=1).error_code == 0
    before = only(world.ask(fetch_request("t"), 12)).high_watermark
    partition = world.cluster.find("t", 0)
    assert partition is not None
    world.cluster.configure(world.topic_named(), {})
    assert only(world.ask(fetch_request("t"), 12)).high_watermark == before + 1


def described(world: Inside, *names: str) -> dict[str, str | None]:
    """What the first broker says of its configs."""
    resource = configs.DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=list(names))
    answer = world.ask(configs.DescribeConfigsRequest(resources=[resource]), 4, node=1)
    return {each.name: each.value for each in answer.results[0].configs}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, {"num.partitions": "1", "default.replication.factor": "1", "transaction.state.log.min.isr": "1"}),
        (
            {"brokers": 5, "default_partitions": 7, "default_replication_factor": 2},
            {"num.partitions": "7", "default.replication.factor": "2", "transaction.state.log.min.isr": "2"},
        ),
        ({"brokers": 4}, {"default.replication.factor": "3", "transaction.state.log.replication.factor": "3"}),
        ({"brokers": 2}, {"transaction.state.log.replication.factor": "2", "offsets.topic.replication.factor": "2"}),
        ({"config": {"num.partitions": 3}}, {"num.partitions": "3"}),
        ({"brokers": 3, "config": {"transaction.state.log.min.isr": 1}}, {"transaction.state.log.min.isr": "1"}),
        ({"auto_create_topics": False}, {"auto.create.topics.enable": "false"}),
        ({"super_users": ["User:root"]}, {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}),
    ],
)
def test_brokers_describe_what_counts(options: dict[str, Any], told: dict[str, str]) -> None:
    """However it was said, and also where there are too few brokers for it: what a new topic and the coordinators' topics get is what is
    described."""
    world = Inside(**options)
    if "super_users" in options:
        assert world.cluster.config["authorizer.class.name"] == told["authorizer.class.name"]
        return
    assert described(world, *told) == told
    made = {name: world.cluster.internal_topic(name) for name in ("__consumer_offsets", "__transaction_state")}
    factors = {
        "offsets.topic.replication.factor": made["__consumer_offsets"],
        "transaction.state.log.replication.factor": made["__transaction_state"],
    }
    assert described(world, *factors) == {name: str(len(topic.partitions[0].replicas)) for name, topic in factors.items()}
    assert described(world, "transaction.state.log.min.isr") == {
        "transaction.state.log.min.isr": str(made["__transaction_state"].partitions[0].min_isr)
    }
    if options.get("auto_create_topics", True):
        world.ask(wire.MetadataRequest(topics=[wire.MetadataRequestTopic(name="new")], allow_auto_topic_creation=True), 12, node=1)
        new = world.cluster.topics.named("new")
        assert new is not None
        assert described(world, "num.partitions", "default.replication.factor") == {
            "num.partitions": str(len(new.partitions)),
            "default.replication.factor": str(len(new.partitions[0].replicas)),
        }


@pytest.mark.parametrize("clean", [True, False])
def test_deleted_records_stay_deleted(clean: bool) -> None:
    """The start of a log survives leader moves and restarts; the producers are remembered, and the log goes on."""
    world = Inside(brokers=2)
    world.topic(replicas=2)
    for sequence in range(5):
        world.produce(numbered(7, sequence))
    world.pass_time(500)
    assert delete_records(world, 3).low_watermark == 3
    partition = world.cluster.find("t", 0)
    assert partition is not None
    world.cluster.move_leader(partition)
    world.cluster.tick()
    assert earliest(world) == 3
    world.cluster.stop_broker(world.leader(), clean=clean)
    for node in (1, 2):
        world.cluster.start_broker(node)
    world.cluster.tick()
    assert earliest(world) == 3
    assert only(world.ask(fetch_request("t", 2), 12)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert only(world.ask(fetch_request("t", 3), 12)).error_code == 0
    assert world.produce(numbered(7, 4)).base_offset == 4
    assert world.produce(numbered(7, 5)).base_offset == 5


def test_a_reader_of_a_deleted_topic_is_told() -> None:
    """A Fetch that waits for records of a topic is answered as soon as the topic is deleted. The old topic id stays unknown."""
    world = Inside()
    topic_id = world.topic()
    world.send(fetch_request("t", wait_ms=10_000), 12)
    assert world.replies == []
    assert world.ask(DeleteTopicsRequest(topic_names=["t"]), 5, node=1).responses[0].error_code == 0
    world.cluster.tick()
    answers = [reply.response for reply in world.replies if reply.response is not None and reply.response.api == Api.FETCH]
    assert [only(answer).error_code for answer in answers] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert world.topic() != topic_id
    by_id = wire.FetchRequest(topics=[wire.FetchTopic(topic_id=topic_id, partitions=[wire.FetchPartition()])])
    assert only(world.ask(by_id, 13)).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_deleting_can_be_disabled() -> None:
    """delete.topic.enable=false: nothing goes, and each version has its own word for it."""
    world = Inside(config={"delete.topic.enable": "false"})
    world.topic()
    for version, code in ((2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED), (5, ErrorCode.TOPIC_DELETION_DISABLED)):
        assert world.ask(DeleteTopicsRequest(topic_names=["t"]), version).responses[0].error_code == code
    assert world.cluster.topics.named("t") is not None


def test_partitions_added_go_round_the_brokers() -> None:
    """New partitions are led by the brokers in turn, with as many replicas as the others, and can be written to."""
    world = Inside(brokers=3)
    world.topic(partitions=1, replicas=2)
    request = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=6, assignments=None)])
    assert world.ask(request, 3, node=2).results[0].error_code == 0
    topic = world.cluster.topics.named("t")
    assert topic is not None
    assert sorted(partition.leader for partition in topic.partitions) == [1, 1, 2, 2, 3, 3]
    assert {len(partition.replicas) for partition in topic.partitions} == {2}
    assert [world.produce(batch(), partition=index).base_offset for index in range(6)] == [0] * 6


def test_topics_made_on_demand() -> None:
    """Asking for a topic makes it, with the cluster's default number of partitions; internal topics have their own."""
    world = Inside(default_partitions=4, config={"offsets.topic.num.partitions": "7"})
    first = world.ask(metadata_request("t", "__consumer_offsets", "no/name"), 12, node=1).topics
    assert [topic.error_code for topic in first] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]
    assert [topic.is_internal for topic in first] == [False, True, False]
    then = world.ask(metadata_request("t", "__consumer_offsets"), 12, node=1).topics
    assert [(topic.error_code, len(topic.partitions), topic.is_internal) for topic in then] == [(0, 4, False), (0, 7, True)]


@pytest.mark.parametrize("how", ["constructor", "config", "request"])
def test_topics_are_not_made_where_they_must_not_be(how: str) -> None:
    """Metadata creates no topic if the cluster does not want it or the request does not."""
    options: dict[str, dict[str, Any]] = {
        "constructor": {"auto_create_topics": False},
        "config": {"config": {"auto.create.topics.enable": "false"}},
        "request": {},
    }
    world = Inside(**options[how])
    asked = [wire.MetadataRequestTopic(name="t")]
    for _ in range(2):
        answer = world.ask(wire.MetadataRequest(topics=asked, allow_auto_topic_creation=how != "request"), 12, node=1)
        assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(world.cluster.topics) == 0


def test_very_many_markers_take_time_for_each_and_no_more() -> None:
    """WriteTxnMarkers for four times as many partitions takes about four times as long: the loop belongs to every client."""

    def seconds(count: int) -> float:
        world = Inside()
        topics = [end_txn.WritableTxnMarkerTopic(name=f"t{n}", partition_indexes=list(range(100))) for n in range(count)]
        request = end_txn.WriteTxnMarkersRequest(markers=[end_txn.WritableTxnMarker(producer_id=1, topics=topics)])
        begun = time.process_time()
        answer = world.ask(request, 1, node=1)
        assert sum(len(topic.partitions) for marker in answer.markers for topic in marker.topics) == count * 100
        return time.process_time() - begun

    assert seconds(200) < 10 * seconds(50) + 0.5


def test_a_marker_for_one_partition_named_twice() -> None:
    """It is written once, and answered as often as it was asked for."""
    world = Inside()
    world.topic(partitions=1)
    topic = end_txn.WritableTxnMarkerTopic(name="t", partition_indexes=[0, 0])
    request = end_txn.WriteTxnMarkersRequest(markers=[end_txn.WritableTxnMarker(producer_id=1, topics=[topic])])
    answer = world.ask(request, 1)
    assert [each.error_code for each in answer.markers[0].topics[0].partitions] == [0, 0]
    found = world.cluster.find("t", 0)
    assert found is not None
    assert found.log.log_end_offset == 1


def test_very_many_topics_made_on_demand() -> None:
    """Their names are not compared with one another, and what CreateTopics would refuse as too many at once is not made."""
    world = Inside()
    names = [f"a.{n}" for n in range(3000)]
    begun = time.process_time()
    world.ask(metadata_request(*names), 12, node=1)
    assert len(world.cluster.topics) == 3000
    assert time.process_time() - begun < 10.0
    assert world.cluster.topics.colliding("a_7") is world.cluster.topics.named("a.7")
    (gone,) = (each for each in world.cluster.topics if each.name == "a.7")
    world.cluster.delete_topic(gone)
    assert world.cluster.topics.colliding("a_7") is None
    world.ask(metadata_request(*(f"b{n}" for n in range(10_001))), 12, node=1)
    assert len(world.cluster.topics) == 2999
