"""The leader's checks inside a batch: counts, records, keys and timestamps."""

from dataclasses import replace

from tests.conformance.batches import LOG_APPEND_TIME, Batch, Rec, now_ms, of, plain, record_bytes, stamp, varint
from tests.conformance.world import World, case

HOUR_MS = 3_600_000


@case("V6")
def counts_that_disagree(w: World) -> None:
    """lastOffsetDelta + 1, the count, and the number of records must be equal."""
    topic = w.topic()
    two = plain(Rec(), Rec())
    for delta, count in ((1, 1), (0, 2), (0, 1), (2, 3), (1, 3), (1, 0), (-1, 0), (1, -1), (-2, -1), (2**31 - 1, 2), (5, 6)):
        w.produce(replace(two, last_offset_delta=delta, count=count), topic, label=f"delta {delta} count {count}")
    w.produce(replace(plain(), records=(), last_offset_delta=-1, count=0), topic, label="no records, delta -1")
    w.produce(replace(plain(), records=(), last_offset_delta=0, count=0), topic, label="no records, delta 0")
    w.produce(replace(plain(), records=(), last_offset_delta=0, count=1), topic, label="no records, count 1")
    w.end_offset(topic)


@case("V9")
def malformed_records(w: World) -> None:
    """Records whose own lengths and counts are inconsistent."""
    topic = w.topic()
    body = plain(Rec()).records[0].encode(0, stamp())
    for label, batch in {
        "length one more": plain(Rec(length=len(body))),
        "length one less": plain(Rec(length=len(body) - 2)),
        "length 0": plain(Rec(length=0)),
        "length -1": plain(Rec(length=-1)),
        "length 2^31-1": plain(Rec(length=2**31 - 1)),
        "header count -1": plain(Rec(header_count=-1)),
        "header count 1": plain(Rec(header_count=1)),
        "header count 2^31-1": plain(Rec(header_count=2**31 - 1)),
        "null header key": plain(Rec(headers=[(None, b"x")])),
        "bytes after the headers": plain(Rec(tail=b"\0\0")),
        "null header value": plain(Rec(headers=[(b"h", None)])),
        "header key not UTF-8": plain(Rec(headers=[(b"\xff\xfe", b"x")])),
        "null key and value": plain(Rec(key=None, value=None)),
        "bytes after the last record": replace(plain(), payload=plain().records[0].encode(0, stamp()) + b"\0\0"),
        "key length -2": replace(plain(), payload=_raw(b"\0\0\0" + varint(-2) + varint(-1) + varint(0))),
        "key longer than the record": replace(plain(), payload=_raw(b"\0\0\0" + varint(50) + b"k" + varint(-1) + varint(0))),
        "value length -2": replace(plain(), payload=_raw(b"\0\0\0" + varint(-1) + varint(-2) + varint(0))),
        "varint of six bytes": replace(plain(), payload=b"\xff\xff\xff\xff\xff\x01" + b"\0" * 8),
        "record attributes 255": replace(plain(), payload=_raw(b"\xff\0\0" + varint(-1) + varint(-1) + varint(0))),
    }.items():
        w.produce(batch, topic, label=label)


@case("V9")
def offset_deltas_out_of_step(w: World) -> None:
    """Inner offsets other than 0, 1, 2."""
    topic = w.topic()
    for deltas in ((0, 0), (1, 0), (0, 2), (5, 6), (-1, 0)):
        batch = plain(*(Rec(offset_delta=delta) for delta in deltas))
        w.produce(batch, topic, label=str(deltas))
    w.fetch(topic, 0)


@case("V10")
def null_keys_on_a_compacted_topic(w: World) -> None:
    """The leader names every record without a key, and refuses the whole batch."""
    for policy in ("compact", "compact,delete"):
        topic = w.topic(config={"cleanup.policy": policy})
        batch = plain(Rec(), Rec(key=None), Rec(key=b""), Rec(key=None))
        for version in (7, 8, 12):
            w.produce(batch, topic, version=version, label=f"{policy} v{version}")
        w.produce(plain(Rec(value=None)), topic, label=f"{policy} tombstone")
        pid = w.pid()
        w.produce(Batch(records=[Rec(key=None)], pid=pid, epoch=0, sequence=0), topic, label=f"{policy} with a producer")
        w.produce(of(pid, 0, 5), topic, label=f"{policy} and no trace of it")
        w.end_offset(topic, label=f"{policy} end offset")


