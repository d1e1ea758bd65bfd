"""Requests that name a partition twice, and topics without partitions. No known client sends them, but a new one may."""

from fencepost.producer import wire
from fencepost.producer.wire.messages import group_offsets, topic_admin, txn_offsets
from tests.conformance.batches import Rec, of, plain
from tests.conformance.world import World, case

TIMEOUT_MS = 10_000


@case()
def topics_without_partitions(w: World) -> None:
    """Most responses leave them out."""
    one, other = w.topic(), w.topic()
    group = w.group()
    batch = plain().encode()
    for version in (3, 12):
        data = [wire.TopicProduceData(name=one.name), wire.TopicProduceData(name=other.name, partition_data=[_data(batch)])]
        for label, some in (("", data[:1]), (" beside another", data)):
            w.say(wire.ProduceRequest(acks=-1, timeout_ms=1000, topic_data=some), version, label=f"Produce v{version}{label}")
    by_id = wire.ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[wire.TopicProduceData(topic_id=one.id)])
    w.say(by_id, 13, label="Produce v13")
    for version in (1, 7):
        request = wire.ListOffsetsRequest(topics=[wire.ListOffsetsTopic(name=one.name), wire.ListOffsetsTopic(name=w.missing_topic().name)])
        w.say(request, version, label=f"ListOffsets v{version}")
    bare = topic_admin.DeleteRecordsRequest(topics=[topic_admin.DeleteRecordsTopic(name=one.name)], timeout_ms=TIMEOUT_MS)
    w.say(bare, 2, label="DeleteRecords")
    part = group_offsets.OffsetCommitRequestPartition(committed_offset=1)
    commits = [
        group_offsets.OffsetCommitRequestTopic(name=one.name),
        group_offsets.OffsetCommitRequestTopic(name=w.missing_topic().name),
        group_offsets.OffsetCommitRequestTopic(name=other.name, partitions=[part]),
    ]
    for version in (2, 9):
        for label, named in (("", commits[:2]), (" beside another", commits)):
            w.say(group_offsets.OffsetCommitRequest(group_id=group, topics=named), version, label=f"OffsetCommit v{version}{label}")
    deleted = group_offsets.OffsetDeleteRequest(group_id=group, topics=[group_offsets.OffsetDeleteRequestTopic(name=one.name)])
    w.say(deleted, 0, label="OffsetDelete")
    within = txn_offsets.TxnOffsetCommitRequest(
        transactional_id=w.fresh_name(),
        group_id=group,
        producer_id=w.pid(),
        topics=[txn_offsets.TxnOffsetCommitRequestTopic(name=one.name), txn_offsets.TxnOffsetCommitRequestTopic(name=other.name)],
    )
    for version in (2, 3):
        w.say(within, version, label=f"TxnOffsetCommit v{version}")


@case()
def partitions_of_a_produce(w: World) -> None:
    """The leader writes the last of several batches for one partition, and answers once. If one of them cannot be read, it writes none."""
    good, more, bad = plain(Rec(value=b"first")).encode(), plain(Rec(value=b"second")).encode(), b"\0" * 70
    for version in (3, 12):
        for label, several in {
            "two": [good, more],
            "a bad one first": [bad, good],
            "a bad one last": [good, bad],
        }.items():
            topic = w.topic()
            data = wire.TopicProduceData(name=topic.name, partition_data=[_data(each) for each in several])
            w.say(wire.ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data]), version, label=f"v{version} {label}")
            w.fetch(topic, 0, label=f"v{version} {label}: stored")
            topic = w.topic()
            topics = [wire.TopicProduceData(name=topic.name, partition_data=[_data(each)]) for each in several]
            w.say(wire.ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics), version, label=f"v{version} {label}, in topics")
            w.fetch(topic, 0, label=f"v{version} {label}, in topics: stored")
    topic, pid = w.topic(), w.pid()
    numbered = [_data(of(pid, 0, sequence).encode()) for sequence in range(2)]
    request = wire.ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[wire.TopicProduceData(name=topic.name, partition_data=numbered)])
    w.say(request, 12, label="two of one producer")
    w.fetch(topic, 0, label="two of one producer: stored")
    missing = wire.TopicProduceData(name=topic.name, partition_data=[_data(good, 7), _data(good, 7)])
    w.say(wire.ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[missing]), 12, label="no such partition")


@case()
def partitions_of_others(w: World) -> None:
    """DeleteRecords uses the last entry."""
    for offsets in ((1, 2), (2, 1), (9, 1), (1, 9)):
        topic = w.topic()
        w.produce(plain(Rec(), Rec(), Rec()), topic, label=f"{offsets} records")
        parts = [topic_admin.DeleteRecordsPartition(partition_index=0, offset=offset) for offset in offsets]
        twice = topic_admin.DeleteRecordsRequest(
            topics=[topic_admin.DeleteRecordsTopic(name=topic.name, partitions=parts)], timeout_ms=TIMEOUT_MS
        )
        w.say(twice, 2, label=f"{offsets}")
        w.list_offsets(topic, -2, label=f"{offsets} start")


@case()
def partitions_of_a_transaction(w: World) -> None:
    """A refusal contains each partition once."""
    topic, other = w.topic(), w.topic()
    for version in (4, 5):
        w.add_many((w.begun(), [(topic, [0, 7, 0]), (other, []), (topic, [7])], False), label=f"v{version}", version=version)


def _data(records: bytes, index: int = 0) -> wire.PartitionProduceData:
    return wire.PartitionProduceData(index=index, records=records)
