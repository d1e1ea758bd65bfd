"""Each way in which bytes can break the layout of a message, one by one."""

import pytest

from fencepost.producer.wire import (
    Api,
    ApiVersionsRequest,
    DescribeProducersRequest,
    FetchRequest,
    InitProducerIdRequest,
    ListOffsetsResponse,
    Malformed,
    MetadataRequest,
    ProduceRequest,
    ProduceResponse,
    decode,
    encode,
)
from fencepost.producer.wire.message import M


def refuse(cls: type[M], version: int, data: str, offset: int, reason: str) -> None:
    """The hex data must be refused at that offset, for that reason."""
    with pytest.raises(Malformed, match=reason) as caught:
        decode(cls, version, bytes.fromhex(data))
    assert (caught.value.api, caught.value.version, caught.value.offset) == (cls.api, version, offset)


def test_text_that_is_not_utf8() -> None:
    """Bad UTF-8 is refused in both encodings: a continuation byte, an overlong form, a surrogate, a byte that never occurs."""
    for text in ("80", "c080", "eda080", "ff"):
        size = len(text) // 2
        refuse(ApiVersionsRequest, 3, f"{size + 1:02x}{text}0100", 1, "not UTF-8")
        refuse(InitProducerIdRequest, 1, f"{size:04x}{text}00000000", 2, "not UTF-8")


def test_negative_lengths_and_counts() -> None:
    """-1 is null, where null is allowed. Every other negative number is refused."""
    refuse(InitProducerIdRequest, 1, "fffe 00000000", 2, "length -2")
    refuse(MetadataRequest, 0, "ffffffff", 4, "of -1 elements")
    refuse(MetadataRequest, 1, "fffffffe", 4, "of -2 elements")
    refuse(ProduceRequest, 3, "ffff 0001 00000000 00000001 0000 00000001 00000000 fffffffe", 26, "length -2")
    refuse(ProduceRequest, 0, "0001 00000000 00000001 0000 00000001 00000000 fffffffe", 24, "length -2")
    refuse(ListOffsetsResponse, 0, "00000001 0000 00000001 00000000 0000 ffffffff", 20, "of -1 elements")
    assert decode(InitProducerIdRequest, 1, bytes.fromhex("ffff 00000000")).transactional_id is None


def test_null_where_nothing_is_nullable() -> None:
    """The compact null, a zero, is refused for strings and arrays that are never null."""
    refuse(ApiVersionsRequest, 3, "00 02 31 00", 1, "length -1")
    refuse(DescribeProducersRequest, 0, "00 00", 1, "of -1 elements")


def test_lengths_past_the_end() -> None:
    """A length above the remaining bytes is refused before anything is read."""
    refuse(ApiVersionsRequest, 3, "0478 00", 1, "length 3 where 2 bytes are left")
    refuse(InitProducerIdRequest, 1, "7fff 00", 2, "length 32767 where 1 byte is left")
    refuse(ProduceRequest, 3, "ffff 0001 00000000 00000001 0000 00000001 00000000 7fffffff", 26, "length 2147483647")
    refuse(ProduceRequest, 0, "0001 00000000 00000001 0000 00000001 00000000 7fffffff", 24, "length 2147483647")


def test_counts_that_cannot_fit() -> None:
    """The decoder compares a count with the fewest bytes of its elements, so a claim of two billion elements costs nothing."""
    refuse(MetadataRequest, 1, "7fffffff", 4, "2147483647 elements in 0 bytes")
    refuse(MetadataRequest, 1, "00000003 0000 0000", 4, "3 elements in 4 bytes")
    refuse(DescribeProducersRequest, 0, "02 0261 ffffffff07 00", 8, "2147483646 elements in 1 byte")
    refuse(ListOffsetsResponse, 0, "00000001 0000 00000001 00000000 0000 00000002 0000000000000001", 20, "2 elements in 8 bytes")
    partitions_of_four_bytes = "02 0261 04 00000001 00000002 0000"
    refuse(DescribeProducersRequest, 0, partitions_of_four_bytes, 4, "3 elements in 10 bytes")


def test_text_above_the_limit_of_kafka() -> None:
    """Both encodings carry at most 32767 bytes of text, although a compact string could be longer."""
    refuse(ApiVersionsRequest, 3, "818002" + "78" * 32768 + "0100", 3, "length 32768")
    assert len(decode(ApiVersionsRequest, 3, bytes.fromhex("808002" + "78" * 32767 + "0100")).client_software_name) == 32767


def test_varints_that_do_not_end() -> None:
    """More than five bytes or more than 31 bits are refused. A longer form than needed is read, as in Kafka."""
    refuse(ApiVersionsRequest, 3, "80808080808001", 0, "more than five bytes")
    refuse(ApiVersionsRequest, 3, "ffffffff0f", 0, "above 31 bits")
    refuse(ApiVersionsRequest, 3, "8080", 1, "ends too early")
    refuse(ApiVersionsRequest, 3, "01 01 808080808000", 2, "more than five bytes")
    assert decode(ApiVersionsRequest, 3, bytes.fromhex("8280808000 78 0100")).client_software_name == "x"


def test_trailing_bytes() -> None:
    """A message ends where its data ends."""
    for cls, version in ((ApiVersionsRequest, 0), (ApiVersionsRequest, 3), (ProduceRequest, 0), (ProduceRequest, 8), (ProduceResponse, 12)):
        data = encode(cls(), version)
        refuse(cls, version, data.hex() + "00", len(data), "1 byte too many")


def test_tag_buffers() -> None:
    """Counts and sizes of tags are compared with the remaining bytes. A known tag must be exactly as long as its value."""
    body = encode(FetchRequest(), 15)[:-1].hex()
    size = len(body) // 2
    refuse(FetchRequest, 15, body + "ffffffff07", size + 5, "2147483647 tags in 0 bytes")
    refuse(ApiVersionsRequest, 3, "0101 7f 0000", 3, "127 tags in 2 bytes")
    refuse(FetchRequest, 15, body + "01 09 7f", size + 3, "a tag of 127 bytes where 0 are left")
    refuse(FetchRequest, 15, body + "01 01 0e 00000001 0000000000000002 00 00", size + 16, "does not fill its tag")
    refuse(FetchRequest, 15, body + "02 01 0c 00000001 0000000000000002 00 00", size + 16, "does not fill its tag")
    refuse(FetchRequest, 15, body + "01 00 01 0261", size + 5, "does not fill its tag")
    assert decode(FetchRequest, 15, bytes.fromhex(body + "01 01 0d 00000001 0000000000000002 00")).replica_state.replica_epoch == 2


def test_the_error_says_what_and_where() -> None:
    """The text is enough for a log line: API, version, item and offset."""
    with pytest.raises(Malformed) as caught:
        decode(ProduceRequest, 3, bytes.fromhex("ffff 0001 00000000 00000001 0009 61 00000000"))
    assert str(caught.value) == "PRODUCE v3: TopicProduceData.name of length 9 where 5 bytes are left at byte 14"
    assert caught.value.api is Api.PRODUCE
