"""Rows through the writer as Spark's own sink has them, read by a consumer that is not ours; and rows that can never be written."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from fencepost.producer.accumulator.partitioner import partition_for_key
from fencepost.producer.errors import ConfigError, Misuse
from fencepost.producer.wire.codes import Api, ErrorCode
from fencepost.txn.errors import MustAbort
from fencepost.txn.spark import BadColumns, BadRows
from fencepost.txn.spark.rows.columns import NULL_TOPIC
from tests.drawn import drawn
from tests.txn.spark.releases import needs
from tests.txn.spark.site import PARTITIONS, TOPIC, Site

BOTH = pytest.mark.parametrize("guard", ["driver", "turns"])
EVERY = pytest.mark.parametrize("guard", ["driver", "turns", "kafka-claims"])
"""From the driver and from executors."""
pytestmark = drawn(2)


@BOTH
def test_columns_become_what_sparks_sink_makes_of_them(site: Site, guard: str) -> None:
    """Keys, headers and times to the millisecond, a null value as a tombstone, a partition that is named, other columns ignored."""
    df = site.spark.sql(
        "select cast(v as string) as value, cast('k' as binary) as key, 2 as partition, 1 as other,"
        " timestamp '2026-01-02 03:04:05.678999' as timestamp,"
        " array(named_struct('key', 'h', 'value', cast('x' as binary)), named_struct('key', 'n', 'value', cast(null as binary))) as headers"
        " from values ('v'), (null) as t(v)"
    )
    site.by_hand(guard=guard)(df, site.offsets(0))
    found = {message.value(): message for message in site.messages()}
    assert found.keys() == {b"v", None}
    for message in found.values():
        assert (message.key(), message.partition()) == (b"k", 2)
        assert message.timestamp()[1] == 1767323045678
        assert message.headers() == [("h", b"x"), ("n", None)]


@EVERY
def test_keys_go_where_kafkas_clients_put_them(site: Site, guard: str) -> None:
    """Keys in every script: murmur2 over their bytes, modulo the partitions. Rows without a key are in the same batch."""
    keys = ["ключ", "鍵", "clé", "k", "", "🔑"]
    df = site.rows(*keys, "no key", "nor this", key="case when value like 'no%' then null else value end")
    writer = site.by_hand(guard=guard)
    writer(df, site.offsets(0))
    places = {message.value().decode(): (message.partition(), message.key()) for message in site.messages()}
    assert {value: places[value] for value in keys} == {key: (partition_for_key(key.encode(), PARTITIONS), key.encode()) for key in keys}
    assert places["no key"][1] is None
    assert writer.metrics["rows"] == len(places) == 8


CONFIGS: dict[str, dict[str, str | int | float | bool]] = {"small": {"max.message.bytes": 2000}, "compacted": {"cleanup.policy": "compact"}}
NULL_HEADER = "a header that is null, or whose key is"


def _headers(one: str) -> str:
    return f"array({one})"


BAD: dict[str, tuple[dict[str, Any], dict[str, str], str]] = {
    "null topic": ({"topic": None, "topics": [TOPIC]}, {"topic": f"if(value = 'bad', null, '{TOPIC}')"}, NULL_TOPIC),
    "another topic": (
        {"topic": None, "topics": [TOPIC]},
        {"topic": f"if(value = 'bad', 'else', '{TOPIC}')"},
        "topic 'else' is none of those",
    ),
    "partition out of range": ({}, {"partition": "if(value = 'bad', 3, 0)"}, r"3 is not in the range \[0...3\) of topic 'out'"),
    "partition below zero": ({}, {"partition": "if(value = 'bad', -1, 0)"}, r"-1 is not in the range \[0...3\)"),
    "record too large": ({"max_request_size": 2000}, {"key": "if(value = 'bad', repeat('x', 3000), 'k')"}, "exceeds max_request_size=2000"),
    "record too large for the topic": (
        {"topic": "small"},
        {"key": "if(value = 'bad', repeat('x', 3000), 'k')"},
        "bytes exceeds max.message.bytes=2000 of topic 'small'",
    ),
    "header that is null": (
        {},
        {"headers": _headers("if(value = 'bad', null, named_struct('key', 'h', 'value', cast('x' as binary)))")},
        NULL_HEADER,
    ),
    "header without a key": (
        {},
        {"headers": _headers("named_struct('key', if(value = 'bad', cast(null as string), 'h'), 'value', cast('x' as binary))")},
        NULL_HEADER,
    ),
    "timestamp before 1970": ({}, {"timestamp": "if(value = 'bad', -1.5D, 1.5D)"}, "timestamp -1500 ms is before 1970"),
    "timestamp that is no time": ({}, {"timestamp": "if(value = 'bad', 1e300D, cast(null as double))"}, "a timestamp that is no time"),
    "timestamp far ahead": ({}, {"timestamp": "if(value = 'bad', 4e9D, 1.5D)"}, "further ahead than topic 'out' takes"),
    "no key on a compacted topic": ({"topic": "compacted"}, {"key": "if(value = 'bad', null, 'k')"}, "takes no record without a key"),
    "topic with no name": (
        {"topic": None},
        {"topic": f"if(value = 'bad', 'no such/name', '{TOPIC}')"},
        "topic 'no such/name' is none of those of this batch",
    ),
}


EACH = [
    *((kind, "driver") for kind in BAD),
    ("another topic", "kafka-claims"),
    ("partition out of range", "kafka-claims"),
    ("record too large", "kafka-claims"),
    ("record too large for the topic", "turns"),
    ("header without a key", "turns"),
    ("timestamp before 1970", "turns"),
]


@drawn(4)
@pytest.mark.parametrize(("kind", "guard"), EACH)
def test_rows_that_can_never_be_written_fail_the_batch(site: Site, guard: str, kind: str) -> None:
    """The error names the row's place and size and says the way out, nothing of the batch is visible, and a batch without it goes on."""
    settings, columns, said = BAD[kind]
    topic = settings.get("topic") or TOPIC
    if topic != TOPIC:
        site.stub.create_topic(topic, partitions=PARTITIONS, config=CONFIGS[topic])
    writer = site.by_hand(guard=guard, **settings)
    site.offsets(0)
    with pytest.raises(BadRows, match=said) as caught:
        writer(site.rows("good", "bad", **columns), 0)
    assert "bytes of key, value and headers" in str(caught.value)
    assert 'on_bad_row="<topic>"' in str(caught.value)
    assert writer.metrics["reruns"] == 0
    assert site.committed(topic) == []
    writer(site.rows("good", **columns), 0)
    assert site.committed(topic) == ["good"]


