"""Byte for byte against aiokafka in the versions that Kafka 3.9 has and Kafka 4 does not: both write the same bytes and read each other's.

aiokafka's classes are written by hand, one for each version, with their own names. This file maps this project's fields to them, because
two neighbouring fields of one type could be exchanged without notice. kafka-python's classes, from which aiokafka took its own, replace
missing ones.
"""

import io
from typing import Any

import hypothesis.strategies as st
import pytest
from aiokafka.protocol import admin, commit, fetch, offset, produce
from aiokafka.protocol.api import RequestHeader_v1, ResponseHeader_v0
from aiokafka.protocol.types import Array, Schema
from hypothesis import given, settings
from kafka.protocol.old import offset_for_leader_epoch
from kafka.protocol.old.types import Array as KafkaPythonArray
from kafka.protocol.old.types import Schema as KafkaPythonSchema
from msgspec.structs import replace

from fencepost.producer.wire import (
    Api,
    CreatableTopicResult,
    CreateTopicsResponse,
    FetchableTopicResponse,
    FetchResponse,
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    Message,
    PartitionData,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
    WireStruct,
    decode,
    encode,
)
from fencepost.producer.wire.schema.declarations import describe
from tests.producer.wire.effort import drawing
from tests.producer.wire.instances import OLDER, OLDER_ID, REMOVED, messages
from tests.producer.wire.messages.frames import check_body, check_frame

THEIRS = {
    Api.PRODUCE: (produce, "Produce"),
    Api.FETCH: (fetch, "Fetch"),
    Api.LIST_OFFSETS: (offset, "Offset"),
    Api.CREATE_TOPICS: (admin, "CreateTopics"),
    Api.DELETE_TOPICS: (admin, "DeleteTopics"),
    Api.DESCRIBE_CONFIGS: (admin, "DescribeConfigs"),
    Api.DESCRIBE_ACLS: (admin, "DescribeAcls"),
    Api.CREATE_ACLS: (admin, "CreateAcls"),
    Api.DELETE_ACLS: (admin, "DeleteAcls"),
    Api.OFFSET_COMMIT: (commit, "OffsetCommit"),
    Api.OFFSET_FETCH: (commit, "OffsetFetch"),
    Api.OFFSET_FOR_LEADER_EPOCH: (offset_for_leader_epoch, "OffsetForLeaderEpoch"),
}

ARRAYS, SCHEMAS = (Array, KafkaPythonArray), (Schema, KafkaPythonSchema)

