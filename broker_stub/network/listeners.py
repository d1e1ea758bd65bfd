"""Listening sockets of a cluster or a proxy, and the errors when one cannot be opened.

Each is bound to a port number, so that the number stays reserved while the socket does not listen.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from typing import Final

from fencepost.broker_stub.network.addresses import PORT_MAX, spelled

_ELSEWHERE: Final = {4: (socket.AF_INET, "192.0.2.1", "127.0.0.1"), 6: (socket.AF_INET6, "2001:db8::1", "::1")}
"""By IP version: an address reserved for documentation, which is routed like any public one, and loopback."""
_ANY_PORT: Final = 9


def is_local(host: str) -> bool:
    """Whether only this computer reaches a listener on that host."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def reachable(host: str) -> str:
    """The address at which clients find a listener on that host. For every interface (0.0.0.0, ::) it is the address by which this computer
    reaches others, or loopback where it reaches none."""
    try:
        address = ip_address(host or "0.0.0.0")
    except ValueError:
        return host
    if not address.is_unspecified:
        return host
    family, elsewhere, loopback = _ELSEWHERE[address.version]
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as asking:
        asking.connect((elsewhere, _ANY_PORT))  # chooses the route and sends nothing
        return str(asking.getsockname()[0])
    return loopback


def bound(host: str, port: int) -> socket.socket:
    """A bound socket that refuses connections until it listens. Port 0 takes a free one. Raises OSError that names host and port, and
    ValueError for an invalid port."""
    if not 0 <= port <= PORT_MAX:
        raise ValueError(f"cannot listen on {spelled(host, port)}: the largest port is {PORT_MAX}")
    with naming(host, port):
        return _bound(host, port)


def deaf(listener: socket.socket) -> socket.socket:
    """A bound socket that takes over the listener's port and does not listen. Connections that were not accepted yet are reset."""
    try:
        listener.shutdown(socket.SHUT_RDWR)  # on Linux this ends the listening, and the port stays bound
        return listener
    except OSError:
        host, port, *_ = listener.getsockname()
        listener.close()
        return bound(host, port)


@contextmanager
def naming(host: str, port: int) -> Iterator[None]:
    """Adds the address to errors of a socket inside the block."""
    try:
        yield
    except OSError as error:
        raise type(error)(error.errno, f"cannot listen on {spelled(host, port)}: {error.strerror or error}") from None


def _bound(host: str, port: int) -> socket.socket:
    # asyncio disables Nagle's algorithm where the protocol is named, and accepted sockets inherit that from here. With it, a response would
    # wait until the client has acknowledged the one before.
    new = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        new.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        new.bind((host, port))
        if port:
            return new
        # Only a port that was given as a number survives `deaf`, because another socket binds it before this one closes.
        with new:
            return _bound(host, new.getsockname()[1])
    except OSError:
        new.close()
        raise
