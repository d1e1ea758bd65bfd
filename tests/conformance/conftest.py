"""The fixtures of the conformance tests."""

from __future__ import annotations

from tests.conformance.fixtures import kafka, kafka_cluster

__all__ = ["kafka", "kafka_cluster"]
