"""HTTP/1.1 for the control of a stub or a proxy: one request a connection, JSON both ways, everything bounded.

A head or a body above its limit, a connection that says nothing, more connections than `CONNECTIONS_MAX` and bytes that are no HTTP end
with an answer or without one, and never with more. Whoever drives a stub is a test or a shell: a request that a browser sends for some
page (it has an Origin, or on localhost names a host that is no address) is refused. It knows no routes, speaks no TLS and keeps no
connection open.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import msgspec

HEAD_BYTES_MAX: Final = 16 * 1024
BODY_BYTES_MAX: Final = 64 * 1024
CONNECTIONS_MAX: Final = 64
READ_TIMEOUT_S: Final = 10.0
ANSWER_TIMEOUT_S: Final = 20.0
LOCAL: Final = "localhost"

_log = logging.getLogger(__name__)


class Request(msgspec.Struct, frozen=True):
    """What was asked. `body` is None where there was none."""

    method: str
    path: str
    query: dict[str, str]
    body: Any


class Refused(Exception):
    """An answer that is no success, with a sentence that says why."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


Answer = Callable[[Request], tuple[HTTPStatus, Any]]
"""Answers in a thread of its own; raises Refused."""


class HttpServer:
    """Serves on the loop that runs `serve`. `local`: it is there for this machine alone, and is called so."""

    def __init__(self, answer: Answer, *, local: bool = True) -> None:
        self._answer = answer
        self._local = local
        self._open = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, from its beginning to its end."""
        self._open += 1
        try:
            status, body = await self._answered(reader)
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(READ_TIMEOUT_S):
                    await _write(writer, status, body)
        finally:
            self._open -= 1
            writer.close()

    async def _answered(self, reader: asyncio.StreamReader) -> tuple[HTTPStatus, Any]:
        try:
            if self._open > CONNECTIONS_MAX:
                raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, f"{CONNECTIONS_MAX} connections are open already")
            async with asyncio.timeout(READ_TIMEOUT_S):
                request = await _read(reader, local=self._local)
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                return await asyncio.to_thread(self._answer, request)
        except Refused as refused:
            return refused.status, {"error": str(refused)}
        except TimeoutError:
            return HTTPStatus.REQUEST_TIMEOUT, {"error": "it took too long"}
        except (asyncio.IncompleteReadError, OSError):
            return HTTPStatus.BAD_REQUEST, {"error": "the request ended early"}
        except Exception:  # noqa: BLE001 - the outermost loop of a connection: whatever went wrong with one must not be silent
            _log.exception("a request to the control failed")
            return HTTPStatus.INTERNAL_SERVER_ERROR, {"error": "this is a bug; the log of the process that was asked has it"}


async def _read(reader: asyncio.StreamReader, *, local: bool) -> Request:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise Refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"the head is longer than {HEAD_BYTES_MAX} bytes") from None
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    method, _, rest = first.partition(" ")
    target, _, version = rest.rpartition(" ")
    if not version.startswith("HTTP/1.") or not target.startswith("/"):
        raise Refused(HTTPStatus.BAD_REQUEST, f"{first[:60]!r} begins no HTTP/1.1 request")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    _check_sender(headers, local=local)
    split = urlsplit(f"//host{target}")
    return Request(method, split.path, dict(parse_qsl(split.query)), await _body(reader, headers))


def _check_sender(headers: dict[str, str], *, local: bool) -> None:
    """A page in a browser on this machine could otherwise ask, under its own name or under one that it had point here."""
    if "origin" in headers:
        raise Refused(HTTPStatus.FORBIDDEN, f"a page of {headers['origin'][:100]} may not ask; this is for tests and shells")
    if not local:
        return
    try:
        host = urlsplit(f"//{headers.get('host', LOCAL)}").hostname or ""
        if host != LOCAL:
            ip_address(host)
    except ValueError:
        raise Refused(HTTPStatus.FORBIDDEN, f"Host: {headers.get('host', '')[:100]}: name {LOCAL} or an IP address") from None


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> Any:
    if "transfer-encoding" in headers:
        raise Refused(HTTPStatus.LENGTH_REQUIRED, "Transfer-Encoding is not understood here: send a Content-Length")
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()):
        raise Refused(HTTPStatus.BAD_REQUEST, f"Content-Length: {length[:60]!r} is no length")
    if len(length) > len(str(BODY_BYTES_MAX)) or int(length) > BODY_BYTES_MAX:
        raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body of {length[:60]} bytes: at most {BODY_BYTES_MAX}")
    raw = await reader.readexactly(int(length))
    try:
        return msgspec.json.decode(raw) if raw.strip() else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(HTTPStatus.BAD_REQUEST, f"the body is no JSON: {error}") from None


async def _write(writer: asyncio.StreamWriter, status: HTTPStatus, body: Any) -> None:
    text = msgspec.json.encode(body) + b"\n"
    lines = (
        f"HTTP/1.1 {status.value} {status.phrase}",
        "Content-Type: application/json",
        f"Content-Length: {len(text)}",
        "Connection: close",
        "\r\n",
    )
    writer.write("\r\n".join(lines).encode("latin-1") + text)
    await writer.drain()
