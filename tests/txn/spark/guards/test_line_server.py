"""The driver's server for tasks, and connections of other programs. Such connections cost almost nothing, and no task waits because of
them.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import msgspec
import pytest

from fencepost.txn.shared.participation import Participation
from fencepost.txn.spark.errors import AttemptConflict, DriverUnreachable
from fencepost.txn.spark.guards import line_server
from fencepost.txn.spark.guards.partition_lease_server import LeaseServer
from tests.waiting import until

CROWD = 300
WAIT_S = 20.0
PARTICIPATION = Participation(transactional_id="t", producer_id=1, producer_epoch=0, transaction_version=2, sequences=(("out", 0, 0),))


class Desk:
    """The server as a task uses it."""

    def __init__(self, port: int, enter: Callable[[], None]) -> None:
        self.port = port
        self.enter = enter

    def connect(self, said: bytes = b"") -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), WAIT_S)
        connection.sendall(said)
        return connection


@pytest.fixture
def desk() -> Iterator[Desk]:
    with LeaseServer("127.0.0.1", "127.0.0.1") as leases:
        shared = leases.begin(PARTICIPATION)

        def enter() -> None:
            with shared.enter(0, 10) as lease:
                lease.give([], done=True)

        yield Desk(shared.port, enter)


def is_closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def test_a_silent_crowd(desk: Desk) -> None:
    """A silent connection has no thread. If there are very many, the server closes the oldest. It serves a task that comes last at once."""
    threads = threading.active_count()
    with contextlib.ExitStack() as open_ones:
        crowd = [open_ones.enter_context(desk.connect()) for _ in range(CROWD)]
        desk.enter()
        assert threading.active_count() <= threads + 1
        until(
            lambda: sum(map(is_closed, crowd)),
            "the first ones are closed",
            good=lambda gone: gone >= CROWD - line_server.UNAUTHENTICATED_MAX,
        )


@pytest.mark.parametrize("dripping", [b"", b'{"secret"', b"x" * 10_000])
def test_a_slow_or_long_first_line_is_refused(desk: Desk, monkeypatch: pytest.MonkeyPatch, dripping: bytes) -> None:
    """The first line must be complete, short, and arrive soon."""
    monkeypatch.setattr(line_server, "HELLO_S", 0.1)
    with desk.connect(dripping) as connection:
        until(lambda: is_closed(connection), "it is closed")


@pytest.mark.parametrize(
    "said",
    [
        '{"secret": "sesäme", "run": 1, "task": 0, "attempt_id": 1}'.encode(),
        b'{"secret": "\\ud800", "run": 1, "task": 0, "attempt_id": 1}',
        b'{"secret": "", "x": ' + b"[" * 4000,
        b'{"secret": 7}',
        b'{"secret": "\xff"}',
        b'{"\xff": 1, "secret": ""}',
        b"\xff\xfe",
        b"GET / HTTP/1.1",
        b"null",
        b"",
    ],
)
def test_what_unauthenticated_connections_say(desk: Desk, said: bytes) -> None:
    """For any input the server answers at most that the sender is none of the driver's tasks. It serves the next task."""
    with desk.connect(said + b"\n") as connection, connection.makefile("rb") as answers:
        try:
            answer = answers.readline()
        except ConnectionResetError:
            answer = b""
    assert answer == b"" or b"wrong secret" in answer
    if b"ses" in said:
        assert b"wrong secret" in answer
    desk.enter()


def test_a_secret_in_another_script() -> None:
    """The server refuses a secret in another script like any wrong secret."""
    with LeaseServer("127.0.0.1", "127.0.0.1") as leases:
        shared = leases.begin(PARTICIPATION)
        with pytest.raises(AttemptConflict, match="wrong secret: this is no task of this driver"):
            msgspec.structs.replace(shared, secret="пароль").enter(0, 10)


def test_a_connection_that_fails_harms_no_other(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """If one connection fails, for instance because the system gives no more threads, the server still serves the next one."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises((AttemptConflict, DriverUnreachable)):
            desk.enter()
    desk.enter()
