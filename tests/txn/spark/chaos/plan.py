"""The plan of a driver in the chaos tests, one file of JSON, and the events that the driver and its tasks report, one line each.

The parent process and the driver share this module. It starts nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final, Self

import msgspec
from msgspec import Struct

INIT: Final = "after the takeover"
TASKS: Final = "after the tasks"
LEDGER: Final = "after the ledger's record"
END_TXN: Final = "after EndTxn"
POINTS: Final = (INIT, TASKS, LEDGER, END_TXN)
"""Where a driver can die."""


class Strike(Struct, frozen=True, kw_only=True):
    """A fault of one task of one batch, once. `what` is "kill" (the executor's JVM; its workers continue for a while), "lose" (also the
    workers, as with a lost machine), "raise", or "freeze" (the Python worker).

    It waits until strike number `after` has happened, and until some of the task's rows are acknowledged.
    """

    what: str
    batch: int
    task: int
    after: int | None = None


class Plan(Struct, frozen=True, kw_only=True):
    """The plan of one driver. `run`: the number of this start of the campaign.

    `rows`: of each of `batches`, in `maps` partitions, which each task splits into `slices`. `reduces`: partitions of a shuffle before the
    writer, 0 for none. `kill_chance` and `raise_chance`: for each task attempt. `death`: the point at which the driver ends in batch
    `death_batch` or later; with `freezes` it stops there until it is resumed. `stays`: it ends only when there is a file `leave`.
    """

    run: int
    directory: str
    bootstrap: str
    sink: str
    topic: str
    guard: str
    master: str
    tasks: int
    batches: int
    rows: int
    seed: int
    keyed: bool = True
    slices: int = 5
    maps: int = 4
    reduces: int = 0
    kill_chance: float = 0.0
    raise_chance: float = 0.0
    strikes: tuple[Strike, ...] = ()
    death: str | None = None
    death_batch: int = 0
    freezes: bool = False
    stays: bool = False
    settings: dict[str, Any] = {}
    conf: dict[str, str] = {}

    @property
    def expected(self) -> int:
        """How many rows there must be at the end."""
        return self.batches * self.rows

    @classmethod
    def read(cls, path: str) -> Self:
        return msgspec.json.decode(Path(path).read_bytes(), type=cls)

    def write(self) -> Path:
        path = Path(self.directory, f"plan-{self.run}.json")
        path.write_bytes(msgspec.json.encode(self))
        return path

    @property
    def events(self) -> Events:
        return Events(f"{self.directory}/events.jsonl")


class Events(Struct, frozen=True):
    """A file to which processes append, each line at once."""

    path: str

    def tell(self, kind: str, **what: Any) -> None:
        line = msgspec.json.encode({"kind": kind, "pid": os.getpid(), **what}) + b"\n"
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(file, line)
        finally:
            os.close(file)

    def all(self, kind: str | None = None) -> list[dict[str, Any]]:
        """The whole lines so far."""
        try:
            with open(self.path, "rb") as file:
                lines = file.read().split(b"\n")[:-1]
        except FileNotFoundError:
            return []
        events = [msgspec.json.decode(line) for line in lines]
        return [each for each in events if kind is None or each["kind"] == kind]

    def first(self, name: str) -> bool:
        """Whether this is the first call with this name."""
        try:
            os.close(os.open(f"{self.path}.{name}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def happened(self, name: str) -> bool:
        return os.path.exists(f"{self.path}.{name}")