@case("V11")
def timestamps_out_of_range(w: World) -> None:
    """Older than before.max or newer than after.max: INVALID_TIMESTAMP, and the records."""
    config = {"message.timestamp.before.max.ms": "100000", "message.timestamp.after.max.ms": "100000"}
    topic = w.topic(config=config)
    now = now_ms()
    for label, *stamps in (
        ("old", now - 200_000),
        ("ahead", now + 200_000),
        ("both and a good one", now - 200_000, now, now + 200_000),
        ("within", now - 50_000, now + 50_000),
        ("none", -1),
        ("none and old", -1, now - 200_000),
        ("zero", 0),
        ("minus two", -2),
    ):
        w.produce(plain(*(Rec(timestamp=when) for when in stamps)), topic, label=str(label))
    w.end_offset(topic)


@case("V11")
def timestamps_by_default(w: World) -> None:
    """By default any past timestamp is valid, and a future one up to an hour."""
    topic = w.topic()
    now = now_ms()
    for label, when in (
        ("1970", 1000),
        ("in 50 minutes", now + HOUR_MS - 600_000),
        ("in 70 minutes", now + HOUR_MS + 600_000),
        ("none", -1),
        ("far future", 2**62),
    ):
        w.produce(plain(Rec(timestamp=when)), topic, label=label)


@case("V11", "V10")
def timestamp_and_key_both_wrong(w: World) -> None:
    """One record has no key, another one is too old: which error code the leader returns."""
    topic = w.topic(config={"cleanup.policy": "compact", "message.timestamp.before.max.ms": "100000"})
    old = now_ms() - 200_000
    w.produce(plain(Rec(key=None, timestamp=now_ms()), Rec(timestamp=old)), topic, label="key first")
    w.produce(plain(Rec(timestamp=old), Rec(key=None, timestamp=now_ms())), topic, label="timestamp first")
    w.produce(plain(Rec(key=None, timestamp=old)), topic, label="one record, both")


@case("V12")
def log_append_time_bit(w: World) -> None:
    """Which clients may set the timestamp type, and its effect."""
    for kind in ("CreateTime", "LogAppendTime"):
        topic = w.topic(config={"message.timestamp.type": kind})
        w.produce(plain(), topic, label=f"{kind} plain")
        w.produce(replace(plain(), attributes=LOG_APPEND_TIME), topic, label=f"{kind} bit set")
        w.produce(replace(plain(Rec(timestamp=-1)), attributes=LOG_APPEND_TIME), topic, label=f"{kind} bit set, no timestamp")
        w.produce(plain(Rec(timestamp=-1)), topic, label=f"{kind} no timestamp")
        w.fetch(topic, 0, label=f"{kind} stored")


@case()
def a_wrong_maximum_timestamp_is_corrected(w: World) -> None:
    """The leader writes the records' own maximum into the header."""
    topic = w.topic()
    when = stamp()
    w.produce(replace(plain(Rec(timestamp=when)), max_timestamp=when + 5000), topic, label="too high")
    w.produce(replace(plain(Rec(timestamp=when)), max_timestamp=5), topic, label="too low")
    w.fetch(topic, 0)


@case()
def descending_timestamps(w: World) -> None:
    """The first record's timestamp is the base, even if later ones are smaller."""
    topic = w.topic()
    when = stamp()
    w.produce(plain(Rec(timestamp=when), Rec(timestamp=when - 500), Rec(timestamp=when + 10)), topic, label="down and up")
    w.fetch(topic, 0)


@case()
def unknown_attribute_bits(w: World) -> None:
    """Attribute bits without a meaning: whether the leader accepts, keeps or clears them."""
    topic = w.topic()
    for attributes in (0x40, 0x80, 0x100, 0x7F00 - 0x8000 + 0x100):
        w.produce(replace(plain(), attributes=attributes), topic, label=hex(attributes))
    w.fetch(topic, 0)


@case()
def record_bytes_survive(w: World) -> None:
    """Null and empty keys and values, headers with equal keys, and records of every size come back byte for byte."""
    records = [
        Rec(key=None, value=b""),
        Rec(key=b"", value=None),
        Rec(headers=[(b"h", b"1"), (b"h", None), (b"", b"")]),
        Rec(value=b"x" * 5000),
        *(Rec(value=b"y" * size) for size in (62, 63, 64, 65)),
    ]
    topic = w.topic()
    batch = plain(*records)
    w.produce(batch, topic, label="odd records")
    stored = w.fetch_bytes(topic, 0)
    w.note("bytes from the CRC on are unchanged", str(stored[17:] == batch.encode()[17:]))
    w.note("records are unchanged", str(stored[61:] == record_bytes(records, stamp())))


def _raw(body: bytes) -> bytes:
    return varint(len(body)) + body
