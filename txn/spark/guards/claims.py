"""Both ends of the guard `claims`: a server in the driver that gives each Spark task to the first attempt that asks, and the task's
question.

One line of JSON each way over TCP. A client without the batch's secret gets no answer.
"""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final, Self

import msgspec

from fencepost.txn.spark.errors import AttemptConflict, DriverUnreachable
from fencepost.txn.spark.guards.attempt_registry import AttemptRegistry
from fencepost.txn.spark.guards.line_server import LINE_BYTES, LineServer

TIMEOUT_S: Final = 20.0


class Claim(msgspec.Struct, frozen=True):
    """The claimant and the task that it claims. `run`: the attempt to write the batch."""

    secret: str
    run: int
    task: int
    attempt_id: int


class ClaimServer:
    """Serves the claims of one driver, on a port of its own at the address `bind`, which executors know as `host`. `close` it."""

    def __init__(self, bind: str, host: str) -> None:
        self._host = host
        self._secret = secrets.token_hex(16)
        self._lock = threading.Lock()
        self._run = 0
        self._registry = AttemptRegistry()
        self._server = LineServer(
            bind, self._talk, secret=self._secret, refusal="no claim of this driver's", name="fencepost-claims", silence_s=TIMEOUT_S
        )

    def begin(self) -> ClaimDesk:
        """A new attempt to write a batch: nothing is claimed, and claims of earlier attempts are refused."""
        with self._lock:
            self._run += 1
            self._registry = AttemptRegistry()
            return ClaimDesk(self._host, self._server.port, self._secret, self._run)

    def registry(self) -> dict[int, int]:
        """The attempt that has each task. Raises AttemptConflict if a second attempt asked for a task."""
        with self._lock:
            return self._registry.told()

    def close(self) -> None:
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def answer(self, claim: Claim) -> str:
        """The answer to the claimant; empty: it may write."""
        with self._lock:
            if claim.run != self._run:
                return "its attempt to write the batch is over"
            return self._registry.ask(claim.task, claim.attempt_id)

    def _talk(self, lines: Iterator[bytes], say: Callable[[Any], None]) -> None:
        for line in lines:
            say(self.answer(msgspec.json.decode(line, type=Claim)))
            return


class ClaimDesk(msgspec.Struct, frozen=True):
    """What a task gets, to claim with. Its secret is of use only to claimants."""

    host: str
    port: int
    secret: str
    run: int

    def claim(self, task: int, attempt_id: int) -> None:
        """Raises AttemptConflict if another attempt has the task, and DriverUnreachable if the driver does not answer."""
        request = msgspec.json.encode(Claim(self.secret, self.run, task, attempt_id)) + b"\n"
        try:
            with socket.create_connection((self.host, self.port), TIMEOUT_S) as link, link.makefile("rb") as answers:
                link.sendall(request)
                said = answers.readline(LINE_BYTES)
        except OSError as error:
            raise unreachable(self.host, self.port, error) from error
        if not said.endswith(b"\n"):
            raise AttemptConflict(f"the driver's claims at {self.host}:{self.port} did not answer")
        if refused := msgspec.json.decode(said, type=str):
            raise AttemptConflict(f"task attempt {attempt_id} may not write: {refused}")

    def __repr__(self) -> str:
        return f"ClaimDesk({self.host}:{self.port}, run {self.run})"


def unreachable(host: str, port: int, error: OSError) -> DriverUnreachable:
    """The error of an executor that cannot reach its driver."""
    return DriverUnreachable(
        f"the driver's claims at {host}:{port} cannot be reached from this executor ({error}): open that way, or take"
        " guard='kafka-claims' or 'barrier'"
    )