NAMES = {
    "ProduceRequest": {"required_acks": "acks", "timeout": "timeout_ms", "topics": "topic_data"},
    "TopicProduceData": {"topic": "name", "partitions": "partition_data"},
    "PartitionProduceData": {"partition": "index", "messages": "records"},
    "ProduceResponse": {"topics": "responses"},
    "TopicProduceResponse": {"topic": "name", "partitions": "partition_responses"},
    "PartitionProduceResponse": {"partition": "index", "offset": "base_offset", "timestamp": "log_append_time_ms"},
    "FetchRequest": {"max_wait_time": "max_wait_ms"},
    "FetchPartition": {"offset": "fetch_offset", "max_bytes": "partition_max_bytes"},
    "FetchResponse": {"topics": "responses"},
    "FetchableTopicResponse": {"topics": "topic"},
    "PartitionData": {"partition": "partition_index", "highwater_offset": "high_watermark", "message_set": "records"},
    "ListOffsetsTopic": {"topic": "name"},
    "ListOffsetsPartition": {"partition": "partition_index", "max_offsets": "max_num_offsets"},
    "ListOffsetsTopicResponse": {"topic": "name"},
    "ListOffsetsPartitionResponse": {"partition": "partition_index", "offsets": "old_style_offsets"},
    "CreateTopicsRequest": {"create_topic_requests": "topics", "timeout": "timeout_ms"},
    "CreatableTopic": {"topic": "name", "replica_assignment": "assignments"},
    "CreatableReplicaAssignment": {"partition_id": "partition_index", "replicas": "broker_ids"},
    "CreatableTopicConfig": {"config_key": "name", "config_value": "value"},
    "CreateTopicsResponse": {"topic_errors": "topics"},
    "CreatableTopicResult": {"topic": "name"},
    "DeleteTopicsRequest": {"topics": "topic_names", "timeout": "timeout_ms"},
    "DeleteTopicsResponse": {"topic_error_codes": "responses"},
    "DeletableTopicResult": {"topic": "name"},
    "DescribeConfigsResource": {"config_names": "configuration_keys"},
    "DescribeConfigsResponse": {"resources": "results"},
    "DescribeConfigsResult": {"config_entries": "configs"},
    "DescribeConfigsResourceResult": {"config_names": "name", "config_value": "value"},
    "DescribeAclsRequest": {
        "resource_type": "resource_type_filter",
        "resource_name": "resource_name_filter",
        "principal": "principal_filter",
        "host": "host_filter",
    },
    "CreateAclsResponse": {"creation_responses": "results"},
    "DeleteAclsFilter": {
        "resource_type": "resource_type_filter",
        "resource_name": "resource_name_filter",
        "principal": "principal_filter",
        "host": "host_filter",
    },
    "DeleteAclsResponse": {"filter_responses": "filter_results"},
    "OffsetCommitRequest": {
        "consumer_group": "group_id",
        "consumer_group_generation_id": "generation_id_or_member_epoch",
        "consumer_id": "member_id",
    },
    "OffsetCommitRequestTopic": {"topic": "name"},
    "OffsetCommitRequestPartition": {
        "partition": "partition_index",
        "offset": "committed_offset",
        "timestamp": "commit_timestamp",
        "metadata": "committed_metadata",
    },
    "OffsetCommitResponseTopic": {"topic": "name"},
    "OffsetCommitResponsePartition": {"partition": "partition_index"},
    "OffsetFetchRequest": {"consumer_group": "group_id"},
    "OffsetFetchRequestTopic": {"topic": "name", "partitions": "partition_indexes"},
    "OffsetFetchResponseTopic": {"topic": "name"},
    "OffsetFetchResponsePartition": {"partition": "partition_index", "offset": "committed_offset"},
}
"""Struct -> aiokafka's name -> ours, where they differ."""

EXISTS = CreatableTopicResult(name="t0", error_code=36)
WHY = "Topic 't0' already exists."
WRITTEN = TopicProduceResponse(name="t0", partition_responses=[PartitionProduceResponse(base_offset=2)])
NOTHING_NEW = FetchableTopicResponse(topic="t", partitions=[PartitionData(high_watermark=1, records=b"")])
FOUND = ListOffsetsTopicResponse(name="t0", partitions=[ListOffsetsPartitionResponse(old_style_offsets=[9, 0])])
UNKNOWN = ListOffsetsTopicResponse(name="nope", partitions=[ListOffsetsPartitionResponse(error_code=3)])

ANSWERS: list[tuple[int, str, Message]] = [
    (0, "00000001 0002 7430 0024", CreateTopicsResponse(topics=[EXISTS])),
    (1, f"00000001 0002 7430 0024 001a {WHY.encode().hex()}", CreateTopicsResponse(topics=[replace(EXISTS, error_message=WHY)])),
    (0, "00000001 0002 7430 00000001 00000000 0000 0000000000000002", ProduceResponse(responses=[WRITTEN])),
    (1, "00000001 0002 7430 00000001 00000000 0000 0000000000000002 00000000", ProduceResponse(responses=[WRITTEN])),
    (2, "00000001 0002 7430 00000001 00000000 0000 0000000000000002 ffffffffffffffff 00000000", ProduceResponse(responses=[WRITTEN])),
    (0, "00000001 0001 74 00000001 00000000 0000 0000000000000001 00000000", FetchResponse(responses=[NOTHING_NEW])),
    (1, "00000000 00000001 0001 74 00000001 00000000 0000 0000000000000001 00000000", FetchResponse(responses=[NOTHING_NEW])),
    (3, "00000000 00000001 0001 74 00000001 00000000 0000 0000000000000001 00000000", FetchResponse(responses=[NOTHING_NEW])),
    (0, "00000001 0002 7430 00000001 00000000 0000 00000002 0000000000000009 0000000000000000", ListOffsetsResponse(topics=[FOUND])),
    (0, "00000001 0004 6e6f7065 00000001 00000000 0003 00000000", ListOffsetsResponse(topics=[UNKNOWN])),
]
"""Bodies that Apache Kafka 3.9.1 answered, in which version, to requests that were written here."""

