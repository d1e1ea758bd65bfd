"""docs/operating.md, its alert rules and its dashboard name what exists."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import fencepost
from fencepost.producer.observe.prometheus import LINES
from fencepost.txn.jobs.stats import Counters as JobCounters
from fencepost.txn.pipeline.stats import Counters as PipelineCounters
from fencepost.txn.spark import SparkWriterStats
from fencepost.txn.spark.sink.metrics import MetricsHistory
from tests.pages import page_text
from tests.waiting import until

PAGE: Final = page_text("operating.md")
ALERTS: Final = page_text("operating/alerts.yml")
DASHBOARD: Final = page_text("operating/dashboard.json")
ELSEWHERE: Final = {"spark.md": "Spark writer", "jobs.md": "jobs"}
"""Pages with a runbook of their own."""


def families() -> set[str]:
    """The names of all metrics."""
    samples: list[Any] = [
        PipelineCounters(0, None).snapshot(),
        JobCounters(0, None).snapshot(),
        fencepost.TransactionalPool(bootstrap_servers="localhost:1", transactional_id_prefix="shop").stats(),
        SparkWriterStats(sink="s", started_at=0.0, batch_rows=1, batch_seconds=1.0, committed_at=1.0),
    ]
    with fencepost.BrokerStub() as stub, fencepost.Producer(bootstrap_servers=stub.bootstrap) as producer:
        producer.send("t", b"x").result(30)
        samples.append(producer.stats())
    assert {type(each) for each in samples} <= LINES.keys()
    return set(re.findall(r"^# TYPE (\w+)", fencepost.prometheus_text(*samples), re.MULTILINE))


def test_each_metric_exists() -> None:
    """A metric that is renamed would silence its alert."""
    named = set(re.findall(r"fencepost_[a-z]+_\w+", ALERTS + DASHBOARD))
    assert len(named) > 25
    assert named - families() == set()


def test_a_query_that_never_commits() -> None:
    """Its writer has, from its first snapshot on, a number by which FencepostSparkStands and the dashboard tell since when it stands."""
    fresh = fencepost.prometheus_text(MetricsHistory().stats("s"))
    assert "fencepost_spark_committed_at_seconds" not in fresh
    ages = re.findall(r"time\(\) - \((fencepost_spark_committed_at_seconds) or (\w+)\)", ALERTS + DASHBOARD)
    assert len(ages) == 2
    assert all(re.search(rf"^{since}\{{sink=\"s\"\}} \d+", fresh, re.MULTILINE) for _, since in ages)


def test_the_dashboard_is_complete() -> None:
    """Grafana's importer needs these. Each panel has a query, and no two share an id or a place."""
    board = json.loads(DASHBOARD)
    panels = [each for each in board["panels"] if each["type"] != "row"]
    assert all(each["targets"] and each["title"] for each in panels)
    assert len({each["id"] for each in board["panels"]}) == len(board["panels"])
    assert len({(each["gridPos"]["x"], each["gridPos"]["y"]) for each in board["panels"]}) == len(board["panels"])
    assert board["templating"]["list"][0]["name"] == "datasource"


def test_each_alert_is_on_the_page() -> None:
    """Under the heading to which its rule points."""
    rules = re.findall(r"alert: (\w+)\n(.*?)(?=\n      - alert|\Z)", ALERTS, re.DOTALL)
    assert len(rules) == ALERTS.count("alert: ")
    for name, rule in rules:
        (anchor,) = re.findall(r"docs/operating\.md#([\w-]+)", rule)
        section = next(each for each in PAGE.split("\n### ")[1:] if each.split("\n")[0].lower().replace(" ", "-") == anchor)
        assert f"`{name}`" in section, name
        assert "expr:" in rule


def test_each_error_is_in_a_runbook() -> None:
    """Every public exception is in the table here, or in the runbook of Spark or of jobs."""
    pages = PAGE + "".join(map(page_text, ELSEWHERE))
    names = [name for name in dir(fencepost) if isinstance(kind := getattr(fencepost, name), type) and issubclass(kind, Exception)]
    assert len(names) > 40
    assert [name for name in names if f"`{name}`" not in pages] == []


def _whole(stats: fencepost.ProducerStats) -> bool:
    return stats.buffer_available_bytes == stats.buffer_total_bytes


def test_records_wait_shows_in_the_numbers_of_its_alert() -> None:
    """FencepostNothingAcknowledged rests on a buffer that is whole while nothing waits."""
    with fencepost.BrokerStub() as stub, fencepost.Producer(stub.settings) as producer:
        producer.send("t", b"x").result(30)
        idle = until(producer.stats, "the buffer to be whole", good=_whole)  # soon after the result
        stub.stop_broker(1)
        late = producer.send("t", b"y")
        waiting = producer.stats()
        stub.start_broker(1)
        late.result(30)
        over = until(producer.stats, "the buffer to be whole again", good=_whole)
    assert waiting.buffer_available_bytes < waiting.buffer_total_bytes
    assert (idle.record_acknowledged_total, waiting.record_acknowledged_total, over.record_acknowledged_total) == (1, 1, 2)