@BOTH
def test_rows_that_can_never_be_written_can_go_elsewhere(site: Site, guard: str) -> None:
    """Into a topic of dead letters, in the transaction of the others, with headers that say what is the matter."""
    site.stub.create_topic("dead")
    writer = site.by_hand(guard=guard, on_bad_row="dead")
    writer(site.rows("good", "bad", partition="if(value = 'bad', 9, 0)", key="'k'"), site.offsets(0))
    assert site.committed() == ["good"]
    (letter,) = site.messages("dead", 1)
    assert (letter.key(), letter.value()) == (b"k", b"bad")
    said = {name: value.decode() for name, value in letter.headers()}
    assert said.pop("fencepost.reason").startswith("Invalid partition given with record: 9")
    assert said == {
        "fencepost.topic": TOPIC,
        "fencepost.partition": "9",
        "fencepost.bytes": "4",
        "fencepost.cut": "False",
        "fencepost.sink": "sink",
        "fencepost.batch": "0",
    }
    assert writer.metrics["bad_rows"] == 1
    # The dead letter is as much part of the batch as everything else: with no way for it nothing is written.
    site.stub.faults.on(Api.PRODUCE).where(topic="dead").forever().error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    stuck = site.by_hand(guard=guard, on_bad_row="dead")
    with pytest.raises(MustAbort, match="dead-0: refused by the broker: no WRITE permission"):
        stuck(site.rows("good too", "bad", partition="if(value = 'bad', 9, 0)"), site.offsets(1))
    assert site.committed() == ["good"]


@pytest.mark.parametrize("guard", ["driver", "turns"])
def test_many_kinds_of_bad_rows_go_elsewhere(site: Site, guard: str) -> None:
    """Those that break a rule of the topic among them, in one transaction with the good ones; where the topic of bad rows takes less, they
    are cut to that."""
    site.stub.create_topic("small", partitions=PARTITIONS, config=CONFIGS["small"])
    site.stub.create_topic("dead", config={"max.message.bytes": 6000})
    writer = site.by_hand(guard=guard, topic="small", on_bad_row="dead")
    rows = site.rows(
        *"abcd",
        key="if(value = 'a', repeat('x', 9000), 'k')",
        timestamp="if(value = 'b', -1D, 1D)",
        headers=_headers("if(value = 'c', null, named_struct('key', 'h', 'value', cast('x' as binary)))"),
    )
    writer(rows, site.offsets(0))
    assert site.committed("small") == ["d"]
    found = {dict(message.headers())["fencepost.reason"].decode(): message for message in site.messages("dead", 1)}
    reasons = sorted(found)
    assert reasons[:2] == [NULL_HEADER, "a record of 9077 bytes exceeds max.message.bytes=2000 of topic 'small'"]
    assert reasons[2:] == ["timestamp -1000 ms is before 1970"]
    cut = found[reasons[1]]
    assert dict(cut.headers())["fencepost.cut"] == b"True"
    assert 1000 < len(cut.key()) < 6000
    assert (writer.metrics["bad_rows"], writer.metrics["reruns"]) == (3, 0)


