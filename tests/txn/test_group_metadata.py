"""Group metadata: the objects of Python's consumers are read as they are, and everything else is refused."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import confluent_kafka
import kafka
import pytest
from kafka.structs import ConsumerGroupMetadata

from fencepost.broker_stub import BrokerStub
from fencepost.txn.group_metadata import TAG, GroupMetadata, read_confluent, read_group
from tests.waiting import until


def written(generation: int, group: str, member: str, instance: str | None) -> bytes:
    """As librdkafka writes it."""
    last = b"\1" if instance is None else b"\0" + instance.encode() + b"\0"
    return TAG + generation.to_bytes(4, sys.byteorder, signed=True) + group.encode() + b"\0" + member.encode() + b"\0" + last


@pytest.fixture(scope="module")
def stub() -> Iterator[BrokerStub]:
    with BrokerStub() as stub:
        stub.create_topic("t", partitions=1)
        yield stub


@pytest.mark.parametrize("instance", [None, "machine-7"])
def test_confluents_bytes(stub: BrokerStub, instance: str | None) -> None:
    """Before a consumer joins, its metadata has no member and no generation. Afterwards it has the member, its generation and its instance
    id, as the group's coordinator knows them."""
    settings: dict[str, str | int] = {"bootstrap.servers": stub.bootstrap, "group.id": f"grüppe-{instance}"}
    consumer = confluent_kafka.Consumer(settings if instance is None else {**settings, "group.instance.id": instance})
    try:
        before = read_group(consumer.consumer_group_metadata())
        assert before == GroupMetadata(f"grüppe-{instance}", 0, "", instance)
        consumer.subscribe(["t"])
        until(lambda: consumer.poll(0.05) or consumer.assignment(), "the consumer has joined", timeout_s=60.0)
        joined = read_group(consumer.consumer_group_metadata())
    finally:
        consumer.close()
    assert (joined.group_id, joined.generation_id, joined.group_instance_id) == (f"grüppe-{instance}", 1, instance)
    assert joined.member_id


def test_kafka_pythons_metadata(stub: BrokerStub) -> None:
    """Its named tuple is read by its names; one of a consumer without a group is refused."""
    consumer = kafka.KafkaConsumer(bootstrap_servers=stub.bootstrap, group_id="theirs", group_instance_id="one")
    try:
        assert read_group(consumer.group_metadata()) == GroupMetadata("theirs", 0, "", "one")
    finally:
        consumer.close()
    assert read_group(ConsumerGroupMetadata("g", 7, "member")) == GroupMetadata("g", 7, "member")
    with pytest.raises(ValueError, match="group_id=None: the consumer has no group"):
        read_group(ConsumerGroupMetadata(None))


@pytest.mark.parametrize(
    "metadata", [GroupMetadata("g", 3, "m", "i"), GroupMetadata("g", 0, "", "i"), GroupMetadata("g", -1, "m"), GroupMetadata("g", 0)]
)
def test_bytes_there_and_back(metadata: GroupMetadata) -> None:
    """Every field survives. Every text that is shorter or longer is refused."""
    raw = written(metadata.generation_id, metadata.group_id, metadata.member_id, metadata.group_instance_id)
    assert read_group(raw) == read_group(bytearray(raw)) == metadata
    for wrong in [raw[:length] for length in range(len(TAG), len(raw))] + [raw + b"\0", raw + b"x"]:
        with pytest.raises(ValueError, match="ends too early or too late"):
            read_confluent(wrong)


@pytest.mark.parametrize("generation", [-1, 0, 7])
@pytest.mark.parametrize("instance", [None, "i"])
def test_a_consumer_that_is_no_member(generation: int, instance: str | None) -> None:
    """A consumer that is no member may still name a generation, which the coordinator has to check and cannot know. Only a GroupMetadata
    says that the coordinator has to check nothing."""
    assert read_group(written(generation, "g", "", instance)) == GroupMetadata("g", 0, "", instance)
    assert read_group(ConsumerGroupMetadata("g", generation, "", instance)) == GroupMetadata("g", 0, "", instance)
    assert GroupMetadata("g", 0).named
    assert not GroupMetadata("g").named


def test_other_bytes() -> None:
    """Another tag is named, and what to pass instead; so are ids that are no text."""
    with pytest.raises(ValueError, match=r"begins with b'CGMDv3:'.* begins with b'CGMDv2:'; pass GroupMetadata\("):
        read_group(b"CGMDv3:" + written(1, "g", "m", None)[7:])
    with pytest.raises(ValueError, match="no UTF-8"):
        read_group(written(1, "g", "m", None).replace(b"g\0", b"\xff\0"))


@pytest.mark.parametrize(
    ("group", "kind", "words"),
    [
        ("orders", TypeError, r"a name alone does not exclude a member.*GroupMetadata\('orders'\)"),
        (None, TypeError, "group is a NoneType, which names no group: pass GroupMetadata"),
        (7, TypeError, "group is a int, which names no group"),
    ],
)
def test_what_is_no_metadata(group: object, kind: type[Exception], words: str) -> None:
    """The error says what to pass."""
    with pytest.raises(kind, match=words):
        read_group(group)


def test_a_consumer_instead_of_its_metadata(stub: BrokerStub) -> None:
    """The error names the call that gives it."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": stub.bootstrap, "group.id": "g"})
    try:
        with pytest.raises(TypeError, match=r"group is a Consumer: pass what its consumer_group_metadata\(\) returns"):
            read_group(consumer)
    finally:
        consumer.close()


@pytest.mark.parametrize(
    ("fields", "kind", "words"),
    [
        (("",), ValueError, "group_id=''"),
        ((b"g",), TypeError, "group_id=b'g': a str is wanted, not bytes"),
        (("g", 1), ValueError, "generation_id=1 and member_id='': a generation is a member's"),
        (("g", -2, "m"), ValueError, "generation_id=-2: from -1"),
        (("g", 2**31, "m"), ValueError, "to 2147483647"),
        (("g", True, "m"), TypeError, "generation_id=True"),
        (("g", 1, None), TypeError, "member_id=None"),
        (("g", 1, "m", 5), TypeError, "group_instance_id=5"),
    ],
)
def test_metadata_that_cannot_be(fields: tuple[object, ...], kind: type[Exception], words: str) -> None:
    """Each field is checked where it is given, not by a coordinator later."""
    with pytest.raises(kind, match=words):
        GroupMetadata(*fields)  # type: ignore[arg-type] # wrong on purpose


@pytest.mark.parametrize("field", ["group_id", "member_id", "group_instance_id"])
@pytest.mark.parametrize(
    ("text", "words"), [("a\ud800", "cannot be encoded as UTF-8: surrogates not allowed"), ("ä" * 16_384, "32768 bytes are too long")]
)
def test_names_that_no_request_carries(field: str, text: str, words: str) -> None:
    """They are refused in the program's call, because on the sender thread they would end the producer."""
    with pytest.raises(ValueError, match=rf"{field}=.*{words}"):
        GroupMetadata(**{"group_id": "g", field: text})  # type: ignore[arg-type]  # each field is a text
