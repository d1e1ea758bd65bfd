"""The fixtures of the conformance tests, and which of them a run takes as a whole file."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.conformance.fixtures import java_tools, kafka, kafka_cluster
from tests.drawn import drawn_files

__all__ = ["java_tools", "kafka", "kafka_cluster"]

HERE: Final = Path(__file__).parent
ALWAYS: Final = {
    "test_configuration_page.py",
    "test_configured.py",
    "test_conformance.py",
    "test_conformance_3_9.py",
    "test_producer_on_kafka.py",
    "test_transaction_levels.py",
    "test_transaction_rows.py",
    "test_transactions_on_kafka.py",
}
"""What every run takes: the recorded answers, which have samples of their own, and the promises of the producer and of transactions."""
SAMPLE: Final = drawn_files(3, of="the stub beside Apache Kafka")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Most files start brokers of their own, for half a minute: a run takes a third of them."""
    for item in items:
        if item.path.parent == HERE and item.path.name not in ALWAYS:
            item.add_marker(SAMPLE)
