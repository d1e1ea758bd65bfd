"""The fixtures of the conformance tests."""

from __future__ import annotations

from tests.conformance.fixtures import java_tools, kafka, kafka_cluster

__all__ = ["java_tools", "kafka", "kafka_cluster"]
