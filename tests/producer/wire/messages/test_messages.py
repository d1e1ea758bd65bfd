"""Messages: known bytes, values that a version cannot carry, nulls, unknown tags and codes, and records that are not copied."""

import tracemalloc
from typing import Any
from uuid import UUID

import pytest

from fencepost.producer.wire import (
    REQUESTS,
    RESPONSES,
    ZERO_UUID,
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeProducersRequest,
    FetchableTopicResponse,
    FetchResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    LeaderIdAndEpoch,
    Message,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseTopic,
    NodeEndpoint,
    PartitionData,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
    TopicRequest,
    UnsupportedFieldValue,
    UnsupportedVersion,
    WireStruct,
    decode,
    decode_request,
    decode_response,
    encode,
    encode_parts,
    encode_request,
    encode_response,
)
from fencepost.producer.wire.schema.declarations import Array, FieldSpec, Nested, Text, Uuid, describe
from fencepost.producer.wire.schema.fields import NEVER, Scalar, gathered
from fencepost.producer.wire.schema.runtime import uvarint
from tests.producer.wire.instances import EVERY, EVERY_ID

MIB = 1 << 20

FLEXIBLE = [(cls, version) for cls, version in EVERY if version >= cls.flexible]

UNKNOWN_TAG = bytes([0x05, 0x03]) + b"new"

REQUEST_VECTORS = [
    (
        ApiVersionsRequest(client_software_name="x", client_software_version="1"),
        (3, 1),
        "00000011 0012 0003 00000001 000163 00 0278 0231 00",
    ),
    (
        InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60000),
        (5, 2),
        "0000001d 0016 0005 00000002 000163 00 0274 0000ea60 ffffffffffffffff ffff 00",
    ),
    (
        ProduceRequest(
            transactional_id="t",
            acks=-1,
            timeout_ms=30000,
            topic_data=[TopicProduceData(name="a", partition_data=[PartitionProduceData(index=0, records=None)])],
        ),
        (12, 5),
        "00000020 0000 000c 00000005 000163 00 0274 ffff 00007530 02 0261 02 00000000 00 00 00 00",
    ),
]

RESPONSE_VECTORS = [
    (
        ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)]),
        (0, 1),
        "00000010 00000001 0023 00000001 0012 0000 0004",
    ),
    (
        InitProducerIdResponse(producer_id=1000, producer_epoch=0),
        (5, 2),
        "00000016 00000002 00 00000000 0000 00000000000003e8 0000 00",
    ),
    (
        ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name="a",
                    partition_responses=[
                        PartitionProduceResponse(error_code=6, base_offset=-1, current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=7))
                    ],
                )
            ],
            node_endpoints=[NodeEndpoint(node_id=2, host="h", port=9092)],
        ),
        (12, 5),
        "0000004a 00000005 00 02 0261 02 00000000 0006 ffffffffffffffff ffffffffffffffff ffffffffffffffff 01 00 01 00 09 00000002 00000007"
        " 00 00 00000000 01 00 0d 02 00000002 0268 00002384 00 00",
    ),
]


@pytest.mark.parametrize(("message", "version_and_id", "expected"), REQUEST_VECTORS, ids=lambda value: type(value).__name__)
def test_request_vectors(message: Message, version_and_id: tuple[int, int], expected: str) -> None:
    """Requests have exactly the bytes that another implementation decoded, and are read back from them."""
    version, correlation_id = version_and_id
    frame = bytes.fromhex(expected)
    assert b"".join(encode_request(message, version, correlation_id=correlation_id, client_id="c")) == frame
    header, body = decode_request(frame[4:])
    assert (header.api_key, header.api_version, header.correlation_id, header.client_id) == (message.api, version, correlation_id, "c")
    assert body == message


@pytest.mark.parametrize(("message", "version_and_id", "expected"), RESPONSE_VECTORS, ids=lambda value: type(value).__name__)
def test_response_vectors(message: Message, version_and_id: tuple[int, int], expected: str) -> None:
    """Responses have exactly the bytes that another implementation decoded, and are read back from them."""
    version, correlation_id = version_and_id
    frame = bytes.fromhex(expected)
    assert b"".join(encode_response(message, version, correlation_id=correlation_id)) == frame
    assert decode_response(frame[4:], message.api, version) == (correlation_id, message)


