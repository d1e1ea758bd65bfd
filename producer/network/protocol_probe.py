"""What the peer is, if it is not a Kafka broker with the protocol of the settings. Its first bytes tell, or a second connection.

`speaks_tls` and `speaks_kafka` open their own connection, begin the other protocol and close. They are for a peer that closed the first
connection without a reply. They never send a password or a record.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import Final

from fencepost.producer.wire import Api, ApiVersionsRequest, encode_request
from fencepost.producer.wire.tls import TlsPipe

WRONG_PORT: Final = "the address is wrong (bootstrap_servers, or a broker's advertised.listeners)"
PROBE_TIMEOUT_S: Final = 2.0

OPENINGS: Final[tuple[tuple[bytes, str], ...]] = (
    (b"HTTP/", "an HTTP server"),
    (b"<!doctype html", "an HTTP server"),
    (b"<html", "an HTTP server"),
    (b"SSH-", "an SSH server"),
    (b"\x15\x03", "TLS"),
    (b"\x16\x03", "TLS"),
    (b"220 ", "a mail or FTP server"),
    (b"220-", "a mail or FTP server"),
    (b"-ERR", "a Redis or POP server"),
    (b"+OK", "a POP server"),
    (b"* OK", "an IMAP server"),
    (b"AMQP", "an AMQP server"),
    (b"RFB ", "a VNC server"),
)
"""The first bytes of other servers, in lower case if case does not matter. No frame of a broker begins with them."""

OPENING_BYTES: Final = 64


def recognise(opening: bytes) -> str | None:
    """The kind of server that begins with these bytes; None if it is unknown."""
    lower = opening.lower()
    return next((server for start, server in OPENINGS if opening.startswith(start) or lower.startswith(start)), None)


async def speaks_tls(ip: str, port: int) -> bool:
    """Whether a TLS server listens there."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing secret is sent, so the server's identity does not matter
    pipe = TlsPipe(context)
    pipe.begin()
    answer = await _ask(ip, port, pipe.pending(), 2)
    return recognise(answer) == "TLS"


async def speaks_kafka(ip: str, port: int) -> bool:
    """Whether a broker listens there that answers without TLS."""
    question = b"".join(encode_request(ApiVersionsRequest(), 0, correlation_id=Api.API_VERSIONS, client_id=None))
    answer = await _ask(ip, port, question, 8)
    return answer[4:8] == Api.API_VERSIONS.to_bytes(4, "big")


async def _ask(ip: str, port: int, question: bytes, size: int) -> bytes:
    """The first bytes of the response; empty without one."""
    with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(ip, port)
            try:
                writer.write(question)
                return await reader.readexactly(size)
            finally:
                writer.transport.abort()
    return b""
