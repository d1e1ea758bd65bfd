"""The limits of topics: which topics the writer asks for, and when."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.txn.spark.connection.secrets import KafkaSettings
from fencepost.txn.spark.rows.topic_limits import Limits, TopicLimits
from fencepost.txn.spark.sink import write_execution
from fencepost.txn.spark.sink.metrics import MetricsHistory
from fencepost.txn.spark.sink.settings import WriterSettings
from fencepost.txn.spark.sink.write_execution import LIMITS_S, WriteExecution


def test_only_topics_in_use_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each topic that a batch names is asked for once in LIMITS_S. A topic that no batch names any more is not asked for again."""
    now, asked = [1_000.0], []

    def ask(settings: Any, topics: list[str], timeout_s: float) -> TopicLimits:
        asked.append(list(topics))
        return TopicLimits({topic: Limits(bytes_max=int(now[0])) for topic in topics})

    monkeypatch.setattr(write_execution, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(write_execution, "ask_limits", ask)
    kafka = KafkaSettings.of({"bootstrap_servers": "localhost:1"}, None, names=())
    execution = WriteExecution(WriterSettings(sink_id="sink", topic="out"), kafka, MetricsHistory())

    def limits(*topics: str) -> list[int]:
        found = execution._limits_of(topics)
        return [found.bytes_max(topic) for topic in topics]

    assert limits("b", "a") == [1_000, 1_000]
    assert limits("a") == [1_000]
    now[0] += LIMITS_S / 2
    assert limits("a", "c") == [1_000, 1_030]
    assert asked == [["a", "b"], ["c"]]
    now[0] += LIMITS_S / 2
    assert limits("a", "c") == [1_060, 1_030]
    assert asked == [["a", "b"], ["c"], ["a"]]
    assert set(execution._limits.topics) == {"a", "c"}
    for number in range(50):
        now[0] += LIMITS_S
        limits(f"day-{number}")
    assert asked[3:] == [[f"day-{number}"] for number in range(50)]
    execution.forget_limits()
    limits("day-49")
    assert asked[-2:] == [["day-49"], ["day-49"]]
    execution.close()
