"""Versions that Kafka 4.0 removed (KIP-896), and what 3.9 does not serve yet, sent to a broker of release 3.9."""

from fencepost.broker_stub.security.operations import Operation, Resource
from fencepost.producer import wire
from fencepost.producer.wire.messages import (
    configs,
    consumer_group_admin,
    consumer_groups,
    group_offsets,
    offset_for_leader_epoch,
    topic_admin,
)
from tests.conformance.asks_acls import creation
from tests.conformance.batches import Rec, plain
from tests.conformance.world import World, case


@case(older=True)
def topics_made_and_deleted(w: World) -> None:
    """CreateTopics 0 and 1, DeleteTopics 0."""
    for version in (0, 1):
        name = w.fresh_name()
        for label in ("new", "again"):
            request = wire.CreateTopicsRequest(
                topics=[wire.CreatableTopic(name=name, num_partitions=2, replication_factor=1)], timeout_ms=10_000
            )
            w.say(request, version, label=f"v{version} {label}")
        wrong = [
            wire.CreatableTopic(name="a b", num_partitions=1, replication_factor=1),
            wire.CreatableTopic(name=w.fresh_name(), num_partitions=1, replication_factor=9),
            wire.CreatableTopic(
                name=w.fresh_name(),
                num_partitions=1,
                replication_factor=1,
                configs=[wire.CreatableTopicConfig(name="no.such.config", value="1")],
            ),
        ]
        w.say(wire.CreateTopicsRequest(topics=wrong, timeout_ms=10_000), version, label=f"v{version} wrong ones")
        w.known_topic(name)
        names = [name, w.missing_topic().name]
        w.say(topic_admin.DeleteTopicsRequest(topic_names=names, timeout_ms=10_000), 0, label=f"v{version} deleted")
    tried = wire.CreateTopicsRequest(
        topics=[wire.CreatableTopic(name=w.fresh_name(), num_partitions=1, replication_factor=1)], timeout_ms=10_000, validate_only=True
    )
    w.say(tried, 1, label="v1 tried")


@case(older=True)
def offsets_of_version_zero(w: World) -> None:
    """The offsets at which segments begin, newest first, after the end of the log; as many as requested."""
    topic, missing = w.topic(), w.missing_topic()
    for written in (0, 1):
        if written:
            w.produce(plain(Rec(), Rec(), Rec()), topic, label="three records")
        for timestamp in (-1, -2):
            for wanted in (1, 2, 5):
                parts = [wire.ListOffsetsPartition(timestamp=timestamp, max_num_offsets=wanted)]
                request = wire.ListOffsetsRequest(topics=[wire.ListOffsetsTopic(name=topic.name, partitions=parts)])
                w.say(request, 0, label=f"{3 * written} records, time {timestamp}, {wanted} offsets")
    parts = [wire.ListOffsetsPartition(timestamp=-1), wire.ListOffsetsPartition(partition_index=7, timestamp=-1)]
    request = wire.ListOffsetsRequest(topics=[wire.ListOffsetsTopic(name=each.name, partitions=parts) for each in (topic, missing)])
    w.say(request, 0, label="what is not there")


@case(older=True)
def offsets_in_zookeeper(w: World) -> None:
    """OffsetCommit 0 and OffsetFetch 0 are refused, because there is no ZooKeeper. Version 1 stores offsets as later versions do."""
    topic, missing, group = w.topic(), w.missing_topic(), w.group()
    for version in (0, 1):
        asked = [
            group_offsets.OffsetCommitRequestTopic(
                name=each.name, partitions=[group_offsets.OffsetCommitRequestPartition(partition_index=index, committed_offset=5)]
            )
            for each, index in ((topic, 0), (topic, 7), (missing, 0))
        ]
        w.say(group_offsets.OffsetCommitRequest(group_id=group, topics=asked), version, label=f"commit v{version}")
        names = [group_offsets.OffsetFetchRequestTopic(name=each.name, partition_indexes=[0, 7]) for each in (topic, missing)]
        w.say(group_offsets.OffsetFetchRequest(group_id=group, topics=names), version, label=f"fetch v{version}")


@case(older=True)
def ends_of_epochs(w: World) -> None:
    """OffsetForLeaderEpoch 0 and 1."""
    topic, missing = w.topic(), w.missing_topic()
    w.produce(plain(Rec(), Rec()), topic, label="two records")
    for version in (0, 1):
        for epoch in (-1, 0, 5):
            asked = [offset_for_leader_epoch.OffsetForLeaderPartition(partition=index, leader_epoch=epoch) for index in (0, 7)]
            topics = [offset_for_leader_epoch.OffsetForLeaderTopic(topic=each.name, partitions=asked) for each in (topic, missing)]
            w.say(offset_for_leader_epoch.OffsetForLeaderEpochRequest(topics=topics), version, label=f"v{version} epoch {epoch}")


@case(older=True)
def told_configs(w: World) -> None:
    """DescribeConfigs 0 says whether a value is the default."""
    topic = w.topic(config={"retention.ms": "1000"})
    for keys in (["retention.ms"], ["retention.bytes"], ["no.such.config"]):
        asked = configs.DescribeConfigsResource(resource_type=2, resource_name=topic.name, configuration_keys=keys)
        w.told_default(configs.DescribeConfigsRequest(resources=[asked]), label=keys[0])


@case(older=True, guarded=True)
def acls_without_patterns(w: World) -> None:
    """Version 0 creates, describes and deletes literal ACLs."""
    w.no_acls()
    read = creation(Operation.READ, Resource.TOPIC, "t")
    w.permit(creation(Operation.READ, Resource.TOPIC, "t", pattern=4))
    w.create_acls(read, version=0, label="made")
    w.until_permitted(2)
    w.describe_acls({"resource_name_filter": "t", "pattern_type_filter": 3}, version=0, label="described")
    w.delete_acls({"resource_name_filter": "t", "pattern_type_filter": 3}, version=0, label="deleted")
    w.until_permitted(1)
    w.describe_acls(label="left")
    w.no_acls()


@case(older=True)
def produced_and_fetched(w: World) -> None:
    """The oldest versions that carry batches."""
    topic = w.topic()
    for version in (3, 5, 8, 11):
        data = wire.PartitionProduceData(records=plain(Rec()).encode())
        request = wire.ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[wire.TopicProduceData(name=topic.name, partition_data=[data])])
        w.say(request, version, label=f"Produce v{version}")
    for version in (4, 7, 9, 11, 12):
        parts = [wire.FetchPartition(fetch_offset=4, partition_max_bytes=1 << 20)]
        fetch = wire.FetchRequest(max_wait_ms=0, max_bytes=1 << 20, topics=[wire.FetchTopic(topic=topic.name, partitions=parts)])
        w.say(fetch, version, label=f"Fetch v{version}")


@case(older=True)
def the_consumer_protocol(w: World) -> None:
    """It is advertised, and UNSUPPORTED_VERSION where it is not switched on."""
    w.say(consumer_groups.ConsumerGroupHeartbeatRequest(group_id="g", member_id="m"), 0, label="heartbeat")
    w.say(consumer_group_admin.ConsumerGroupDescribeRequest(group_ids=["g", "h"]), 0, label="describe")
