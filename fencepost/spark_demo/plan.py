"""The plan for the demo's driver, as a file of JSON, and the driver's events, as a file with a line of JSON for each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Self

import msgspec
from msgspec import Struct


class Plan(Struct, frozen=True, kw_only=True):
    """`batches`: the number of batches; the query ends after the last."""

    directory: str
    source: str
    bootstrap: str
    topic: str
    sink: str
    guard: str
    partitions: int
    batch_size: int
    files_per_batch: int
    batches: int

    @property
    def checkpoint(self) -> str:
        return f"{self.directory}/checkpoint"

    @classmethod
    def read(cls, path: str) -> Self:
        return msgspec.json.decode(Path(path).read_bytes(), type=cls)

    def write(self) -> Path:
        path = Path(self.directory, "plan.json")
        path.write_bytes(msgspec.json.encode(self))
        return path

    def tell(self, event: str, **what: Any) -> None:
        """Write an event. The driver calls it."""
        file = os.open(f"{self.directory}/events.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(file, msgspec.json.encode({"event": event, "pid": os.getpid(), **what}) + b"\n")
        finally:
            os.close(file)

    def told(self, event: str) -> list[dict[str, Any]]:
        """The events with this name so far, of all drivers."""
        try:
            lines = Path(self.directory, "events.jsonl").read_bytes().split(b"\n")[:-1]
        except FileNotFoundError:
            return []
        return [each for each in map(msgspec.json.decode, lines) if each["event"] == event]
