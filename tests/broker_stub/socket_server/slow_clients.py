"""`python tests/broker_stub/socket_server/slow_clients.py HOST PORT COUNT` opens COUNT connections and prints how many are open.

Each connection sends nothing, or begins a request and does not end it. The program keeps them until its standard input ends.
"""

from __future__ import annotations

import resource
import socket
import sys
from contextlib import ExitStack

BEGINNINGS = (b"", b"\0\0", b"\0\0\0\x20", b"\0\0\0\x20\0\x12\0", b"\0\x05\0\0" + b"x" * 1000)
DEADLINE_S = 60.0


def raise_limit() -> int:
    """As many file descriptors as this process may have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def main() -> None:
    host, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    raise_limit()
    with ExitStack() as connections:
        for number in range(count):
            connection = connections.enter_context(socket.create_connection((host, port), timeout=DEADLINE_S))
            connection.sendall(BEGINNINGS[number % len(BEGINNINGS)])
        print(count, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
