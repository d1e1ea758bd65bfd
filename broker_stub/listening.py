"""Sockets that a cluster or a proxy listens on, and what is said when there can be none.

They are bound to a number, so that the number can be kept while nobody listens.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from broker_stub.spelling import PORT_MAX, spelled


def bound(host: str, port: int) -> socket.socket:
    """A socket that has the port, a free one for 0, and refuses connections until it listens. Raises OSError that names both, and
    ValueError for a port that is none."""
    if not 0 <= port <= PORT_MAX:
        raise ValueError(f"cannot listen on {spelled(host, port)}: ports end at {PORT_MAX}")
    with naming(host, port):
        return _bound(host, port)


def deaf(listener: socket.socket) -> socket.socket:
    """A socket that has the listener's port and does not listen; what waited to be accepted is reset."""
    try:
        listener.shutdown(socket.SHUT_RDWR)  # Linux takes that as the end of listening, and the port stays bound
        return listener
    except OSError:
        host, port, *_ = listener.getsockname()
        listener.close()
        return bound(host, port)


@contextmanager
def naming(host: str, port: int) -> Iterator[None]:
    """Errors of a socket inside say which address they are about."""
    try:
        yield
    except OSError as error:
        raise type(error)(error.errno, f"cannot listen on {spelled(host, port)}: {error.strerror or error}") from None


def _bound(host: str, port: int) -> socket.socket:
    # asyncio turns Nagle's algorithm off where the protocol is named, and what is accepted takes that from here: an answer must not wait
    # until the client has acknowledged the one before.
    new = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        new.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        new.bind((host, port))
        if port:
            return new
        # Only a port that was asked for by number survives `deaf`: another socket asks for it before this one lets go.
        with new:
            return _bound(host, new.getsockname()[1])
    except OSError:
        new.close()
        raise
