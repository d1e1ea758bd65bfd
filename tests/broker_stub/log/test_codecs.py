"""Batches that producers packed, with each codec: looked into, kept as they are, or packed anew as the topic wants them."""

from __future__ import annotations

import random

import pytest

from fencepost.broker_stub.log import LogConfig, TimestampType
from fencepost.producer.wire.codes import ErrorCode
from fencepost.producer.wire.records import Codec, encode_batch, read_records
from tests.broker_stub.log.log_tools import NOW, Again, open_log, produce, refusal, stored_header


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("same", [False, True])
def test_a_compressed_batch_is_looked_into_and_kept(codec: Codec, same: bool) -> None:
    """What a producer compressed is stored as it came, also where the topic names the same codec; its records are checked like any
    other's."""
    log = open_log(LogConfig(compacted=True, compression=codec if same else None, gzip_level=9, lz4_level=17, zstd_level=-1000))
    good = encode_batch([(NOW, b"k", b"v" * 500)] * 20, codec=codec)
    assert produce(log, good) == 0
    assert bytes(log.read(0, max_bytes=1 << 20).records)[16:] == good[16:]
    assert [index for index, _ in refusal(log, encode_batch([(NOW, None, b"v")], codec=codec)).record_errors] == [0]


@pytest.mark.parametrize(("target", "sent"), [(target, sent) for target in Codec for sent in Codec if target is not sent])
def test_a_topic_with_a_codec_recompresses(target: Codec, sent: Codec) -> None:
    """The topic's codec wins; the producer's identity, its transaction bit and the records stay, and the retry is still a duplicate."""
    log = open_log(LogConfig(compression=target))
    batch = encode_batch(
        [(NOW - n, b"k%d" % n, b"v" * 50, [("h", b"x")]) for n in range(9)],
        producer_id=7,
        producer_epoch=3,
        base_sequence=2147483640,
        codec=sent,
        transactional=True,
    )
    assert produce(log, batch, leader_epoch=4) == 0
    header = stored_header(log)
    assert (header.codec, header.producer_id, header.producer_epoch, header.base_sequence) == (target, 7, 3, 2147483640)
    assert (header.is_transactional, header.leader_epoch, header.max_timestamp) == (True, 4, NOW)
    assert read_records(bytes(log.read(0, max_bytes=1 << 20).records)) == read_records(batch)
    assert produce(log, batch) == Again(0)


@pytest.mark.parametrize(("codec", "low", "high"), [(Codec.GZIP, 1, 9), (Codec.LZ4, 9, 12), (Codec.ZSTD, -1000, 19)])
def test_a_topics_level_is_used(codec: Codec, low: int, high: int) -> None:
    """What is packed anew is packed as thoroughly as the topic's level for its codec says."""
    dice = random.Random(3)
    entries = [(NOW, None, b" ".join(dice.choices([b"alpha", b"beta", b"gamma", b"delta"], k=40))) for _ in range(300)]
    sizes = []
    for level in (low, high):
        log = open_log(
            LogConfig.from_properties({"compression.type": codec.name.lower(), f"compression.{codec.name.lower()}.level": str(level)})
        )
        assert produce(log, encode_batch(entries, codec=Codec.SNAPPY)) == 0
        stored = bytes(log.read(0, max_bytes=1 << 20).records)
        assert [record.value for record in read_records(stored)] == [value for _, _, value in entries]
        sizes.append(len(stored))
    assert sizes[1] < 0.95 * sizes[0]


def test_append_time_and_another_codec() -> None:
    """A batch that is packed anew on a LogAppendTime topic has the broker's time and the producer's as its base, as in Kafka."""
    log = open_log(LogConfig(compression=Codec.ZSTD, timestamp_type=TimestampType.LOG_APPEND_TIME))
    assert produce(log, encode_batch([(NOW - 9, b"k", b"v"), (NOW - 4, b"k", b"v")], codec=Codec.GZIP)) == 0
    header = stored_header(log)
    assert (header.codec, header.timestamp_type, header.base_timestamp, header.max_timestamp) == (Codec.ZSTD, 1, NOW - 9, NOW)
    assert [record.timestamp for record in read_records(bytes(log.read(0, max_bytes=1 << 20).records))] == [NOW, NOW]


def test_a_recompressed_batch_must_still_fit() -> None:
    """V13: a batch that fits compressed and not as the topic stores it is too large."""
    batch = encode_batch([(NOW, b"k", b"v" * 5000)], codec=Codec.LZ4)
    refused = refusal(open_log(LogConfig(compression=Codec.NONE, max_message_bytes=1000)), batch)
    assert (refused.rule, refused.code) == ("V13", ErrorCode.MESSAGE_TOO_LARGE)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_a_bomb_is_not_opened_to_its_end(codec: Codec) -> None:
    """A small compressed batch that claims too much is refused at our own limit."""
    batch = encode_batch([(NOW, b"k", bytes(1 << 20))], codec=codec)
    assert len(batch) < 60_000
    refused = refusal(open_log(LogConfig(decompressed_bytes_max=1 << 19)), batch)
    assert (refused.rule, refused.code) == ("V9", ErrorCode.UNKNOWN_SERVER_ERROR)
