"""A broker with hostile names: a relay in front of a stub that replaces a harmless name by one of the same length, and back.

The stub, like Kafka, refuses such a name for a topic. But a client cannot know which names its broker refuses.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

HOSTILE = "\x1b[31m\x9b\u202e\u2066\u200b[red]\x07"
"""Control characters of terminals (C0 and C1), marks that reverse the text, invisible characters, and markup of rich."""

HARMLESS = "x" * len(HOSTILE.encode())
HOST = b"127.0.0.1"


@contextmanager
def hostile_relay(port: int) -> Iterator[str]:
    """The address of a relay in front of the one broker at that port of this host."""
    with socket.create_server((HOST.decode(), 0)) as listener:
        own = listener.getsockname()[1]
        swapped = ((HARMLESS.encode(), HOSTILE.encode()), (HOST + port.to_bytes(4, "big"), HOST + own.to_bytes(4, "big")))

        def serve() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    broker = socket.create_connection((HOST.decode(), port))
                    back = tuple((after, before) for before, after in swapped)
                    threading.Thread(target=_pass_on, args=(client, broker, back), daemon=True).start()
                    threading.Thread(target=_pass_on, args=(broker, client, swapped), daemon=True).start()

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        yield f"{HOST.decode()}:{own}"
        listener.shutdown(socket.SHUT_RDWR)
    serving.join(10)


def _pass_on(source: socket.socket, target: socket.socket, swaps: tuple[tuple[bytes, bytes], ...]) -> None:
    """Pass on frames one after the other, with the names replaced."""
    with suppress(OSError), source, target, source.makefile("rb") as reader:
        while head := reader.read(4):
            frame = head + reader.read(int.from_bytes(head, "big"))
            for before, after in swaps:
                frame = frame.replace(before, after)
            target.sendall(frame)
        target.shutdown(socket.SHUT_RDWR)
