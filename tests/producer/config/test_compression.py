"""The settings of compression, what they do to the batches that are sent, and brokers that are too old for what they choose."""

from __future__ import annotations

import random
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import Fatal, Producer
from fencepost.producer.config.reader import read_settings
from fencepost.producer.core.events import TopicWanted
from fencepost.producer.errors import ConfigError
from fencepost.producer.wire import Api
from fencepost.producer.wire.codecs.codec import LEVELS, Codec
from tests.producer.config.reading import BARE, refusal
from tests.producer.core.harness import TOPIC, VERSIONS, CoreHarness
from tests.producer.stub_helpers import arrivals, quick, values

CODECS = ["gzip", "snappy", "lz4", "zstd"]


@pytest.mark.parametrize("codec", Codec)
def test_every_codec_is_read(codec: Codec) -> None:
    """By its name in any case, by Java's setting and librdkafka's, and as a `Codec`."""
    for key in ("compression_type", "compression.type", "compression.codec"):
        for value in (codec.name.lower(), codec.name, codec):
            assert read_settings({**BARE, key: value}).compression_type is codec
    assert read_settings({**BARE, "compression_type": codec}).compression_level is None


@pytest.mark.parametrize("codec", LEVELS, ids=lambda codec: codec.name.lower())
def test_levels_are_read(codec: Codec) -> None:
    """The codec's own setting and `compression_level` mean the same, at both ends of the range, as numbers or text."""
    name = codec.name.lower()
    for key in ("compression.level", "compression_level", f"compression.{name}.level", f"compression_{name}_level"):
        for level in (LEVELS[codec].low, LEVELS[codec].high, LEVELS[codec].default):
            for said in (level, str(level)):
                assert read_settings({**BARE, "compression.type": name, key: said}).compression_level == level


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"compression_type": "gzip", "compression_gzip_level": 0},
            "compression_gzip_level=0 is out of range: the levels of gzip are 1 to 9, or -1",
        ),
        ({"compression_type": "gzip", "compression_level": 10}, "compression_level=10 is out of range: the levels of gzip are 1 to 9"),
        (
            {"compression_type": "lz4", "compression.lz4.level": 18},
            "compression.lz4.level=18 is out of range: the levels of lz4 are 1 to 17",
        ),
        (
            {"compression_type": "zstd", "compression_level": 23},
            "compression_level=23 is out of range: the levels of zstd are -131072 to 22",
        ),
        ({"compression_type": "zstd", "compression_zstd_level": -131_073}, "compression_zstd_level=-131073 is out of range"),
        ({"compression_type": "snappy", "compression_level": 1}, "compression_level=1: compression_type is snappy, which has no levels"),
        ({"compression_level": 1}, "compression_level=1: compression_type is none, which has no levels"),
        ({"compression_type": "snappy", "compression.snappy.level": 1}, "compression.snappy.level=1: snappy has no levels"),
        ({"compression_snappy_level": 1}, "compression_snappy_level=1: snappy has no levels"),
        (
            {"compression_type": "gzip", "compression_zstd_level": 3},
            "compression_zstd_level=3 would be ignored, because compression_type is gzip",
        ),
        ({"compression_gzip_level": 3}, "compression_gzip_level=3 would be ignored, because compression_type is none"),
        (
            {"compression_type": "zstd", "compression_level": 3, "compression.zstd.level": 4},
            "compression_level=3 and compression.zstd.level=4: give only one of them",
        ),
        ({"compression_type": "gzip", "compression_level": "fast"}, "compression_level='fast'"),
        ({"compression_type": "brotli"}, "compression_type='brotli': the codecs are none, gzip, snappy, lz4, zstd"),
    ],
)
def test_what_a_codec_does_not_have_is_refused(given: dict[str, Any], words: str) -> None:
    """With the value, the limit and the setting; nothing that was chosen is silently not done."""
    assert words in refusal(given)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("acks", ["all", 1])
