"""What a leader refuses before it looks at the producer, with the code for it, and what it writes into a batch that it takes."""

from __future__ import annotations

from collections.abc import Callable
from struct import pack_into

import pytest

from fencepost.broker_stub.log import AppendRefused, LogConfig, Origin, TimestampType
from fencepost.producer.wire.codes import ErrorCode
from fencepost.producer.wire.records import Codec, check_crc, compress, encode_batch, read_header, read_records
from fencepost.producer.wire.records.batch_header import compute_crc, pack_batch
from tests.broker_stub.log.log_tools import NOW, Again, data, marker, open_log, plain, produce, refusal, stored_header

HOUR = 3_600_000
TIMESTAMP_MAX = 2**63 - 1
RECORDS = encode_batch([(NOW, b"k", b"v"), (NOW + 5, b"k", b"w")])[61:]

INVALID = ErrorCode.INVALID_RECORD
CORRUPT = ErrorCode.CORRUPT_MESSAGE


def raw(payload: bytes = RECORDS, **fields: int) -> bytes:
    """A batch of two records whose header says what the test wants, with the right checksum."""
    header = {
        "attributes": 0,
        "last_offset_delta": 1,
        "base_timestamp": NOW,
        "max_timestamp": NOW + 5,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "records_count": 2,
    }
    return pack_batch(payload, **(header | fields))


def patched(batch: bytes, at: int, layout: str, value: int, *, crc: bool = False) -> bytes:
    changed = bytearray(batch)
    pack_into(layout, changed, at, value)
    if crc:
        pack_into(">I", changed, 17, compute_crc(changed))
    return bytes(changed)