quickly = drawing(20)


def test_all_of_them_are_compared() -> None:
    """Twenty versions, each in both directions. No version of Kafka 3.9 is left out."""
    assert len(OLDER) == 2 * sum(map(len, REMOVED.values())) == 40
    assert {cls.api for cls, _ in OLDER} == set(THEIRS)


@pytest.mark.parametrize(("cls", "version"), OLDER, ids=OLDER_ID)
def test_bodies_are_the_same_bytes(cls: type[Message], version: int) -> None:
    """aiokafka reads this project's bytes back to the same values and writes the same bytes, and the other way round."""
    theirs = aiokafka_class(cls, version)

    @quickly
    @given(messages(cls, version))
    def compare(ours: Message) -> None:
        values = _to_aiokafka(ours, version, theirs.SCHEMA)
        data = theirs(*values).encode()
        check_body(ours, version, data)
        stream = io.BytesIO(data)
        assert theirs.SCHEMA.decode(stream) == values
        assert stream.tell() == len(data)

    compare()


@pytest.mark.parametrize(("cls", "version"), OLDER, ids=OLDER_ID)
def test_frames_have_the_same_header(cls: type[Message], version: int) -> None:
    """Both headers are the oldest ones, with client ids of any text and null."""
    theirs: Any = aiokafka_class(cls, version)
    body = encode(cls(), version)

    @settings(quickly, max_examples=5)
    @given(st.integers(-(1 << 31), (1 << 31) - 1), st.none() | st.text(st.characters(codec="utf-8")))
    def compare(correlation_id: int, client_id: Any) -> None:
        asked = cls.is_request
        header = (
            RequestHeader_v1(theirs, correlation_id=correlation_id, client_id=client_id) if asked else ResponseHeader_v0(correlation_id)
        )
        check_frame(cls, version, header.encode() + body, correlation_id, client_id)

    compare()


@pytest.mark.parametrize(("version", "data", "message"), ANSWERS, ids=lambda value: str(value) if isinstance(value, int) else None)
def test_answers_of_apache_kafka(version: int, data: str, message: Message) -> None:
    """The responses of a broker of the last release with these versions are read correctly, and written in the same bytes."""
    assert decode(type(message), version, bytes.fromhex(data)) == message
    assert encode(message, version) == bytes.fromhex(data)


def aiokafka_class(cls: type[Message], version: int) -> Any:
    """aiokafka's class for this message and version. The class itself states both."""
    module, name = THEIRS[cls.api]
    theirs = getattr(module, f"{name}{'Request' if cls.is_request else 'Response'}_v{version}")
    said = (theirs.API_KEY, theirs.API_VERSION)
    assert said == (cls.api, version)
    return theirs


def _to_aiokafka(ours: WireStruct, version: int, schema: Any) -> tuple[Any, ...]:
    """Our values in the order of aiokafka's schema. A field that only one of the two has is an error."""
    renamed = NAMES.get(type(ours).__name__, {})
    names = [renamed.get(name, name) for name in schema.names]
    assert sorted(names) == sorted(field.name for field in describe(type(ours)) if field.present(version))
    return tuple(_value_to_aiokafka(getattr(ours, name), version, kind) for name, kind in zip(names, schema.fields, strict=True))


def _value_to_aiokafka(value: Any, version: int, kind: Any) -> Any:
    """One value in aiokafka's types: structs are tuples."""
    if isinstance(kind, ARRAYS) and isinstance(kind.array_of, SCHEMAS):
        return [_to_aiokafka(each, version, kind.array_of) for each in value]
    return value
