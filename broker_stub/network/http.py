"""HTTP/1.1 for the control and the inspector of a stub or a proxy: one request per connection, everything bounded.

Four things end a connection, some with an error: a head or a body above its limit, silence, more connections than `CONNECTIONS_MAX`, and
bytes that are no HTTP. Requests are JSON, and responses JSON, a file or a stream of events.

The control's clients are tests and shells, and no web page can use it through a browser. The inspector's client is its own page, and no
other page can use it. Both refuse requests of another site by their headers (Origin, Sec-Fetch-Site). They refuse a page that resolves its
own name to this address by that name (Host). Changes need `application/json`, which a page may not send to another site without permission.
It has no routes, no TLS and no keep-alive.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from base64 import b64decode
from collections.abc import AsyncGenerator, Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import msgspec

from fencepost.producer.wire.errors import NO_JSON

HEAD_BYTES_MAX: Final = 16 * 1024
BODY_BYTES_MAX: Final = 64 * 1024
CONNECTIONS_MAX: Final = 64
READ_TIMEOUT_S: Final = 10.0
ANSWER_TIMEOUT_S: Final = 20.0
LOCAL: Final = "localhost"
JSON: Final = "application/json"
ONCE: Final = ("host", "origin", "authorization", "content-type", "content-length", "transfer-encoding")
"""Headers that must not be repeated, because readers could take different ones."""

_HOST: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::[0-9]{0,5})?")
"""An address in brackets, or a name or an IPv4 address, then a port. Anything else is refused, because readers could split it
differently."""

_log = logging.getLogger(__name__)


class Request(msgspec.Struct, frozen=True):
    """A request. `body` is None without one."""

    method: str
    path: str
    query: dict[str, str]
    body: Any

    def arguments(self, pattern: str) -> list[str] | None:
        """The arguments of the path, at the pattern's braces. None: the path does not match."""
        wanted, given = pattern.split("/"), self.path.split("/")
        if len(wanted) != len(given) or any(a != b and not (a.startswith("{") and b) for a, b in zip(wanted, given, strict=True)):
            return None
        return [b for a, b in zip(wanted, given, strict=True) if a.startswith("{")]


class File(msgspec.Struct, frozen=True):
    """A response that is not JSON. `headers` are further ones."""

    content: bytes
    kind: str
    headers: tuple[str, ...] = ()


class Stream(msgspec.Struct, frozen=True):
    """A response of server-sent events, until `events` ends or the client goes."""

    events: Callable[[], AsyncGenerator[bytes, None]]


class HttpError(Exception):
    """An error response, with a sentence that gives the reason."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@contextmanager
def refusing() -> Iterator[None]:
    """Makes error responses of the errors of a route."""
    try:
        yield
    except KeyError as error:
        raise HttpError(HTTPStatus.NOT_FOUND, str(error.args[0])) from None
    except (ValueError, TypeError) as error:
        raise HttpError(HTTPStatus.BAD_REQUEST, str(error)) from None
    except (RuntimeError, TimeoutError) as error:
        raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, f"it does not answer: {error}") from None
    except OSError as error:
        raise HttpError(HTTPStatus.CONFLICT, str(error)) from None


Answer = Callable[[Request], tuple[HTTPStatus, Any]]
"""Answers in a thread of its own. Raises HttpError."""


class HttpServer:
    """Serves on the loop that runs `serve`. `names`: its host names besides localhost and addresses. `token`: required in every request;
    None for none. `has_page`: it serves a page, which may use it."""

    def __init__(self, answer: Answer, *, names: Collection[str] = (), token: str | None = None, has_page: bool = False) -> None:
        self._answer = answer
        self._has_page = has_page
        self._names = frozenset(name.lower() for name in names if name)
        self._token = token
        self._open = 0
        self._reading: dict[asyncio.StreamWriter, None] = {}  # connections whose request has not arrived, oldest first

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves one connection."""
        self._open += 1
        try:
            status, body = await self._answered(reader, writer)
            with suppress(OSError, TimeoutError):
                if isinstance(body, Stream):
                    await _write_events(writer, body)
                    return
                async with asyncio.timeout(READ_TIMEOUT_S):
                    await _write(writer, status, body)
        except asyncio.CancelledError:
            return  # the control is closed; the log would show a cancelled task of a stream with its stack
        finally:
            self._open -= 1
            writer.close()

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[HTTPStatus, Any]:
        try:
            if self._open > CONNECTIONS_MAX:
                if not self._reading:
                    raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, f"{CONNECTIONS_MAX} requests are being answered already")
                oldest = next(iter(self._reading))
                del self._reading[oldest]
                oldest.transport.abort()  # a silent connection must not block others
            self._reading[writer] = None
            try:
                async with asyncio.timeout(READ_TIMEOUT_S):
                    request = await self._read(reader)
            finally:
                self._reading.pop(writer, None)
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                return await asyncio.to_thread(self._answer, request)
        except HttpError as refused:
            return refused.status, {"error": str(refused)}
        except TimeoutError:
            return HTTPStatus.REQUEST_TIMEOUT, {"error": "it took too long"}
        except (asyncio.IncompleteReadError, OSError):
            return HTTPStatus.BAD_REQUEST, {"error": "the request ended early"}
        except Exception:  # noqa: BLE001 - the outermost loop of a connection: the error is logged
            _log.exception("a request to the control failed")
            return HTTPStatus.INTERNAL_SERVER_ERROR, {"error": "this is a bug; the log of the process that has the control shows it"}

    async def _read(self, reader: asyncio.StreamReader) -> Request:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            raise HttpError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"the head is longer than {HEAD_BYTES_MAX} bytes") from None
        first, *lines = head.decode("latin-1").split("\r\n")[:-2]
        method, _, rest = first.partition(" ")
        target, _, version = rest.rpartition(" ")
        if not version.startswith("HTTP/1.") or not target.startswith("/"):
            raise HttpError(HTTPStatus.BAD_REQUEST, f"{first[:60]!r} is no request line of HTTP/1.1")
        headers: dict[str, str] = {}
        for name, _, value in (line.partition(":") for line in lines):
            key = name.strip().lower()
            if key in headers and key in ONCE:
                raise HttpError(HTTPStatus.BAD_REQUEST, f"the header {key} is repeated")
            headers[key] = value.strip()
        self._check_sender(method, headers)
        split = urlsplit(f"//host{target}")
        return Request(method, split.path, dict(parse_qsl(split.query)), await _body(reader, headers))

    def _check_sender(self, method: str, headers: dict[str, str]) -> None:
        """Checks the host name, that no web page sent the request, and the token."""
        if "host" not in headers:
            raise HttpError(HTTPStatus.BAD_REQUEST, "the header Host is missing, which HTTP/1.1 requires")
        if not self._is_called(headers["host"]):
            known = ", ".join((LOCAL, *sorted(self._names)))
            raise HttpError(HTTPStatus.FORBIDDEN, f"Host: {headers['host'][:100]}: use {known}, or an IP address")
        if not (self._has_page and _is_own_page(headers)) and ("origin" in headers or headers.get("sec-fetch-site", "none") != "none"):
            page = headers.get("origin", headers.get("referer", "another site"))
            raise HttpError(HTTPStatus.FORBIDDEN, f"a request of a web page ({page[:100]}) is refused; {self._is_for}")
        if self._token is not None and not secrets.compare_digest(_token_in(headers.get("authorization", "")), self._token.encode()):
            raise HttpError(
                HTTPStatus.UNAUTHORIZED, "the token is missing or wrong; it is in the URL that was printed when the control started"
            )
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if method == "POST" and kind != JSON:
            raise HttpError(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Content-Type: {kind[:100] or 'nothing'}: send {JSON}, as `curl --json` does"
            )

    @property
    def _is_for(self) -> str:
        return "only the inspector's own page may ask it" if self._has_page else "the control is for tests and shells"

    def _is_called(self, host: str) -> bool:
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        bracketed, name = found[1], (found[2] or "").lower()
        try:
            return name == LOCAL or name in self._names or bool(IPv6Address(bracketed) if bracketed else IPv4Address(name))
        except ValueError:
            return False


