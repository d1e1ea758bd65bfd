"""Producers of `fencepost.compat.aiokafka` for its tests."""

from __future__ import annotations

from typing import Any

from fencepost.broker_stub import BrokerStub
from fencepost.compat.aiokafka import AIOKafkaProducer

SOON: dict[str, Any] = {"retry_backoff_ms": 5, "request_timeout_ms": 10_000}


def made(stub: BrokerStub, **arguments: Any) -> AIOKafkaProducer:
    """A producer that retries without long pauses."""
    return AIOKafkaProducer(bootstrap_servers=stub.bootstrap, **{**SOON, **arguments})
