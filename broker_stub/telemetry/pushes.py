"""What clients have pushed, for tests: the newest pushes, within a memory limit."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple
from uuid import UUID

PUSHES_MAX: Final = 1000
BYTES_MAX: Final = 16 << 20


class TelemetryPush(NamedTuple):
    """One push that a broker took. `metrics`: OTLP's MetricsData, decompressed. `terminating`: it is the client's last one. `at_ms`: the
    stub's time, in milliseconds since 1970."""

    node: int
    at_ms: int
    client_instance_id: UUID
    client_id: str | None
    subscription_id: int
    terminating: bool
    metrics: bytes


class Pushes:
    """The newest ones; older ones are forgotten."""

    def __init__(self) -> None:
        self._kept: deque[TelemetryPush] = deque()
        self._bytes = 0

    def __iter__(self) -> Iterator[TelemetryPush]:
        return iter(self._kept)

    def add(self, push: TelemetryPush) -> None:
        self._kept.append(push)
        self._bytes += len(push.metrics)
        while len(self._kept) > PUSHES_MAX or (self._bytes > BYTES_MAX and len(self._kept) > 1):
            self._bytes -= len(self._kept.popleft().metrics)