def _is_own_page(headers: dict[str, str]) -> bool:
    """Whether a browser sent this for the page of this server. Its host name has been checked."""
    origin = headers.get("origin")
    return origin in (None, f"http://{headers['host']}") and headers.get("sec-fetch-site", "same-origin") in ("same-origin", "none")


def _token_in(authorization: str) -> bytes:
    """The password of Basic, for any user, or the token of Bearer; an empty text without both."""
    scheme, _, shown = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return shown.strip().encode()
    try:
        return b64decode(shown.strip(), validate=True).partition(b":")[2] if scheme.lower() == "basic" else b""
    except ValueError:
        return b""


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> Any:
    if "transfer-encoding" in headers:
        raise HttpError(HTTPStatus.LENGTH_REQUIRED, "Transfer-Encoding is not supported: send a Content-Length")
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()):
        raise HttpError(HTTPStatus.BAD_REQUEST, f"Content-Length: {length[:60]!r} is no length")
    if len(length) > len(str(BODY_BYTES_MAX)) or int(length) > BODY_BYTES_MAX:
        raise HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body of {length[:60]} bytes: the limit is {BODY_BYTES_MAX}")
    raw = await reader.readexactly(int(length))
    try:
        return msgspec.json.decode(raw) if raw.strip() else None
    except NO_JSON as error:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"the body is no JSON: {error}") from None


async def _write(writer: asyncio.StreamWriter, status: HTTPStatus, body: Any) -> None:
    file = body if isinstance(body, File) else File(msgspec.json.encode(body) + b"\n", JSON)
    text = file.content
    lines = (
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Content-Type: {file.kind}",
        f"Content-Length: {len(text)}",
        "X-Content-Type-Options: nosniff",
        *file.headers,
        *(['WWW-Authenticate: Basic realm="fencepost"'] if status is HTTPStatus.UNAUTHORIZED else []),
        "Connection: close",
        "\r\n",
    )
    writer.write("\r\n".join(lines).encode("latin-1") + text)
    await writer.drain()


async def _write_events(writer: asyncio.StreamWriter, stream: Stream) -> None:
    """Writes the events as they come. A client that does not read them for too long is cut."""
    head = ("HTTP/1.1 200 OK", "Content-Type: text/event-stream", "Cache-Control: no-store", "Connection: close", "\r\n")
    events = stream.events()
    try:
        writer.write("\r\n".join(head).encode("latin-1"))
        async for event in events:
            writer.write(event)
            async with asyncio.timeout(READ_TIMEOUT_S):
                await writer.drain()
            if writer.is_closing():
                return
    finally:
        with suppress(RuntimeError):  # it is being closed from elsewhere, too
            await events.aclose()
