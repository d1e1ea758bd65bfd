"""Both ends of the guard `turns`: the driver's, which keeps `PartitionLeases`, and a task's, which waits for them.

A task keeps its connection while it writes, with one line of JSON each way. A connection that ends too early means that the task is gone.
"""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from fencepost.producer.foundations.condition import Condition
from fencepost.producer.foundations.rlock import RLock
from fencepost.txn.shared.participation import TP, Participation, Written
from fencepost.txn.spark.errors import AttemptConflict, DriverUnreachable
from fencepost.txn.spark.guards.line_server import LINE_BYTES, LineServer
from fencepost.txn.spark.guards.partition_leases import PartitionLeases, Sequences

CONNECT_S: Final = 5.0
TIMEOUT_S: Final = 20.0
WHY_CHARS: Final = 10_000


class Claim(msgspec.Struct, frozen=True):
    """The first line: the claimant and the task that it claims. `run`: the attempt to write the batch."""

    secret: str
    run: int
    task: int
    attempt_id: int


class Want(msgspec.Struct, frozen=True, tag="want"):
    """A request for any of these, and how long to wait if none of them is free. A partition ANY means one of its topic's."""

    partitions: list[TP]
    wait_s: float


class Back(msgspec.Struct, frozen=True, tag="back"):
    """What the task wrote to granted partitions. `done`: the task has no more rows."""

    written: list[Written]
    done: bool


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The task cannot go on. `why`: its error."""

    why: str


class Answer(msgspec.Struct, frozen=True):
    """`refused`: why the batch can no longer be written. `granted`: the granted partitions. `holders`: the tasks that have the others."""

    refused: str = ""
    granted: Sequences = []
    holders: str = ""


class LeaseServer:
    """Keeps the leases of one driver, on a port of its own at the address `bind`, which executors know as `host`. `close` it."""

    def __init__(self, bind: str, host: str) -> None:
        self._host = host
        self._secret = secrets.token_hex(16)
        self._lock = RLock()
        self._changed = Condition()
        self._run = 0
        self._leases: PartitionLeases | None = None
        self._server = LineServer(
            bind,
            self._talk,
            secret=self._secret,
            refusal=Answer("wrong secret: this is no task of this driver"),
            name="fencepost-turns",
            silence_s=None,
        )

    def begin(self, participation: Participation) -> LeaseClient:
        """A new attempt to write a batch: all of the participation is free, and tasks of earlier attempts are refused."""
        with self._lock:
            self._run += 1
            self._leases = PartitionLeases(participation, rotation=self._run)
            self._changed.notify_all()
            return LeaseClient(self._host, self._server.port, self._secret, self._run)

    def registry(self) -> dict[int, int]:
        """The attempt that has each task. Raises AttemptConflict if a task is not done, or something went wrong."""
        with self._lock:
            return self._leases.registry() if self._leases is not None else {}

    def close(self) -> None:
        with self._lock:
            self._leases = None
            self._changed.notify_all()
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _talk(self, lines: Iterator[bytes], say: Callable[[Any], None]) -> None:
        hello = msgspec.json.decode(next(lines, b"null"), type=Claim)
        with self._lock:
            leases = self._leases
            refused = "its attempt to write the batch is over"
            if leases is not None and hello.run == self._run:
                refused = leases.enter(hello.task, hello.attempt_id)
                self._changed.notify_all()
        say(Answer(refused))
        if refused or leases is None:
            return
        try:
            for line in lines:
                say(self._answer(leases, hello.task, msgspec.json.decode(line, type=Want | Back | Failed)))
        finally:
            with self._lock:
                leases.leave(hello.task)
                self._changed.notify_all()

    def _answer(self, leases: PartitionLeases, task: int, asked: Want | Back | Failed) -> Answer:
        with self._lock:
            if isinstance(asked, Failed):
                leases.fail(task, asked.why)
                self._changed.notify_all()
                return Answer(self._refusal(leases))
            if isinstance(asked, Back):
                leases.take_back(task, asked.written)
                if asked.done:
                    leases.finish(task)
                self._changed.notify_all()
                return Answer(self._refusal(leases))
        deadline = time.monotonic() + asked.wait_s
        while True:
            seen = self._changed.notified
            with self._lock:
                refused = self._refusal(leases)
                granted = [] if refused else leases.grant(task, asked.partitions)
                if granted or refused or time.monotonic() >= deadline:
                    return Answer(refused, granted, "" if granted else leases.holders(asked.partitions))
            self._changed.wait(seen, deadline)

    def _refusal(self, leases: PartitionLeases) -> str:
        return leases.trouble if leases is self._leases else "its attempt to write the batch is over"


class LeaseClient(msgspec.Struct, frozen=True):
    """What a task gets, to ask with. Its secret is of use only to tasks."""

    host: str
    port: int
    secret: str
    run: int

    def enter(self, task: int, attempt_id: int) -> TaskLease:
        """Raises AttemptConflict if another attempt has the task, and DriverUnreachable if the driver does not answer."""
        try:
            sock = socket.create_connection((self.host, self.port), CONNECT_S)
        except OSError as error:
            raise DriverUnreachable(
                f"the driver at {self.host}:{self.port} cannot be reached from this executor ({error}): open that way, or set"
                " guard='kafka-claims'"
            ) from error
        lease = TaskLease(sock, attempt_id)
        try:
            lease.ask(Claim(self.secret, self.run, task, attempt_id), TIMEOUT_S)
        except BaseException:
            lease.close()
            raise
        return lease

    def __repr__(self) -> str:
        return f"LeaseClient({self.host}:{self.port}, run {self.run})"


class TaskLease:
    """A task's connection. Each call raises AttemptConflict once the batch can no longer be written."""

    def __init__(self, sock: socket.socket, attempt_id: int) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = sock
        self._answers = sock.makefile("rb")
        self._attempt_id = attempt_id

    def take(self, wanted: Sequence[TP], wait_s: float) -> Sequences:
        """Some of these, with their next sequences. Raises AttemptConflict if none became free in that time. Without a wait it then
        returns nothing."""
        answer = self.ask(Want(list(wanted), wait_s), wait_s + TIMEOUT_S)
        if wait_s and not answer.granted:
            raise AttemptConflict(f"no Kafka partition became free within {wait_s:g} s (timeout_ms): {answer.holders}")
        return answer.granted

    def give(self, written: Sequence[Written], *, done: bool = False) -> None:
        """The records are acknowledged; `done`: and there are no more."""
        self.ask(Back(list(written), done), TIMEOUT_S)

    def fail(self, error: Exception) -> None:
        """Tell the driver why the task fails, for the errors of the other tasks: Spark may report one of those first. An error without an
        answer is ignored, because this task has its own."""
        with suppress(AttemptConflict):
            self.ask(Failed(f"{error}"[:WHY_CHARS] or type(error).__name__), CONNECT_S)

    def ask(self, what: Claim | Want | Back | Failed, timeout_s: float) -> Answer:
        try:
            self._socket.settimeout(timeout_s)
            self._socket.sendall(msgspec.json.encode(what) + b"\n")
            said = self._answers.readline(LINE_BYTES)
        except OSError as error:
            raise AttemptConflict(f"the driver does not answer this task ({error})") from error
        if not said.endswith(b"\n"):
            raise AttemptConflict("the driver does not answer this task: the connection was closed")
        answer = msgspec.json.decode(said, type=Answer)
        if answer.refused:
            raise AttemptConflict(f"task attempt {self._attempt_id} may not write: {answer.refused}")
        return answer

    def close(self) -> None:
        self._answers.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, Exception) and not isinstance(error, AttemptConflict):
            self.fail(error)
        self.close()