@pytest.mark.parametrize(("cls", "version"), EVERY, ids=EVERY_ID)
def test_a_value_that_the_version_cannot_carry(cls: type[Message], version: int) -> None:
    """A value in a field that the version lacks, at any depth, is refused by name, or dropped if the field is ignorable."""
    for where, field, message in _with_each(cls, version, lambda field: not field.present(version), _other_value):
        if field.ignorable:
            assert decode(cls, version, encode(message, version)) != message
        else:
            with pytest.raises(UnsupportedFieldValue, match=where):
                encode(message, version)


@pytest.mark.parametrize(("cls", "version"), EVERY, ids=EVERY_ID)
def test_a_null_that_the_version_cannot_carry(cls: type[Message], version: int) -> None:
    """Null in a field that is only nullable in later versions is refused by name. An allowed null is read back as null."""

    def may_be_null(field: FieldSpec) -> bool:
        return field.present(version) and field.nullable != NEVER

    for where, field, message in _with_each(cls, version, may_be_null, lambda field: None):
        if field.nullable_in(version):
            assert decode(cls, version, encode(message, version)) == message
        else:
            with pytest.raises(UnsupportedFieldValue, match=where):
                encode(message, version)


def test_a_number_out_of_range_is_refused() -> None:
    """A number wider than its field is never cut. The traceback shows the generated line that names the field."""
    with pytest.raises(UnsupportedFieldValue, match="ProduceRequest v9"):
        encode(ProduceRequest(acks=1 << 15), 9)


def test_text_that_no_string_carries_is_refused() -> None:
    """Text above 32767 bytes, counted in UTF-8, and lone surrogates are refused in both encodings."""
    longest = "é" * 16383 + "x"
    for version in (8, 9):
        assert decode(ProduceRequest, version, encode(ProduceRequest(transactional_id=longest), version)).transactional_id == longest
        for text in (longest + "x", "\ud800"):
            with pytest.raises(UnsupportedFieldValue):
                encode(ProduceRequest(transactional_id=text), version)


@pytest.mark.parametrize("cls", [*REQUESTS.values(), *RESPONSES.values()], ids=lambda cls: cls.__name__)
def test_only_spoken_versions_are_spoken(cls: type[Message]) -> None:
    """An unsupported version is refused in both directions."""
    for version in (cls.versions.start - 1, cls.versions.stop):
        with pytest.raises(UnsupportedVersion, match=cls.__name__):
            encode(cls(), version)
        with pytest.raises(UnsupportedVersion, match=cls.__name__):
            decode(cls, version, b"")


@pytest.mark.parametrize(("cls", "version"), FLEXIBLE, ids=[f"{cls.__name__}-v{version}" for cls, version in FLEXIBLE])
def test_unknown_tags_are_skipped(cls: type[Message], version: int) -> None:
    """A decoder skips a tag that a newer broker adds at the end of a message."""
    plain = encode(cls(), version)
    assert plain.endswith(b"\x00")
    assert decode(cls, version, plain[:-1] + b"\x01" + UNKNOWN_TAG) == cls()


