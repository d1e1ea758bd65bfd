"""The addresses of a host name, looked up without blocking the loop. It caches nothing."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from functools import partial

from fencepost.producer.errors import plain
from fencepost.producer.network.run_in_thread import off_loop


async def resolve(host: str, *, timeout_s: float) -> list[str]:
    """Every address of the host, in the resolver's order. Raises OSError if none is found within `timeout_s`."""
    try:
        return [str(ipaddress.ip_address(host))]
    except ValueError:
        pass
    try:
        async with asyncio.timeout(timeout_s):
            return await off_loop(partial(_look_up, host), name=f"fencepost-resolver-{host}")
    except TimeoutError:
        raise OSError(f"the name was not resolved within {plain(timeout_s)} s (socket_connection_setup_timeout_ms)") from None


def _look_up(host: str) -> list[str]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:  # ValueError: a name that cannot be encoded, or that contains a NUL
        raise OSError(f"the name cannot be resolved: {error}") from error
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
