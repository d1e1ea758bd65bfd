"""Checks of a Produce request before its records: the request and the header of its batch."""

import struct
import zlib
from dataclasses import replace

from tests.conformance.batches import CONTROL, TRANSACTIONAL, Rec, of, plain
from tests.conformance.world import World, case


@case()
def acks_outside_the_three(w: World) -> None:
    """With acks other than -1, 0 and 1 the leader refuses every partition and appends nothing."""
    topic = w.topic(partitions=2)
    for acks in (2, -2, 127, 32767, -32768):
        w.produce_many([(topic, 0, plain().encode()), (topic, 1, plain().encode())], acks=acks, label=f"acks {acks}")
    w.end_offset(topic)


@case()
def acks_one_and_all(w: World) -> None:
    """acks 1 and -1 have the same response."""
    topic = w.topic()
    w.produce(plain(), topic, acks=1, label="acks 1")
    w.produce(plain(), topic, acks=-1, label="acks -1")


@case()
def acks_zero_is_never_answered(w: World) -> None:
    """acks 0 has no response. The next response on the connection belongs to the next request, and the records are in the log."""
    topic = w.topic()
    w.produce_unanswered(plain(), topic, label="good")
    w.end_offset(topic)


@case()
def acks_zero_closes_the_connection_on_an_error(w: World) -> None:
    """With acks 0 the leader can report an error only by closing the connection."""
    topic = w.topic()
    w.produce_unanswered(plain(), w.missing_topic(), label="unknown topic")
    w.produce_unanswered(replace(plain(), crc=1), topic, label="wrong crc")
    w.produce_unanswered(of(w.pid(), 0, -1), topic, label="pid without sequence")
    pid = w.pid()
    w.produce_unanswered(of(pid, 0, 0), topic, label="sequence 0")
    w.produce_unanswered(of(pid, 0, 0), topic, label="duplicate")
    w.produce_unanswered(of(pid, 0, 5), topic, label="gap")
    w.end_offset(topic)


@case("V1")
def not_exactly_one_batch(w: World) -> None:
    """No batch, two batches, a part of one: each partition must have exactly one."""
    topic = w.topic()
    w.produce(b"", topic, label="empty")
    w.produce(plain().encode() * 2, topic, label="two batches")
    w.produce(plain().encode() + b"\0", topic, label="a byte more")
    w.produce(plain().encode() + plain().encode()[:40], topic, label="and a part of another")
    w.produce(plain().encode()[:-1], topic, label="a byte less")
    w.produce(plain().encode()[:30], topic, label="half a header")
    w.produce(b"\0" * 11, topic, label="eleven zero bytes")
    w.produce(b"\0" * 80, topic, label="eighty zero bytes")
    w.end_offset(topic)


@case("V1")
def magic_other_than_two(w: World) -> None:
    """The leader accepts only record format v2."""
    topic = w.topic()
    for magic in (0, 1, 3, 127, -1):
        w.produce(replace(plain(), magic=magic), topic, label=f"magic {magic}")


@case("V1")
def real_old_messages(w: World) -> None:
    """The leader also refuses a well-formed message of format v1."""
    body = struct.pack(">bbq", 1, 0, 1000) + struct.pack(">i", 1) + b"k" + struct.pack(">i", 1) + b"v"
    message = struct.pack(">I", zlib.crc32(body)) + body
    w.produce(struct.pack(">qi", 0, len(message)) + message, w.topic(), label="message format 1")


@case("V3")
def base_offset_is_the_brokers_to_give(w: World) -> None:
    """The leader refuses a batch with its own base offset."""
    topic = w.topic()
    for offset in (1, -1, 2**40):
        w.produce(replace(plain(), base_offset=offset), topic, label=f"base offset {offset}")


@case()
def leader_epoch_in_the_batch_is_ignored(w: World) -> None:
    """The field is outside the CRC, and the leader overwrites it."""
    topic = w.topic()
    for epoch in (-1, 0, 99):
        w.produce(replace(plain(), leader_epoch=epoch), topic, label=f"leader epoch {epoch}")
    w.fetch(topic, 0)


@case()
def unknown_topics_and_partitions(w: World) -> None:
    """The topic or partition does not exist. A valid one in the same request is appended all the same."""
    topic = w.topic()
    data = plain().encode()
    missing = w.missing_topic()
    for version in (3, 9, 12):
        w.produce(data, missing, version=version, label=f"v{version} unknown topic")
        w.produce(data, topic, partition=1, version=version, label=f"v{version} unknown partition")
        w.produce(data, topic, partition=-1, version=version, label=f"v{version} negative partition")
    w.produce_many([(missing, 0, data), (topic, 0, data), (topic, 1, data)], label="one of three is good")
    w.end_offset(topic)


@case()
def unknown_topic_ids(w: World) -> None:
    """From version 13 on a topic has an id instead of its name. An unknown id has its own error code."""
    topic = w.topic()
    data = plain().encode()
    w.produce(data, w.missing_topic(), version=13, label="unknown id")
    w.produce(data, w.missing_topic(zero_id=True), version=13, label="zero id")
    w.produce(data, topic, partition=1, version=13, label="unknown partition")
    w.produce(data, topic, version=13, label="good")