def test_unknown_tags_are_skipped_between_known_ones_and_at_depth() -> None:
    """Unknown tags in nested structs, inside a tagged struct and among known tags leave every known value in place."""
    leader = bytes.fromhex("00 0e 00000002 00000007") + b"\x01" + UNKNOWN_TAG
    partition = bytes.fromhex("00000000 0006") + b"\xff" * 24 + b"\x01\x00" + b"\x02" + leader + UNKNOWN_TAG
    topic = b"\x02a" + b"\x02" + partition + b"\x02" + UNKNOWN_TAG + bytes([0xFF, 0x01, 0x00])
    endpoint = bytes.fromhex("00000002 0268 00002384 00") + b"\x01" + UNKNOWN_TAG
    endpoints = bytes([0x00, len(endpoint) + 1, 0x02]) + endpoint
    data = b"\x02" + topic + bytes(4) + b"\x02" + endpoints + UNKNOWN_TAG
    assert decode(ProduceResponse, 12, data) == RESPONSE_VECTORS[2][0]


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 128, 129, 16382, 16383, 16384])
def test_compact_lengths_of_every_width(size: int) -> None:
    """Text, arrays and records stay whole at sizes whose compact length, size plus one, takes a byte more."""
    length = bytes([size + 1]) if size < 127 else uvarint(size + 1)
    assert encode(InitProducerIdRequest(transactional_id="x" * size), 2) == length + b"x" * size + bytes(5)
    assert encode(_produce(b"r" * size), 9)[-size - len(length) - 3 :] == length + b"r" * size + bytes(3)
    topics = DescribeProducersRequest(topics=[TopicRequest(name="", partition_indexes=[7] * size)])
    assert encode(topics, 0) == b"\x02\x01" + length + (7).to_bytes(4, "big") * size + bytes(2)
    assert decode(DescribeProducersRequest, 0, encode(topics, 0)) == topics


def test_unknown_error_codes_are_values() -> None:
    """An error code from a newer broker arrives as its number."""
    message = InitProducerIdResponse(error_code=999)
    assert decode(InitProducerIdResponse, 5, encode(message, 5)).error_code == 999


def test_all_topics_are_null_or_an_empty_list() -> None:
    """In version 0 of Metadata an empty list means all topics, later null does, as in Kafka."""
    assert encode(MetadataRequest(topics=[]), 0) == bytes(4)
    with pytest.raises(UnsupportedFieldValue, match=r"MetadataRequest\.topics"):
        encode(MetadataRequest(topics=None), 0)
    assert encode(MetadataRequest(topics=None), 1) == b"\xff\xff\xff\xff"


def test_the_zero_id_is_one_object() -> None:
    """An absent topic id can be compared with `is`."""
    topic = MetadataResponseTopic(topic_id=UUID(int=0))
    message = decode(MetadataResponse, 12, encode(MetadataResponse(topics=[topic]), 12))
    assert message.topics[0].topic_id is ZERO_UUID


def test_arrays_may_be_any_sequence() -> None:
    """A tuple is written like a list, also if the version lacks the field."""
    request: Any = ProduceRequest(topic_data=())  # type: ignore[arg-type]
    assert encode(request, 9) == encode(ProduceRequest(), 9)
    response: Any = ProduceResponse(node_endpoints=())  # type: ignore[arg-type]
    assert encode(response, 12) == encode(response, 9) == encode(ProduceResponse(), 9)


@pytest.mark.parametrize("version", ProduceRequest.versions)
def test_large_records_are_not_copied_when_written(version: int) -> None:
    """Above 4 KiB the caller's own object is a part of the frame. Smaller records share one buffer with the bytes around them."""
    large, small = memoryview(bytearray(b"r" * MIB)), b"s" * 4096
    message = _produce(large, None, small, b"t" * 4097)
    for parts in (encode_parts(message, version), encode_request(message, version, correlation_id=1, client_id=None)):
        assert len(parts) == 5
        assert parts[1] is large
        assert parts[3] is message.topic_data[0].partition_data[3].records
        assert small in bytes(parts[2])
    assert b"".join(encode_parts(message, version)) == encode(message, version)
    assert decode(ProduceRequest, version, encode(message, version)) == (message if version < 13 else _nameless(message))


def test_records_may_be_any_buffer() -> None:
    """The written length is the number of bytes, for every item size of the buffer."""
    words = memoryview(b"\x01\x02\x03\x04" * 2000).cast("I")
    for records in (words, words[:5], bytearray(b"abc")):
        assert encode(_produce(records), 9) == encode(_produce(bytes(records)), 9)


