"""What answers at the address of a control may be anything: a command says what it found in one line, within its deadline."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from fencepost.cli import control_client
from fencepost.cli.error_lines import CommandError

pytestmark = pytest.mark.timeout(120)

RESET = struct.pack("ii", 1, 0)
SAY_S = 0.05


def whole(status: bytes, body: bytes) -> Callable[[socket.socket], None]:
    return lambda connection: connection.sendall(b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body))


def dripping(start: bytes, more: bytes) -> Callable[[socket.socket], None]:
    def drip(connection: socket.socket) -> None:
        connection.sendall(start)
        while True:
            time.sleep(SAY_S)
            connection.sendall(more)

    return drip


def reset(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 1000\r\n\r\n{")
    time.sleep(SAY_S)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


@contextmanager
def control(say: Callable[[socket.socket], None]) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    connection.recv(4096)
                    say(connection)

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        serving.join(20)


@pytest.mark.parametrize(
    ("say", "words"),
    [
        (whole(b"200 OK", b"[" * 200_000), "is not a fencepost control"),
        (whole(b"400 Bad Request", b"[" * 200_000), "is not a fencepost control"),
        (whole(b"200 OK", b'"\xff"'), "is not a fencepost control"),
        (whole(b"302 Found", b""), r"the server there \(HTTP 302\) is not a fencepost control"),
        (dripping(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"), "it did not answer within 1 s"),
        (dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n", b" "), "it did not answer within 1 s"),
        (dripping(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 9999\r\n\r\n", b" "), "it did not answer within 1 s"),
        (reset, "onnection reset"),
    ],
)
def test_a_control_that_is_none(say: Callable[[socket.socket], None], words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends with a complaint that says what was found there, however slowly that comes."""
    if "within 1 s" in words:
        monkeypatch.setattr(control_client, "TIMEOUT_S", 1.0)
    begun = time.monotonic()
    with control(say) as url, pytest.raises(CommandError, match=words):
        control_client.ask(control_client.control_from(url), "GET", "/faults", dict)
    assert time.monotonic() - begun < 15.0