@pytest.mark.parametrize(
    ("rule", "batch", "code"),
    [
        ("V1", b"", INVALID),
        ("V1", raw()[:-1], INVALID),  # no complete batch
        ("V1", raw()[:16], INVALID),
        ("V1", raw() + raw(), INVALID),
        ("V1", patched(raw(), 16, ">b", 1), INVALID),
        ("V1", patched(raw(), 16, ">b", 0), INVALID),
        ("V3", patched(raw(), 0, ">q", 1), INVALID),
        ("V3", patched(raw(), 0, ">q", -1), INVALID),
        ("V5", patched(raw(), 16, ">b", 3), CORRUPT),
        ("V5", patched(raw(), 8, ">i", 48), CORRUPT),
        ("V5", patched(raw(), 8, ">i", -1), CORRUPT),
        ("V5", patched(raw(), 17, ">I", 0), CORRUPT),
        ("V5", patched(raw(), 30, ">b", 77), CORRUPT),
        ("V5", raw()[:-1] + b"\x01", CORRUPT),
        ("V6", raw(last_offset_delta=-1), INVALID),
        ("V6", raw(last_offset_delta=2), INVALID),
        ("V6", raw(last_offset_delta=0), INVALID),
        ("V6", raw(b"", records_count=0, last_offset_delta=-1), INVALID),
        ("V6", raw(records_count=-1, last_offset_delta=-2), INVALID),
        ("V6", raw(records_count=-1), INVALID),
        ("V7", raw(attributes=0x20), INVALID),
        ("V7", marker(7, 0), INVALID),
        ("V8", raw(producer_id=7, producer_epoch=0, base_sequence=-1), INVALID),
        ("V8", raw(producer_id=0, producer_epoch=0, base_sequence=-1), INVALID),
        ("V9", raw(RECORDS + b"\x00"), INVALID),
        ("V9", raw(RECORDS[:-1]), INVALID),
        ("V9", raw(last_offset_delta=0, records_count=1), INVALID),
        ("V9", raw(last_offset_delta=2, records_count=3), INVALID),
        ("V9", raw(compress(Codec.LZ4, RECORDS[:-1]), attributes=3), INVALID),
        ("V9", raw(compress(Codec.LZ4, RECORDS[:-1] + b"\x04\x02h\x7e"), attributes=3), INVALID),
        ("V9", raw(b"\x80\x80\x80\x80\x80\x00" + RECORDS), ErrorCode.UNKNOWN_SERVER_ERROR),
        ("V9", raw(compress(Codec.LZ4, b"\x80\x80\x80\x80\x80\x00" + RECORDS), attributes=3), INVALID),
        ("V9", raw(attributes=3), ErrorCode.UNKNOWN_SERVER_ERROR),  # what Kafka says when a codec throws
        ("V9", raw(attributes=5), ErrorCode.UNKNOWN_SERVER_ERROR),
        ("V9", raw(attributes=7), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_bad_batch_is_refused_with_kafkas_code(rule: str, batch: bytes, code: ErrorCode) -> None:
    """Each check V1 to V9 refuses the whole batch, as the one it is, and leaves the log as it was."""
    log = open_log()
    refused = refusal(log, batch)
    assert (refused.rule, refused.code, refused.record_errors) == (rule, code, ())
    assert (log.log_end_offset, log.active_producers()) == (0, [])
    assert refused.message


def test_too_few_and_too_many_batches_are_told_apart() -> None:
    """V1 says which of the two it is."""
    assert refusal(open_log(), raw()[:-1]).message == "no complete batch"
    assert refusal(open_log(), raw() + raw()).message == "more than one batch"


def test_checks_come_in_kafkas_order() -> None:
    """A batch that is wrong in every way is refused for the first of them; that one mended, for the next."""
    small = LogConfig(max_message_bytes=70, compacted=True)
    wrong = {"attributes": 0x28, "producer_id": 7, "last_offset_delta": 9}
    bad_crc = patched(raw(RECORDS + b"x", **wrong), 17, ">I", 0)
    story = [
        (patched(bad_crc, 0, ">q", 1), small),
        (bad_crc, small),
        (bad_crc, LogConfig(compacted=True)),
        (raw(RECORDS + b"x", **wrong), LogConfig(compacted=True)),
        (raw(RECORDS + b"x", **wrong | {"last_offset_delta": 1}), LogConfig(compacted=True)),
        (raw(RECORDS + b"x", attributes=0x08, producer_id=7), LogConfig(compacted=True)),
        (raw(RECORDS + b"x", attributes=0x08), LogConfig(compacted=True)),
    ]
    assert [refusal(open_log(config), batch).rule for batch, config in story] == ["V3", "V4", "V5", "V6", "V7", "V8", "V9"]


def test_zstd_needs_a_newer_request() -> None:
    """V2: Produce before v7 may not carry zstd, also if the batch has other errors. From v7 on it may."""
    refused = refusal(open_log(), raw(attributes=4), request_version=6)
    assert (refused.rule, refused.code) == ("V2", ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    assert produce(open_log(), encode_batch([(NOW, b"k", b"v")], codec=Codec.LZ4), request_version=3) == 0
    assert produce(open_log(), encode_batch([(NOW, b"k", b"v")], codec=Codec.ZSTD), request_version=7) == 0


def test_a_batch_may_be_as_large_as_the_topic_says_and_no_larger() -> None:
    """V4 counts every byte of the batch, header included; V14 compares with a whole segment."""
    batch = plain()
    assert produce(open_log(LogConfig(max_message_bytes=len(batch))), batch) == 0
    refused = refusal(open_log(LogConfig(max_message_bytes=len(batch) - 1)), batch)
    assert (refused.rule, refused.code) == ("V4", ErrorCode.MESSAGE_TOO_LARGE)
    assert produce(open_log(LogConfig(segment_bytes=len(batch))), batch) == 0
    refused = refusal(open_log(LogConfig(segment_bytes=len(batch) - 1)), batch)
    assert (refused.rule, refused.code) == ("V14", ErrorCode.RECORD_LIST_TOO_LARGE)


def test_a_compacted_topic_names_every_record_without_a_key() -> None:
    """V10: the whole batch is refused, and each keyless record is listed by its place."""
    batch = encode_batch([(NOW, b"k", b"v"), (NOW, None, b"v"), (NOW, b"", b"v"), (NOW, None, None)])
    refused = refusal(open_log(LogConfig(compacted=True)), batch)
    assert (refused.rule, refused.code) == ("V10", INVALID)
    assert [index for index, message in refused.record_errors if message] == [1, 3]
    assert produce(open_log(), batch) == 0
    assert produce(open_log(LogConfig(compacted=True)), plain()) == 0


@pytest.mark.parametrize(
    ("timestamps", "config", "bad"),
    [
        ((NOW + HOUR,), LogConfig(), []),
        ((NOW, NOW + HOUR + 1, NOW + 2 * HOUR), LogConfig(), [1, 2]),
        ((0,), LogConfig(), []),
        ((-1, NOW), LogConfig(timestamp_before_max_ms=10), []),  # no timestamp at all is always good
        ((-1, NOW - 11, NOW - 10, NOW), LogConfig(timestamp_before_max_ms=10), [1]),
        ((NOW - 11, NOW + 21), LogConfig(timestamp_before_max_ms=10, timestamp_after_max_ms=20), [0, 1]),
        ((0, NOW * 2), LogConfig(timestamp_type=TimestampType.LOG_APPEND_TIME, timestamp_before_max_ms=10), []),
    ],
)
def test_timestamps_out_of_range_are_named_one_by_one(timestamps: tuple[int, ...], config: LogConfig, bad: list[int]) -> None:
    """V11: on a CreateTime topic records too old or too new are listed; 1 hour ahead is the default bound."""
    batch = plain(*timestamps)
    if not bad:
        assert produce(open_log(config), batch) == 0
        return
    for sent in (batch, encode_batch([(timestamp, b"k", b"v") for timestamp in timestamps], codec=Codec.LZ4)):
        refused = refusal(open_log(config), sent)
        assert (refused.rule, refused.code) == ("V11", ErrorCode.INVALID_TIMESTAMP)
        assert [index for index, _ in refused.record_errors] == bad


def test_timestamp_faults_decide_the_code_where_both_kinds_are() -> None:
    """One bad timestamp among keyless records makes the code INVALID_TIMESTAMP; a record with both faults counts as keyless."""
    batch = encode_batch([(NOW, None, b"v"), (NOW + 2 * HOUR, b"k", b"v"), (NOW + 2 * HOUR, None, b"v")])
    refused = refusal(open_log(LogConfig(compacted=True)), batch)
    assert refused.code == ErrorCode.INVALID_TIMESTAMP
    assert [(index, "key" in message) for index, message in refused.record_errors] == [(0, True), (1, False), (2, True)]


@pytest.mark.parametrize(
    ("topic", "newest", "taken"),
    [
        (TimestampType.LOG_APPEND_TIME, NOW, False),
        (TimestampType.CREATE_TIME, -1, False),
        (TimestampType.CREATE_TIME, NOW + HOUR + 1, False),
        (TimestampType.CREATE_TIME, NOW, True),
    ],
)
def test_a_producer_may_not_say_log_append_time(topic: TimestampType, newest: int, taken: bool) -> None:
    """V12: refused record by record; only on a CreateTime topic, with a timestamp in range, the bit is quietly taken away."""
    log = open_log(LogConfig(timestamp_type=topic))
    batch = raw(attributes=0x08, max_timestamp=newest)
    if taken:
        assert produce(log, batch) == 0
        stored = stored_header(log)
        assert (stored.timestamp_type, stored.max_timestamp) == (0, newest)  # what the batch said of all its records
        return
    refused = refusal(log, batch)
    assert (refused.rule, refused.code) == ("V11" if newest > NOW else "V12", ErrorCode.INVALID_TIMESTAMP)
    assert [index for index, _ in refused.record_errors] == [0, 1]


def test_offset_and_epoch_are_assigned_and_nothing_else_is_touched() -> None:
    """A taken batch gets its offset and leader epoch, and keeps its checksum and every byte that it covers."""
    log = open_log()
    produce(log, plain(), leader_epoch=5)
    batch = data(7, 2, 2147483647, 2, transactional=True)
    result = log.append(batch, origin=Origin.CLIENT, leader_epoch=5)
    stored = bytes(log.read(1, max_bytes=1 << 20).records)
    assert (result.base_offset, result.last_offset, result.log_append_time_ms, result.duplicate) == (1, 2, -1, False)
    assert stored[16:] == batch[16:]
    header = read_header(stored)
    assert (header.base_offset, header.leader_epoch) == (1, 5)
    assert [record.offset for record in read_records(stored)] == [1, 2]


def test_the_worked_bytes_are_stored_as_they_should_be() -> None:
    """The second reference batch: offset 7, epoch 3, pid 4000, a sequence that wraps, byte for byte."""
    sent = encode_batch(
        [(1000, b"k", b"v"), (1005, None, b"w", [("h", None)])],
        producer_id=4000,
        producer_epoch=2,
        base_sequence=2147483647,
        transactional=True,
    )
    log = open_log()
    produce(log, plain(*[NOW] * 7))
    assert produce(log, sent, leader_epoch=3) == 7
    assert bytes(log.read(7, max_bytes=1 << 20).records).hex() == (
        "0000000000000007000000450000000302"
        "0dc2e13d"
        "00100000000100000000000003e800000000000003ed0000000000000fa000027fffffff00000002"
        "10000000026b0276001400" + "0a0201027702026801"
    )


def test_a_wrong_maximum_timestamp_is_corrected() -> None:
    """CreateTime: the stored maximum is that of the records, for every value in the producer's header, and the checksum is right again."""
    log = open_log()
    assert produce(log, raw(max_timestamp=NOW + 1_000_000)) == 0
    assert stored_header(log).max_timestamp == NOW + 5
    assert log.offset_for_timestamp(NOW + 6).offset == -1


def test_log_append_time_is_the_brokers() -> None:
    """LogAppendTime: maximum, type bit, every record and the answer say now; sequences and payload stay."""
    log = open_log(LogConfig(timestamp_type=TimestampType.LOG_APPEND_TIME))
    batch = data(7, 0, 0, 2, timestamp=5)
    result = log.append(batch, origin=Origin.CLIENT, leader_epoch=0)
    header = stored_header(log)
    assert (result.log_append_time_ms, header.max_timestamp, header.timestamp_type) == (NOW, NOW, 1)
    assert [record.timestamp for record in read_records(bytes(log.read(0, max_bytes=1 << 20).records))] == [NOW, NOW]
    assert produce(log, batch) == Again(0)


def test_offsets_inside_a_batch_as_kafka_treats_them() -> None:
    """Offset deltas that do not count up: not looked at in an uncompressed batch, mended where the topic recompresses, refused where the
    compressed batch would be kept."""
    gap = RECORDS[:3] + b"\x08" + RECORDS[4:]
    assert read_records(raw(gap))[0].offset == 4
    assert produce(open_log(), raw(gap)) == 0
    packed = raw(compress(Codec.LZ4, gap), attributes=3)
    mended = open_log(LogConfig(compression=Codec.NONE))
    assert produce(mended, packed) == 0
    assert [record.offset for record in read_records(bytes(mended.read(0, max_bytes=1 << 20).records))] == [0, 1]
    assert refusal(open_log(), packed).code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_lengths_inside_a_compressed_batch_as_kafka_treats_them() -> None:
    """Kafka skips through the records of a compressed batch that it keeps, and does not see a record's wrong length. When it recompresses
    the batch, it does. Such a batch harms only its readers."""
    wrong = raw(compress(Codec.LZ4, b"\x7e" + RECORDS[1:]), attributes=3)
    log = open_log()
    assert produce(log, wrong) == 0
    assert log.offset_for_timestamp(NOW).offset == -1
    assert produce(log, plain(NOW + 9)) == 2
    assert log.offset_for_timestamp(NOW).offset == 2
    assert refusal(open_log(LogConfig(compression=Codec.NONE)), wrong).code == INVALID


def test_a_producer_id_below_0_is_none() -> None:
    """Only ids from 0 on are producers: others need no sequence and are not remembered."""
    log = open_log()
    assert produce(log, raw(producer_id=-2, producer_epoch=0, base_sequence=-1)) == 0
    assert produce(log, raw(producer_id=-2, producer_epoch=0, base_sequence=-1)) == 2
    assert log.active_producers() == []


def test_coordinators_are_not_held_to_a_clients_rules() -> None:
    """V6 to V8 are for clients: a coordinator writes markers, and data without a sequence. A damaged batch is always refused."""
    log = open_log()
    assert log.append(marker(7, 0), origin=Origin.COORDINATOR, leader_epoch=0).base_offset == 0
    assert log.append(data(7, 0, -1, transactional=True), origin=Origin.COORDINATOR, leader_epoch=0).base_offset == 1
    with pytest.raises(AppendRefused):
        log.append(patched(marker(7, 0), 17, ">I", 0), origin=Origin.COORDINATOR, leader_epoch=0)


def test_a_coordinators_batch_without_records_keeps_its_time() -> None:
    """There is no record that could say otherwise."""
    log = open_log()
    empty = raw(b"", records_count=0, last_offset_delta=0, base_timestamp=NOW - 9)
    assert log.append(empty, origin=Origin.COORDINATOR, leader_epoch=0).last_offset == 0
    assert stored_header(log).max_timestamp == NOW + 5


def test_a_marker_that_is_none_is_refused() -> None:
    """A control batch from a coordinator must hold what control batches hold."""
    nonsense = encode_batch([(NOW, b"k", b"v")], producer_id=7, producer_epoch=0, transactional=True, control=True)
    refused = refusal(open_log(), nonsense, origin=Origin.COORDINATOR)
    assert refused.code == INVALID


@pytest.mark.parametrize("wrap", [bytes, memoryview])
def test_any_bytes_will_do_and_stay_the_senders(wrap: Callable[[bytearray], bytes | memoryview]) -> None:
    """What is appended may be a view of a frame; it is not written to, and writing to it later changes nothing."""
    sent = data(7, 0, 0, 3)
    buffer = bytearray(sent)
    log = open_log()
    assert produce(log, wrap(buffer)) == 0
    assert bytes(buffer) == sent
    buffer[70:] = bytes(len(buffer) - 70)
    assert check_crc(log.read(0, max_bytes=1 << 20).records)


def test_topic_configs_become_log_configs() -> None:
    """Kafka's names are read, others passed over, values that do not fit refused with the name."""
    assert LogConfig.from_properties({}) == LogConfig()
    assert LogConfig.from_properties({"min.insync.replicas": "2", "max.message.bytes": "77"}) == LogConfig(max_message_bytes=77)
    assert LogConfig.from_properties(
        {
            "cleanup.policy": "compact,delete",
            "message.timestamp.type": "LogAppendTime",
            "message.timestamp.before.max.ms": "1",
            "message.timestamp.after.max.ms": "2",
            "compression.type": "lz4",
            "compression.gzip.level": "2",
            "compression.lz4.level": "17",
            "compression.zstd.level": "-131072",
            "segment.bytes": "9",
            "producer.id.expiration.ms": "4",
        }
    ) == LogConfig(
        compacted=True,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        timestamp_before_max_ms=1,
        timestamp_after_max_ms=2,
        compression=Codec.LZ4,
        gzip_level=2,
        lz4_level=17,
        zstd_level=-131072,
        segment_bytes=9,
        producer_id_expiration_ms=4,
    )
    assert LogConfig.from_properties({"compression.type": "producer"}).compression is None
    assert LogConfig.from_properties({"compression.type": "uncompressed"}).compression is Codec.NONE
    wrong = {"cleanup.policy": "shred", "message.timestamp.type": "now", "max.message.bytes": "1MB", "compression.gzip.level": "0"}
    for name, value in wrong.items():
        with pytest.raises(ValueError, match=name):
            LogConfig.from_properties({name: value})


@pytest.mark.parametrize(
    "batch",
    [
        encode_batch([(TIMESTAMP_MAX - 1, b"k", b"v"), (TIMESTAMP_MAX, b"k", b"v")]),
        raw(base_timestamp=TIMESTAMP_MAX, max_timestamp=TIMESTAMP_MAX),  # the second record is 5 ms later
    ],
)
def test_the_largest_timestamp_is_that_of_the_format(batch: bytes) -> None:
    """If the topic takes timestamps of the future, a batch keeps any timestamp that the format can carry, and gets no later one."""
    log = open_log(LogConfig(timestamp_after_max_ms=TIMESTAMP_MAX))
    assert produce(log, batch) == 0
    assert read_header(log.read(0, max_bytes=1).records).max_timestamp == TIMESTAMP_MAX


def test_the_defaults_are_kafkas() -> None:
    """A topic without settings of its own has those of Apache Kafka."""
    told = LogConfig()
    assert (told.max_message_bytes, told.segment_bytes) == (1_048_588, 1_073_741_824)
    assert (told.timestamp_before_max_ms, told.timestamp_after_max_ms) == (9_223_372_036_854_775_807, 3_600_000)
    assert (told.producer_id_expiration_ms, told.compacted, told.compression) == (86_400_000, False, None)
    assert (told.gzip_level, told.lz4_level, told.zstd_level) == (-1, 9, 3)
