"""Sockets that a cluster or a proxy listens on, and what is said when there can be none.

They are bound to a number, so that the number can be kept while nobody listens.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from typing import Final

from fencepost.broker_stub.network.addresses import PORT_MAX, spelled

_ELSEWHERE: Final = {4: (socket.AF_INET, "192.0.2.1", "127.0.0.1"), 6: (socket.AF_INET6, "2001:db8::1", "::1")}
"""By version of IP: an address of documentation, which is nobody's and on the way to everybody, and loopback."""
_ANY_PORT: Final = 9


def is_local(host: str) -> bool:
    """Whether only this machine reaches a listener on that host."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def reachable(host: str) -> str:
    """Where others find a listener on that host: there, unless it is on every interface (0.0.0.0, ::), which is no place to connect to.
    Then it is the address by which this machine reaches others, or loopback where it reaches nobody."""
    try:
        address = ip_address(host or "0.0.0.0")
    except ValueError:
        return host
    if not address.is_unspecified:
        return host
    family, elsewhere, loopback = _ELSEWHERE[address.version]
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as asking:
        asking.connect((elsewhere, _ANY_PORT))  # finds the way there and sends nothing
        return str(asking.getsockname()[0])
    return loopback


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
