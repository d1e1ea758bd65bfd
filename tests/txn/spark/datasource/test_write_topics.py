"""Several topics in one write of `format("fencepost")`: a column says where a row goes, an option which topics there may be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from fencepost.broker_stub import BrokerStub
from fencepost.producer.errors import Misuse
from fencepost.txn.spark import route
from fencepost.txn.spark.datasource.datasource import register
from fencepost.txn.spark.errors import AttemptConflict, BadRows
from fencepost.txn.spark.rows.columns import BadColumns
from fencepost.txn.spark.rows.routing import ROUTE
from tests.drawn import drawn
from tests.reading import read_messages, read_values
from tests.txn.spark.datasource.write_steps import Play
from tests.txn.spark.site import Site

COUNTS = {"few": 1, "many": 3}
BOTH = "many,few"


@pytest.fixture(params=[0, 2], ids=["TV1", "TV2"])
def stub(request: pytest.FixtureRequest) -> Iterator[BrokerStub]:
    with BrokerStub(transaction_version=request.param) as stub:
        make_topics(stub)
        yield stub


def make_topics(stub: BrokerStub) -> None:
    for topic, partitions in {**COUNTS, "other": 1, "letters": 1}.items():
        stub.create_topic(topic, partitions=partitions)


def found(bootstrap: str) -> dict[str, list[str]]:
    return {topic: sorted(value.decode() for value in read_values(bootstrap, topic, range(count))) for topic, count in COUNTS.items()}


def placed(bootstrap: str, topic: str) -> dict[bytes | None, int | None]:
    """The partition of each value."""
    return {message.value(): message.partition() for message in read_messages(bootstrap, topic, range(COUNTS[topic]))}


def ints(*numbers: int | None) -> Any:
    return pa.array(numbers, pa.int32())


def test_rows_go_where_their_column_says(stub: BrokerStub) -> None:
    """By key, by partition, or by neither: then each task has a partition of each topic that its rows name."""
    play = Play(stub.bootstrap, None, topics=BOTH, jobId="j", version=1)
    begun = play.begin()
    by_partition = play.task(begun, 0, topic=["few", "many"], value=["a", "b"], partition=ints(0, 2))
    keyless = [play.task(begun, task, topic=["many"] * 2, value=[f"c{task}", f"d{task}"]) for task in (1, 2)]
    play.commit(by_partition, *keyless, begun=begun)
    assert found(stub.bootstrap) == {"few": ["a"], "many": ["b", "c1", "c2", "d1", "d2"]}
    places = placed(stub.bootstrap, "many")
    assert places[b"c1"] == places[b"d1"] != places[b"c2"] == places[b"d2"]
    assert len({*places.values()}) == 3, "a partition has one task"


def test_a_topic_with_fewer_partitions_than_tasks(stub: BrokerStub) -> None:
    """Says how to bring its rows together."""
    play = Play(stub.bootstrap, None, topics=BOTH)
    begun = play.begin()
    play.task(begun, 0, topic=["few", "many"], value=["a", "b"])
    advice = r"more Spark tasks with rows of topic 'few' than it has .* df.coalesce\(1\) or less, or .* route\(df, {'few': 1, 'many': 3}\)"
    with pytest.raises(AttemptConflict, match=advice):
        play.task(begun, 1, topic=["many", "few"], value=["c", "d"])
    with pytest.raises(
        AttemptConflict, match=r"partition 0 of topic 'few' is produced by two Spark tasks, 0 and 2; .* route\(df, {'few': 1, 'many'"
    ):
        play.task(begun, 2, topic=["few"], key=["k"], value=["e"])


def test_other_topics_and_none(stub: BrokerStub) -> None:
    """In Spark's words, and with the option that names them; or, with onBadRow, where such rows go."""
    rows: dict[str, Any] = {"topic": ["few", None, "other"], "value": ["good", "null", "other"]}
    play = Play(stub.bootstrap, None, topics=BOTH)
    begun = play.begin()
    with pytest.raises(BadRows, match=r"null topic present in the data\. Use the topic option for setting a default topic\."):
        play.commit(play.task(begun, 0, **rows), begun=begun)
    play.abort(begun=begun)
    begun = play.begin()
    with pytest.raises(BadRows, match="topic 'other' is none of the option topics='few,many'"):
        play.commit(play.task(begun, 0, topic=["other"], key=["k"], value=["v"]), begun=begun)
    play.abort(begun=begun)
    kept = Play(stub.bootstrap, None, topics=BOTH, onBadRow="letters")
    begun = kept.begin()
    kept.commit(kept.task(begun, 0, **rows), begun=begun)
    assert found(stub.bootstrap) == {"few": ["good"], "many": []}
    assert sorted(read_values(stub.bootstrap, "letters", range(1))) == [b"null", b"other"]
    assert read_values(stub.bootstrap, "other", range(1)) == []


def test_a_route_for_other_counts_puts_no_row_into_another_topic(stub: BrokerStub) -> None:
    """Numbers that `route` gave for fewer partitions than there are: the column decides."""
    play = Play(stub.bootstrap, None, topics=BOTH)
    begun = play.begin()
    numbers = ints(0, 1, 9, -1)  # of few; of many; of nothing
    told = play.task(begun, 0, topic=["many", "few", "few", "many"], value=["a", "b", "c", "d"], **{ROUTE: numbers})
    play.commit(told, begun=begun)
    assert found(stub.bootstrap) == {"few": ["b", "c"], "many": ["a", "d"]}


def test_the_option_topic_overrides_the_column(stub: BrokerStub) -> None:
    """The option wins over the column, even where the column is null, as in Spark's sink. Without both, the error has the words of Spark's
    sink. Without the option `topics`, it names that option."""
    play = Play(stub.bootstrap, "few")
    begun = play.begin()
    play.commit(play.task(begun, 0, topic=["many", None], value=["a", "b"]), begun=begun)
    assert found(stub.bootstrap) == {"few": ["a", "b"], "many": []}
    unnamed = Play(stub.bootstrap, None)
    with pytest.raises(BadColumns, match="topic option required when no 'topic' attribute is present"):
        unnamed.task(begun, 0, value=["a"])
    with pytest.raises(Misuse, match=r'the option topics is missing: .*: topics="a,b"'):
        unnamed.task(begun, 0, topic=["few"], value=["a"])


@drawn(2, of="long queries of Spark")
def test_in_spark(site: Site) -> None:
    """Rows with keys, routed, and rows without, in one batch each."""
    make_topics(site.stub)
    register(site.spark)
    text = "cast(id as string)"
    rows = site.spark.range(0, 60, 1, 2).selectExpr(f"{text} as value", "if(id % 3 = 0, 'few', 'many') as topic", f"{text} as key")
    given = {"kafka.bootstrap.servers": site.bootstrap, "sinkId": "sink", "topics": BOTH}
    route(rows, COUNTS).write.format("fencepost").mode("append").options(**given).save()
    few = sorted(str(number) for number in range(0, 60, 3))
    assert found(site.bootstrap)["few"] == few
    assert len(found(site.bootstrap)["many"]) == 40
    rows.drop("key").coalesce(1).write.format("fencepost").mode("append").options(**given).save()
    assert found(site.bootstrap)["few"] == sorted([*few, *few])
    del given["topics"]
    with pytest.raises(PySparkException, match="the option topics is missing"):
        rows.write.format("fencepost").mode("append").options(**given).save()