@pytest.mark.parametrize("guard", ["driver", "turns", "kafka-claims"])
@pytest.mark.parametrize("letters", [{}, {"on_bad_row": "dead", "bad_row_limit": 100}])
def test_a_great_many_bad_rows(site: Site, guard: str, letters: dict[str, Any]) -> None:
    """All of them are counted; no more are described, and brought to the driver, than are of use."""
    site.stub.create_topic("dead")
    writer = site.by_hand(guard=guard, **letters)
    df = site.spark.range(30_000).selectExpr("cast(id as string) as value", "if(id % 2 = 0, 77, 0) as partition")
    with pytest.raises(BadRows, match=r"77 is not in the range .* \(and others: 14997 more are known\)"):
        writer(df, site.offsets(0))
    assert (writer.metrics["bad_rows"], writer.metrics["reruns"], writer.metrics["ledger"]) == (15_000, 0, "aborted")
    assert site.committed() == site.committed("dead", 1) == []


@BOTH
@pytest.mark.parametrize("told", [True, False])
def test_a_compacted_topic_of_bad_rows(site: Site, guard: str, told: bool) -> None:
    """A compacted topic refuses rows without a key and deletes others. It is refused before anything is written, with and without bad rows.
    If its configs may not be read, the error has the broker's refusal, the topic and the way out."""
    site.stub.create_topic("dead", config={"cleanup.policy": "compact"})
    if not told:
        site.stub.faults.on(Api.DESCRIBE_CONFIGS).where(topic="dead").forever().error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    writer = site.by_hand(guard=guard, on_bad_row="dead")
    words = (
        "on_bad_row='dead': the topic is compacted .*Nothing was written"
        if told
        else "cannot be written to topic 'dead', the topic for bad rows, either.* is compacted"
    )
    with pytest.raises(Misuse if told else BadRows, match=words):
        writer(site.rows("good", *([] if told else ["bad"]), partition="if(value = 'bad', 77, 0)"), site.offsets(0))
    assert site.committed() == site.committed("dead", 1) == []
    assert writer.metrics["reruns"] == 0


@BOTH
def test_no_row_has_a_topic(site: Site, guard: str) -> None:
    """A batch whose rows name no topic, without a default topic, has bad rows only: they go to the topic of bad rows, or fail the batch
    with their places."""
    site.stub.create_topic("dead")
    topics = "case value when '1' then null when '2' then 'a/b' end"
    writer = site.by_hand(topic=None, guard=guard, on_bad_row="dead", bad_row_limit=3)
    writer(site.rows("1", "2", "3", topic=topics), site.offsets(0))
    assert (writer.metrics["ledger"], writer.metrics["rows"], writer.metrics["bad_rows"]) == ("committed", 0, 3)
    assert site.committed("dead", 1) == ["1", "2", "3"]
    with pytest.raises(BadRows, match=f"{NULL_TOPIC}.*raise bad_row_limit=3"):
        writer(site.rows(*"456789", topic="cast(null as string)"), site.offsets(1))
    writer.close()
    with pytest.raises(BadRows, match=f"{NULL_TOPIC}.*set on_bad_row="):
        site.by_hand(topic=None, guard=guard)(site.rows("4", topic="cast(null as string)"), 1)
    assert site.committed("dead", 1) == ["1", "2", "3"]


