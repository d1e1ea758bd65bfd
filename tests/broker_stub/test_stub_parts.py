"""The small parts of the stub, each alone: timers, sessions, configs, producer ids, coordinators."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from fencepost.broker_stub.cluster.coordinator_partition import partition_for
from fencepost.broker_stub.cluster.fetch_sessions import EPOCH_MAX, Asked, SessionCache
from fencepost.broker_stub.cluster.producer_ids import ProducerIds
from fencepost.broker_stub.cluster.timers import Timers
from fencepost.broker_stub.cluster.topics import illegal_name
from fencepost.broker_stub.configs.topic_configs import BROKER_CONFIGS, TOPIC_CONFIGS, BrokerConfig, InvalidConfig, check_topic_config
from fencepost.broker_stub.configs.uses import BROKER_USES, TOPIC_USES, Obeyed
from fencepost.broker_stub.faults.subjects import with_error
from fencepost.producer import wire
from tests.broker_stub.stub_talk import Inside


def test_timers_run_in_the_order_of_their_time() -> None:
    """By deadline, then by arrival; cancelled ones never, late ones when their time comes, and new ones for now in the same turn."""
    timers, ran = Timers(), list[str]()

    def begin() -> None:
        ran.append("a")
        timers.at(10, lambda: ran.append("from a"))

    timers.at(20, lambda: ran.append("late"))
    timers.at(10, begin)
    timers.at(10, lambda: ran.append("b"))
    timers.at(5, lambda: ran.append("never")).cancel()
    assert timers.next_deadline() == 10
    assert timers.run_due(9) == 0
    assert timers.run_due(10) == 3
    assert ran == ["a", "b", "from a"]
    assert timers.next_deadline() == 20
    timers.run_due(100)
    assert ran[-1] == "late"
    assert timers.next_deadline() is None


def asked(partition: int = 0, offset: int = 0) -> Asked:
    return Asked("t", UUID(int=0), partition, offset=offset, bytes_max=100, leader_epoch=-1, last_fetched_epoch=-1)


def test_a_session_tells_only_news() -> None:
    """First everything is news; then records, a moved watermark or start, and errors; after an error the next answer again."""
    session = SessionCache().create(uses_ids=False)
    assert session is not None
    session.update([asked()])

    def news(*, records: bool = False, failed: bool = False, high_watermark: int = 5, start: int = 0) -> bool:
        return session.is_news(asked().key, has_records=records, failed=failed, high_watermark=high_watermark, log_start_offset=start)

    assert [news(), news(), news(records=True), news()] == [True, False, True, False]
    assert [news(high_watermark=6), news(high_watermark=6), news(high_watermark=6, start=1)] == [True, False, True]
    assert [news(failed=True), news(failed=True), news(start=1), news(start=1)] == [True, True, True, False]


def test_a_session_serves_the_hungry_first() -> None:
    """Who got records goes to the end of the line; updates keep the place, forgotten ones leave it."""
    session = SessionCache().create(uses_ids=False)
    assert session is not None
    session.update([asked(0), asked(1), asked(2)])
    session.is_news(asked(0).key, has_records=True, failed=False, high_watermark=1, log_start_offset=0)
    assert [each.partition for each in session.partitions()] == [1, 2, 0]
    session.update([asked(1, offset=7)], [asked(2).key, asked(9).key])
    assert [(each.partition, each.offset) for each in session.partitions()] == [(1, 7), (0, 0)]


def test_session_epochs_wrap_and_sessions_are_bounded() -> None:
    """After 2^31-1 comes 1; beyond the limit there is no new session; one removed makes room."""
    cache = SessionCache(limit=1)
    session = cache.create(uses_ids=True)
    assert session is not None
    session.epoch = EPOCH_MAX
    session.advance()
    assert session.epoch == 1
    assert cache.create(uses_ids=True) is None
    cache.remove(session.id)
    again = cache.create(uses_ids=True)
    assert again is not None
    assert again.id != session.id


def test_an_answer_that_is_made_to_fail_keeps_nothing_of_its_success() -> None:
    """with_error puts the code where it belongs and takes away what only a success carries; what is not covered stays as it was."""

    def failed(response: wire.Message, *, partition: int | None = None) -> Any:
        return with_error(response, 7, lambda _, index: partition in (None, index), lambda _: None)

    assert failed(wire.InitProducerIdResponse(producer_id=5, producer_epoch=0)) == wire.InitProducerIdResponse(
        error_code=7, producer_id=-1, producer_epoch=-1
    )
    brokers = [wire.MetadataResponseBroker(node_id=1, host="h", port=1)]
    topics = [wire.MetadataResponseTopic(name="t", partitions=[wire.MetadataResponsePartition(leader_id=1)])]
    known = failed(wire.MetadataResponse(brokers=brokers, topics=topics))
    assert (known.brokers, known.topics[0].error_code, known.topics[0].partitions) == (brokers, 7, [])
    answers = [wire.PartitionProduceResponse(index=index, base_offset=9, log_append_time_ms=3) for index in (0, 1)]
    produced = failed(wire.ProduceResponse(responses=[wire.TopicProduceResponse(name="t", partition_responses=answers)]), partition=1)
    good, bad = produced.responses[0].partition_responses
    assert good == answers[0]
    assert (bad.error_code, bad.base_offset, bad.log_append_time_ms) == (7, -1, -1)
    found = failed(wire.FindCoordinatorResponse(coordinators=[wire.Coordinator(key="g", node_id=1, host="h", port=1)]))
    assert found.coordinators == [wire.Coordinator(key="g", node_id=-1, host="", port=-1, error_code=7)]


def test_no_producer_id_is_given_twice() -> None:
    """Whoever asks gets one of his own."""
    ids = ProducerIds()
    assert len({ids.fresh() for _ in range(100)}) == 100


def test_defaults_are_legal_and_known() -> None:
    """Every default passes its own check, so that a config read back can be given again."""
    for name, definition in TOPIC_CONFIGS.items():
        check_topic_config(name, definition.default)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("no.such.config", "1"),
        ("retention.ms", None),
        ("retention.ms", "-2"),
        ("retention.ms", "1.5"),
        ("segment.bytes", "100"),
        ("cleanup.policy", "shred"),
        ("min.cleanable.dirty.ratio", "2"),
        ("min.cleanable.dirty.ratio", "much"),
        ("preallocate", "yes"),
        ("message.timestamp.type", "createtime"),
        ("follower.replication.throttled.replicas", "1-2"),
        ("min.insync.replicas", "0"),
        ("compression.gzip.level", "0"),
    ],
)
def test_bad_topic_configs_are_refused(name: str, value: str | None) -> None:
    """An unknown name, no value, and a value outside its range or list."""
    with pytest.raises(InvalidConfig, match=name.replace(".", r"\.")):
        check_topic_config(name, value)


def test_broker_configs_are_the_defaults_of_topics() -> None:
    """A broker's name or the topic's own sets what topics start with; a topic's override wins; a misspelt name gets a suggestion."""
    config = BrokerConfig({"message.max.bytes": "200", "retention.ms": "5", "num.partitions": "3"})
    topic = config.of_topic({"retention.ms": "7"})
    assert (topic["max.message.bytes"], topic["retention.ms"], topic["segment.ms"]) == ("200", "7", "604800000")
    assert config["num.partitions"] == "3"
    assert config["transaction.max.timeout.ms"] == "900000"
    with pytest.raises(InvalidConfig, match=r"did you mean 'message\.max\.bytes'"):
        BrokerConfig({"message.max.byte": "1"})
    with pytest.raises(InvalidConfig, match=r"num\.partitions"):
        BrokerConfig({"num.partitions": "0"})