@pytest.mark.parametrize("version", [0, 9, 13])
def test_records_are_views_when_produce_is_read(version: int) -> None:
    """Reading a Produce request of 1 MiB copies none of its records."""
    frame = encode(_produce(b"r" * MIB), version)
    message, used = _decode_traced(ProduceRequest, version, frame)
    records = message.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is frame
    assert records == b"r" * MIB
    assert used < 8192


@pytest.mark.parametrize("version", [0, 4, 12, 18])
def test_records_are_views_when_fetch_is_read(version: int) -> None:
    """Reading a Fetch response of 1 MiB copies none of its records, also when it arrived in a bytearray."""
    data = PartitionData(records=b"r" * MIB)
    plain = encode(FetchResponse(responses=[FetchableTopicResponse(partitions=[data])]), version)
    for frame in (plain, bytearray(plain)):
        message, used = _decode_traced(FetchResponse, version, frame)
        records = message.responses[0].partitions[0].records
        assert isinstance(records, memoryview)
        assert records.obj is frame
        assert records == b"r" * MIB
        assert used < 8192


def _decode_traced(cls: type[Any], version: int, frame: bytes | bytearray) -> tuple[Any, int]:
    """The message, and the peak of memory during decoding."""
    decode(cls, version, frame)  # compiles
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        message = decode(cls, version, frame)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return message, peak - before


@pytest.mark.parametrize("version", [3, 13])
@pytest.mark.parametrize("size", [0, 1, 100, 4_096, 4_097, 100_000])
def test_records_in_pieces(version: int, size: int) -> None:
    """Gathered records give the same bytes as records in one piece, and large ones are not copied."""
    whole = bytes(range(256)) * (size // 256 + 1)
    pieces = (whole[: size // 3], memoryview(whole)[size // 3 : size])
    message, single = _produce(gathered(pieces), b"next"), _produce(whole[:size], b"next")
    if version >= 13:
        message, single = _nameless(message), _nameless(single)
    assert encode(message, version) == encode(single, version)
    if size > 4_096:
        assert any(part is pieces[1] for part in encode_parts(message, version))


def _produce(*records: Any) -> ProduceRequest:
    """A Produce request with a partition for each of the records."""
    partitions = [PartitionProduceData(index=index, records=blob) for index, blob in enumerate(records)]
    return ProduceRequest(acks=-1, timeout_ms=30000, topic_data=[TopicProduceData(name="flights", partition_data=partitions)])


def _nameless(message: ProduceRequest) -> ProduceRequest:
    """The request without the topic names, which version 13 does not carry."""
    topics = [TopicProduceData(partition_data=topic.partition_data) for topic in message.topic_data]
    return ProduceRequest(acks=message.acks, timeout_ms=message.timeout_ms, topic_data=topics)


def _with_each(struct: type[WireStruct], version: int, wanted: Any, value: Any) -> list[tuple[str, FieldSpec, Any]]:
    """For each wanted field at any depth: its name for errors, its description, and an instance in which only that field has a value."""
    found = []
    for field in describe(struct):
        if wanted(field):
            found.append((f"{struct.__name__}.{field.name}", field, struct(**{field.name: value(field)})))
        inner = field.kind.element if isinstance(field.kind, Array) else field.kind
        if field.present(version) and isinstance(inner, Nested):
            for where, deeper, instance in _with_each(inner.struct, version, wanted, value):
                held = [instance] if isinstance(field.kind, Array) else instance
                found.append((where, deeper, struct(**{field.name: held})))
    return found


def _other_value(field: FieldSpec) -> Any:
    """A value that is not the field's default."""
    match field.kind:
        case Scalar(code="?"):
            return not field.default
        case Scalar():
            return 2 if field.default == 1 else 1
        case Text():
            return "x"
        case Uuid():
            return UUID(int=1)
        case Array(element=Nested(struct=struct)):
            return [struct()]
        case Array(element=Text()):
            return ["x"]
        case Array():
            return [1]
        case Nested(struct=struct):
            return _changed(struct)
    raise AssertionError(field)


def _changed(struct: type[WireStruct]) -> WireStruct:
    """An instance that is not the default one."""
    first = describe(struct)[0]
    return struct(**{first.name: _other_value(first)})