@case()
def an_invalid_topic_name(w: World) -> None:
    """Produce does not check names: an illegal name is an unknown topic."""
    for name in ("", "..", "a b"):
        w.produce(plain(), w.missing_topic(name=name), label=repr(name))


@case()
def an_empty_request(w: World) -> None:
    """A request without topics is answered at once, without an error."""
    topic = w.topic()
    w.produce_many([], label="no topics")
    w.produce_no_partitions(topic, label="no partitions")


@case()
def one_partition_twice_in_one_request(w: World) -> None:
    """A request with two entries for one partition."""
    topic = w.topic()
    w.produce_many([(topic, 0, plain().encode()), (topic, 0, plain(Rec(), Rec()).encode())], label="twice")
    w.end_offset(topic)


@case("V5")
def wrong_crc(w: World) -> None:
    """The leader detects damage by the CRC alone."""
    topic = w.topic()
    good = plain().encode()
    w.produce(replace(plain(), crc=0), topic, label="crc 0")
    w.produce(good[:-1] + bytes([good[-1] ^ 1]), topic, label="a bit of the records")
    w.produce(good[:22] + bytes([good[22] ^ 8]) + good[23:], topic, label="a bit of the attributes")
    pid = w.pid()
    w.produce(of(pid, 0, 0), topic, label="good")
    w.produce(replace(of(pid, 0, 0), crc=7), topic, label="a damaged duplicate")


@case("V5")
def batch_length_that_lies(w: World) -> None:
    """A length that is shorter or longer than the bytes."""
    topic = w.topic()
    size = len(plain().encode()) - 12
    for length in (size - 1, size + 1, 48, 49, 13, 0, -1, 2**31 - 1):
        label = f"size{length - size:+d}" if abs(length - size) < 2 else str(length)
        w.produce(replace(plain(), length=length), topic, label=label)


@case("V4")
def too_large(w: World) -> None:
    """max.message.bytes applies to the whole batch: a batch at the limit is accepted, one byte more is refused."""
    topic = w.topic(config={"max.message.bytes": "200"})
    for extra in (0, 1):
        # The two lengths in front of a record this large take two bytes each, where those of an empty one take one.
        batch = plain(Rec(value=b"x" * (200 + extra - len(plain(Rec(value=b"")).encode()) - 2)))
        assert len(batch.encode()) == 200 + extra, len(batch.encode())
        w.produce(batch, topic, label=f"{200 + extra} bytes")
    w.produce(replace(plain(Rec(value=b"x" * 300)), crc=1), topic, label="too large and damaged")


@case("V4")
def too_large_by_default(w: World) -> None:
    """The default limit is 1,048,588 bytes."""
    topic = w.topic()
    overhead = len(plain(Rec(value=b"x" * 1_000_000)).encode()) - 1_000_000
    for size in (1_048_588, 1_048_589):
        w.produce(plain(Rec(value=b"x" * (size - overhead))), topic, label=f"{size} bytes")


@case("V7")
def control_batches_are_the_brokers(w: World) -> None:
    """A client may not write a marker."""
    topic = w.topic()
    key, value = struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 0)
    marker = plain(Rec(key=key, value=value))
    w.produce(replace(marker, attributes=CONTROL), topic, label="control")
    w.produce(replace(marker, attributes=CONTROL, pid=w.pid(), epoch=0, sequence=0), topic, label="control with a producer")
    w.produce(replace(marker, attributes=CONTROL, pid=w.pid(), epoch=0, sequence=-1), topic, label="control, no sequence")


@case()
def transactional_without_a_transaction(w: World) -> None:
    """A transactional batch needs a transactional id in the request."""
    topic = w.topic(partitions=2)
    batch = replace(of(w.pid(), 0, 0), attributes=TRANSACTIONAL)
    w.produce(batch, topic, label="no transactional id")
    w.produce_many([(topic, 0, batch.encode()), (topic, 1, plain().encode())], label="beside a plain one")
    w.produce(replace(plain(), attributes=TRANSACTIONAL), topic, label="nor a producer")
    w.produce(plain(), topic, transactional_id="unused", label="a transactional id and a plain batch")
    w.end_offset(topic, partition=1)


@case("V8")
def a_producer_without_a_sequence(w: World) -> None:
    """With a producer id the sequence must not be negative."""
    topic = w.topic()
    for sequence in (-1, -2, -(2**31)):
        w.produce(of(w.pid(), 0, sequence), topic, label=f"sequence {sequence}")
    w.produce(replace(plain(), sequence=5), topic, label="a sequence and no producer")
    w.produce(replace(plain(), epoch=3), topic, label="an epoch and no producer")
    w.describe(topic)


@case()
def internal_topics_are_not_for_clients(w: World) -> None:
    """Only the client id of the admin client may write to the offsets topic."""
    w.coordinator(0, "any")
    w.produce(plain(), w.known_topic("__consumer_offsets"), label="__consumer_offsets")
