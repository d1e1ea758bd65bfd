"""The interface of a stock transactional client, with one implementation for each of Java, confluent-kafka, aiokafka and kafka-python.

A send ends with its acknowledgement. A client's refusal is raised as `Refused`, with the client's own name for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

DEADLINE_S = 20.0
TIMEOUT_MS = 60_000  # of a transaction


class Refused(Exception):
    """A client refused a call, with the client's own name for the error."""


class Sender(Protocol):
    """A transactional producer that is registered."""

    def begin(self) -> None: ...

    def send(self, topic: str, partition: int, value: str) -> None: ...

    def send_offset(self, member: Any, topic: str, partition: int, offset: int) -> None:
        """Send an offset in the transaction, for this member of a group."""
        ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


class Maker(Protocol):
    """Creates clients. `fenced`: the client's name for a producer that another one has replaced."""

    name: str
    fenced: frozenset[str]

    def open(self, bootstrap: str, transactional_id: str, *, timeout_ms: int = TIMEOUT_MS) -> Sender: ...

    def join(self, bootstrap: str, group: str, topic: str, count: int) -> Any:
        """A member of the group that has read so many records. `leave` ends it."""
        ...

    def leave(self, member: Any) -> None: ...

    def read(self, bootstrap: str, topic: str, partitions: int, count: int) -> list[str]:
        """The first so many committed records of all partitions, sorted."""
        ...

    def close(self) -> None: ...


def gather(count: int, poll: Callable[[], list[bytes]]) -> list[str]:
    """So many values, sorted, or those that come in time."""
    values: list[str] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(values) < count and time.monotonic() < deadline:
        values += [value.decode() for value in poll()]
    return sorted(values)


@contextmanager
def closing_all() -> Iterator[list[Sender]]:
    """Closes all senders that are added to it, the newest first."""
    opened: list[Sender] = []
    try:
        yield opened
    finally:
        for sender in reversed(opened):
            sender.close()
