"""`explain` says how a DataFrame would be written, and does nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from fencepost.broker_stub import BrokerStub
from fencepost.producer.wire.codes import Api
from fencepost.txn.spark import BadColumns
from tests.txn.spark.site import TOPIC, AnySite, Site

ASKED_ONLY = {Api.API_VERSIONS, Api.METADATA, Api.LIST_OFFSETS, Api.FETCH, Api.SASL_HANDSHAKE, Api.SASL_AUTHENTICATE}


def said(text: str) -> dict[str, str]:
    """Its lines by their names."""
    return {line[2:15].strip(): line[15:] for line in text.splitlines()[1:]}


def test_what_it_says(site: Site) -> None:
    """Columns, partitions, routing, tasks, guard with its reason, staging, transaction, ledger."""
    writer = site.by_hand(guard="auto", max_block_ms=5_000)
    text = writer.explain(site.rows("1", key="value", other="1"))
    assert text.startswith("sink 'sink'\n")
    lines = said(text)
    assert lines["columns"] == "key string, value string; ignored: other"
    assert lines["topics"] == "out (3 partitions)"
    assert lines["routing"] == "by key (murmur2): rows are not shuffled"
    assert lines["tasks"] == "as many as Spark makes of the DataFrame"
    assert lines["guard"] == "turns: executors reach the driver, and rows need not be moved"
    assert lines["staging"].startswith("auto: after a transaction that took too long")
    assert lines["transaction"] == "id 'fencepost.sink', open for at most 300000 ms"
    assert lines["bad rows"] == "fail the batch"
    assert lines["ledger"] == "__fencepost_ledger: no entry"
    writer(site.rows("1"), site.offsets(0))
    assert "batch 0 of query 'by hand'" in said(writer.explain(site.rows("1")))["ledger"]


def test_it_changes_nothing(site: Site) -> None:
    """No transaction, no topic, no job: not for a stream, and not for a topic that is not there."""
    writer = site.by_hand(topic="absent")
    lines = said(writer.explain(site.lines))
    assert lines["topics"] == "absent (not there; the brokers may create it)"
    assert lines["tasks"] == "settled with each batch"
    assert lines["routing"] == "no column key or partition: a shuffle is settled with each batch"
    asked = {Api(exchange.api) for exchange in site.stub.journal.requests()}
    assert asked <= ASKED_ONLY
    assert site.committed(TOPIC) == []
    with pytest.raises(BadColumns):
        writer.explain(site.lines.selectExpr("1 as value"))


SPREAD = "no column key or partition: one shuffle spreads the rows over all partitions, so that more tasks write"


@pytest.mark.parametrize(
    ("settings", "slots", "keyed", "routing"),
    [
        ({"guard": "kafka-claims"}, 2, False, "no column key or partition: rows are not shuffled"),
        ({"guard": "kafka-claims"}, 16, False, SPREAD),
        ({"guard": "kafka-claims"}, None, False, SPREAD),
        ({"guard": "kafka-claims", "tasks": 2}, 16, False, "no column key or partition: rows are not shuffled"),
        ({"guard": "kafka-claims"}, 2, True, "by key (murmur2): one shuffle brings the rows of each partition into one task"),
        ({"guard": "turns"}, 16, False, "no column key or partition: rows are not shuffled"),
        ({"guard": "driver"}, 16, True, "by key (murmur2): the driver collects the rows without a shuffle"),
    ],
)
def test_whether_rows_are_shuffled(
    site: Site, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], slots: int | None, keyed: bool, routing: str
) -> None:
    """`explain` names a shuffle exactly if the write makes one. `slots`: the tasks that can run at once; None under Connect."""
    monkeypatch.setattr("fencepost.txn.spark.sink.write_execution.slots_that_may_come", lambda session: slots)
    rows = site.rows("1", key="value") if keyed else site.rows("1")
    assert said(site.by_hand(**settings).explain(rows))["routing"] == routing


def test_a_guard_that_cannot_be_had(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """`explain` shows why the guard is unavailable, and does not raise."""
    monkeypatch.setattr("fencepost.txn.spark.guards.selection.allocation_and_speculation", lambda context: (False, True))
    lines = said(site.by_hand(guard="turns").explain(site.rows("1", key="value")))
    assert lines["guard"].startswith("unavailable: guard='turns': with spark.speculation=true every batch with a copied task is written")


def test_no_secret_is_shown(spark: SparkSession, tmp_path: Path) -> None:
    """Neither `explain` nor the writer's repr shows a secret."""
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required username='u' password='hush-hush';"
    with BrokerStub(sasl={"u": "hush-hush"}) as stub:
        stub.create_topic(TOPIC)
        site = AnySite(spark, stub.bootstrap, tmp_path)
        settings = {"sasl.jaas.config": login, "sasl.mechanism": "PLAIN", "security.protocol": "SASL_PLAINTEXT"}
        writer = site.writer(**{f"kafka.{name}": value for name, value in settings.items()})
        text = writer.explain(site.rows("1"))
    assert "hush-hush" not in text + repr(writer) + repr(writer.kafka)
    assert "sasl.mechanism=PLAIN" in said(text)["settings"]