def test_batches_are_packed(codec: str, acks: object) -> None:
    """Each codec makes the batches of repetitive records small, and what is read back is what was sent, keys, headers and nulls too."""
    sent = [(b"the same again and again %d" % (i % 3), None if i % 5 else b"key", [("h", b"v")] if i % 2 else []) for i in range(2_000)]
    with BrokerStub() as stub, quick(stub, compression_type=codec, linger_ms=10_000, acks=acks) as producer:
        for value, key, headers in sent:
            producer.send("t", value, key=key, headers=headers, partition=0)
        producer.flush(20)
        assert [(record.value, record.key, list(record.headers)) for record in stub.records("t", 0)] == sent
        assert {arrival.header.codec for arrival in arrivals(stub)} == {Codec[codec.upper()]}
        stored = sum(arrival.header.size for arrival in arrivals(stub))
        assert stored < sum(len(value) for value, _, _ in sent) / 2


@pytest.mark.parametrize(("codec", "levels"), [("gzip", (1, 9)), ("lz4", (9, 12)), ("zstd", (-100, 19))])
def test_levels_reach_the_batches(codec: str, levels: tuple[int, int]) -> None:
    """A more thorough level makes smaller batches of the same records."""
    dice = random.Random(4)
    texts = [b" ".join(dice.choices([b"alpha", b"beta", b"gamma", b"delta"], k=30)) for _ in range(500)]
    sizes = []
    for level in levels:
        with BrokerStub() as stub, quick(stub, compression_type=codec, compression_level=level, linger_ms=10_000) as producer:
            for text in texts:
                producer.send("t", text, timestamp=1_700_000_000_000)
            producer.flush(20)
            assert values(stub, "t") == texts
            sizes.append(sum(arrival.header.size for arrival in arrivals(stub)))
    assert sizes[1] < 0.95 * sizes[0]


@pytest.mark.parametrize("codec", CODECS)
def test_batch_size_counts_what_is_not_yet_packed(codec: str) -> None:
    """A batch closes at batch_size bytes of records, however little they are on the wire: memory and latency do not depend on the codec."""
    with BrokerStub() as stub, quick(stub, compression_type=codec, linger_ms=10_000, batch_size=10_000) as producer:
        for _ in range(100):
            producer.send("t", b"x" * 990, timestamp=1_700_000_000_000)
        producer.flush(20)
        assert [arrival.header.records_count for arrival in arrivals(stub)] == [9] * 11 + [1]
        assert max(arrival.header.size for arrival in arrivals(stub)) < 1_000


@pytest.mark.parametrize("high", [3, 6])
def test_zstd_needs_a_broker_that_knows_it(high: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker from before Kafka 2.1 is the end of a producer that packs with zstd, as soon as it says what it offers, and of no other."""
    monkeypatch.setitem(VERSIONS, Api.PRODUCE, (0, high))
    for codec in Codec:
        harness = CoreHarness(compression_type=codec)
        harness.happen(TopicWanted(TOPIC))
        if codec is not Codec.ZSTD:
            assert harness.dead is None
            continue
        assert harness.dead is not None
        assert type(harness.dead.error) is Fatal
        said = f"offers versions 0 to {high} of Produce, and compression_type=zstd needs 7 to 13: the broker must be Kafka 2.1 or later"
        assert said in str(harness.dead.error)
        assert harness.open == []


def test_zstd_is_sent_from_version_seven_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest version that carries it is good enough."""
    monkeypatch.setitem(VERSIONS, Api.PRODUCE, (0, 7))
    harness = CoreHarness(compression_type=Codec.ZSTD).learn()
    harness.send(b"x")
    assert [flight.command.version for flight in harness.produces()] == [7]


def test_a_producer_refuses_its_level_before_it_connects() -> None:
    """The mistake is in the constructor's ConfigError."""
    with pytest.raises(ConfigError, match="snappy, which has no levels"):
        Producer(bootstrap_servers="a:1", compression_type="snappy", compression_level=3)
