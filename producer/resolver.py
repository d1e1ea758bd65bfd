"""The addresses behind a host name, looked up without holding up the loop and without a thread pool.

A pool refuses work once the interpreter begins to exit, which is when a producer that was not closed still has to deliver; so a lookup
has a thread of its own, or where none can be started any more, blocks. It caches nothing.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading

from producer.core.errors import plain

Found = list[str] | OSError


async def resolve(host: str, *, timeout_s: float) -> list[str]:
    """Every address of the host, in the resolver's order. Raises OSError when there is none in time."""
    try:
        return [str(ipaddress.ip_address(host))]
    except ValueError:
        pass
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Found] = loop.create_future()

    def settle(found: Found) -> None:
        if not answer.done():
            answer.set_result(found)

    def look_up() -> None:
        found = _look_up(host)
        try:
            loop.call_soon_threadsafe(settle, found)
        except RuntimeError:
            return  # The loop ended first; nobody waits any more.

    try:
        threading.Thread(target=look_up, name=f"fencepost-resolver-{host}", daemon=True).start()
    except RuntimeError:
        settle(_look_up(host))
    try:
        async with asyncio.timeout(timeout_s):
            found = await answer
    except TimeoutError:
        raise OSError(f"the name was not resolved within {plain(timeout_s)} s") from None
    if isinstance(found, OSError):
        raise found
    return found


def _look_up(host: str) -> Found:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        return OSError(f"the name cannot be resolved: {error}")
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