def test_every_config_is_obeyed_or_says_that_it_is_not() -> None:
    """Each that the stub takes is in the table; one that is called obeyed is read by somebody, and names a test that is there, or its
    reader, which has its name."""
    root = Path(__file__).parents[2]
    assert TOPIC_USES.keys() == TOPIC_CONFIGS.keys()
    assert BROKER_USES.keys() == BROKER_CONFIGS.keys()
    tables = ("topic_configs.py", "types.py", "uses.py", "config_entries.py", "alter_config_checks.py")
    readers = [each for each in (root / "broker_stub").rglob("*.py") if each.name not in tables]
    read = "\n".join(each.read_text(encoding="utf-8") for each in readers)
    for name, use in [*TOPIC_USES.items(), *BROKER_USES.items()]:
        assert isinstance(use, Obeyed) is (f'"{name}"' in read), f"{name}: {use}"
        if isinstance(use, Obeyed):
            file, _, test = use.shown.partition("::")
            text = (root / file).read_text(encoding="utf-8")
            assert (f"def {test}(" if test else f'"{name}"') in text, f"{name}: {use.shown} is not there"


def test_a_config_that_is_only_described_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """Once, with what happens instead, whether it was given to the brokers or to a topic; those that are obeyed say nothing."""
    caplog.set_level(logging.INFO)
    inside = Inside(config={"log.retention.ms": 5, "min.insync.replicas": 1})
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    inside.topic(segment_ms="7", retention_ms="8", max_message_bytes="9")
    inside.topic("u", segment_ms="7")
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "log.retention.ms=5 is kept and described, and not obeyed: nothing is ever deleted for its age or its size",
        *sorted(said[1:]),
    ]
    assert [each.split("=")[0] for each in sorted(said[1:])] == ["retention.ms", "segment.ms"]


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ä", "a" * 250, "a/b"])
def test_illegal_topic_names(name: str) -> None:
    """Kafka's rules for names, each with a reason."""
    assert illegal_name(name)


@pytest.mark.parametrize("name", ["a", "a.b_c-D9", "...", "a" * 249])
def test_legal_topic_names(name: str) -> None:
    """What is not forbidden is allowed."""
    assert illegal_name(name) is None


@pytest.mark.parametrize(
    ("key", "partition"),
    [
        ("", 0),  # hash 0
        ("a", 47),  # 97
        ("hello", 22),  # 99162322
        ("polygenelubricants", 0),  # -2147483648, whose absolute value Java makes 0
        ("\U0001f600", 49),  # two UTF-16 code units, d83d de00: 31 * 55357 + 56832 = 1772899
    ],
)
def test_coordinators_are_found_by_javas_hash(key: str, partition: int) -> None:
    """String.hashCode over UTF-16, its absolute value with -2^31 as 0, modulo the partitions."""
    assert partition_for(key, 50) == partition