@BOTH
@pytest.mark.parametrize("own", ["__fencepost_ledger", "__fencepost_claims", "dead"])
def test_rows_that_name_a_topic_that_is_for_something_else(site: Site, guard: str, own: str) -> None:
    """A row that names the topic of the ledger, of claims or of bad rows is a bad row. A program that names such a topic is refused."""
    site.stub.create_topic("dead")
    writer = site.by_hand(topic=None, guard=guard, on_bad_row="dead")
    topic = f"if(value = 'bad', '{own}', '{TOPIC}')"
    writer(site.rows("good", "bad", "bad", topic=topic, key="'sink'"), site.offsets(0))
    assert (writer.metrics["rows"], writer.metrics["bad_rows"], writer.metrics["reruns"]) == (1, 2, 0)
    assert site.committed() == ["good"]
    found = site.messages("dead", 1)
    assert [dict(each.headers())["fencepost.topic"] for each in found] == [own.encode()] * 2
    with writer.batch(site.rows("1"), site.offsets(1)) as batch:
        batch.write(site.rows("1", topic=f"'{TOPIC}'"))
    refused = pytest.raises(Misuse, match=f"topic='{own}': a topic of its own, not the one that")
    with refused, writer.batch(site.rows("1"), site.offsets(2)) as batch:
        batch.write(site.rows("1"), topic=own)
    writer.close()
    site.by_hand(guard=guard)(site.rows("2"), 2)
    assert site.committed() == ["1", "2", "good"]


@needs((4, 0), "collations")
@pytest.mark.parametrize("guard", ["driver", "turns"])
def test_topics_that_a_collation_takes_for_one(site: Site, guard: str) -> None:
    """Kafka does not: both are topics of the batch."""
    site.stub.create_topic("Out", partitions=1)
    writer = site.by_hand(topic=None, guard=guard)
    topic = f"cast(if(value = 'other', 'Out', '{TOPIC}') as string collate UTF8_LCASE)"
    writer(site.rows("one", "other", topic=topic), site.offsets(0))
    assert site.committed() == ["one"]
    assert site.committed("Out", 1) == ["other"]


@pytest.mark.parametrize("guard", ["driver", "turns"])
def test_what_brokers_refuse_is_not_written_again(site: Site, guard: str) -> None:
    """A row that only the brokers find, because this client may not read the topic's configs: BadRows at once, with their words, and what
    would find it beforehand."""
    site.stub.create_topic("small", partitions=PARTITIONS, config=CONFIGS["small"])
    denied = site.stub.faults.on(Api.DESCRIBE_CONFIGS).forever().error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    writer = site.by_hand(guard=guard, topic="small")
    with pytest.raises(BadRows, match=r"max\.message\.bytes.*would refuse it again.*DESCRIBE_CONFIGS"):
        writer(site.rows("a", "x" * 3000), site.offsets(0))
    assert writer.metrics["reruns"] == 0
    denied.remove()
    assert site.committed("small") == []


@EVERY
def test_several_writes_are_one_batch(site: Site, guard: str) -> None:
    """To two topics, and twice to one: sequences go on, everything is visible, and the ledger has one record for it."""
    site.stub.create_topic("more")
    writer = site.by_hand(guard=guard)
    with writer.batch(site.rows("0"), site.offsets(0)) as batch:
        batch.write(site.rows(*"abc", key="value"))
        batch.write(site.rows(*"def", key="value"))
        batch.write(site.rows("g", key="value"), topic="more")
        assert site.committed() == []
    assert site.committed() == [*"abcdef"]
    assert site.committed("more", 1) == ["g"]
    assert writer.metrics["rows"] == 7
    places = defaultdict(set)
    for message in site.messages():
        places[message.partition()].add(message.key())
    assert {key: partition for partition, keys in places.items() for key in keys} == {
        key.encode(): partition_for_key(key.encode(), PARTITIONS) for key in "abcdef"
    }


def test_columns_that_kafka_has_no_use_for(site: Site) -> None:
    """Spark's sink's words, before anything is begun."""
    with pytest.raises(BadColumns, match="Required attribute 'value' not found"):
        site.by_hand()(site.spark.sql("select 'k' as key"), site.offsets(0))


@pytest.mark.parametrize(
    "setting", ["kafka.acks", "acks", "enable_idempotence", "kafka.enable.idempotence", "transactional_id", "kafka.transactional.id"]
)
def test_what_the_guarantee_rests_on_is_not_set(site: Site, setting: str) -> None:
    """acks, idempotence and the transactional id are the writer's own: refused with the name, before anything is written."""
    value = {"acks": "1", "enable_idempotence": False, "kafka.enable.idempotence": "false", "kafka.acks": "0"}.get(setting, "mine")
    with pytest.raises(ConfigError, match=setting.removeprefix("kafka.")):
        given: dict[str, Any] = {setting: value}
        site.by_hand(**given)(site.rows("1"), site.offsets(0))
    assert site.committed() == []
