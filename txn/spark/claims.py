"""The claims guard's two ends: a server beside the driver that gives each Spark task to the first attempt that asks, and the question.

An attempt that comes second is refused, and from then on the batch is tainted, whether or not Spark ever tells of that attempt. One line of
JSON each way over TCP; whoever does not know the batch's secret is not answered.
"""

from __future__ import annotations

import hmac
import logging
import secrets
import socket
import socketserver
import threading
from typing import Any, Final, Self

import msgspec

from txn.spark.errors import Tainted

log = logging.getLogger("fencepost.spark")

TIMEOUT_S: Final = 20.0
LINE_BYTES: Final = 4096


class Claim(msgspec.Struct, frozen=True):
    """Who asks for what. `run`: of the attempt to write the batch."""

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
        self._winners: dict[int, int] = {}
        self._denied: list[Claim] = []
        self._server = _Server((bind, 0), _Handler)
        self._server.book = self
        self._thread = threading.Thread(target=self._server.serve_forever, name="fencepost-claims", daemon=True)
        self._thread.start()

    def begin(self) -> ClaimDesk:
        """A new attempt to write a batch: nothing is claimed, and claims of earlier ones are refused."""
        with self._lock:
            self._run += 1
            self._winners = {}
            self._denied = []
            return ClaimDesk(self._host, int(self._server.server_address[1]), self._secret, self._run)

    def winners(self) -> dict[int, int]:
        """The attempt that has each task. Raises Tainted where another one asked for it, too."""
        with self._lock:
            if self._denied:
                one = self._denied[0]
                raise Tainted(
                    f"{len(self._denied)} more task attempts than tasks: task {one.task} belongs to attempt {self._winners[one.task]},"
                    f" and attempt {one.attempt_id} asked for it"
                )
            return dict(self._winners)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def answer(self, claim: Claim) -> str:
        """What the claimant is told; empty: it may write."""
        if not hmac.compare_digest(claim.secret, self._secret):
            return "no claim of this driver's"
        with self._lock:
            if claim.run != self._run:
                return "its attempt to write the batch is over"
            winner = self._winners.setdefault(claim.task, claim.attempt_id)
            if winner == claim.attempt_id:
                return ""
            self._denied.append(claim)
            return f"task {claim.task} belongs to attempt {winner}"


class ClaimDesk(msgspec.Struct, frozen=True):
    """What a task is sent, to ask with. Its secret is of no use to anybody but claimants."""

    host: str
    port: int
    secret: str
    run: int

    def claim(self, task: int, attempt_id: int) -> None:
        """Raises Tainted where another attempt has the task, or the driver cannot be asked."""
        request = msgspec.json.encode(Claim(self.secret, self.run, task, attempt_id)) + b"\n"
        try:
            with socket.create_connection((self.host, self.port), TIMEOUT_S) as link, link.makefile("rb") as answers:
                link.sendall(request)
                said = answers.readline(LINE_BYTES)
        except OSError as error:
            raise Tainted(
                f"the driver's claims at {self.host}:{self.port} cannot be reached from this executor ({error}): open that way, or take"
                " guard='kafka-claims'"
            ) from error
        if not said.endswith(b"\n"):
            raise Tainted(f"the driver's claims at {self.host}:{self.port} did not answer")
        if refused := msgspec.json.decode(said, type=str):
            raise Tainted(f"task attempt {attempt_id} may not write: {refused}")

    def __repr__(self) -> str:
        return f"ClaimDesk({self.host}:{self.port}, run {self.run})"


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    book: ClaimServer


class _Handler(socketserver.StreamRequestHandler):
    timeout = TIMEOUT_S

    def handle(self) -> None:
        server: Any = self.server
        try:
            claim = msgspec.json.decode(self.rfile.readline(LINE_BYTES), type=Claim)
            self.wfile.write(msgspec.json.encode(server.book.answer(claim)) + b"\n")
        except (msgspec.DecodeError, OSError) as error:
            log.debug("claims: %s said nothing that can be read: %s", self.client_address, error)
