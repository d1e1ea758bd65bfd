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
from tests.pages import page_text

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
        SparkWriterStats(sink="s", batch_rows=1, batch_seconds=1.0, committed_at=1.0),
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


def test_records_wait_shows_in_the_numbers_of_its_alert() -> None:
    """FencepostNothingAcknowledged rests on a buffer that is whole while nothing waits."""
    with fencepost.BrokerStub() as stub, fencepost.Producer(stub.settings) as producer:
        producer.send("t", b"x").result(30)
        idle = producer.stats()
        stub.stop_broker(1)
        late = producer.send("t", b"y")
        waiting = producer.stats()
        stub.start_broker(1)
        late.result(30)
        over = producer.stats()
    assert idle.buffer_available_bytes == idle.buffer_total_bytes == over.buffer_available_bytes
    assert waiting.buffer_available_bytes < waiting.buffer_total_bytes
    assert (idle.record_acknowledged_total, waiting.record_acknowledged_total, over.record_acknowledged_total) == (1, 1, 2)
