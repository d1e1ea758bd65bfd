"""Finds the brokers behind a proxy: asks the upstream's addresses in turn, repeatedly, until one answers or the time is over.

A server that does not answer like a broker is ignored. An impossible size of a response is refused before the response is read.

Brokers that ask for SASL tell nothing to a proxy, which has no password. The proxy then listens for the given addresses alone, as nodes -1,
-2 and so on, and learns the brokers from the responses to its clients.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from struct import Struct

from tenacity import AsyncRetrying, retry_if_not_result, wait_random_exponential

from fencepost.broker_stub.network.addresses import spelled
from fencepost.broker_stub.proxy.hub import Address, Hub
from fencepost.broker_stub.proxy.messages import names_in
from fencepost.producer.wire import (
    ErrorCode,
    Malformed,
    Message,
    MetadataRequest,
    MetadataResponse,
    decode_response,
    encode_request,
)
from fencepost.producer.wire.messages.sasl import SaslHandshakeRequest, SaslHandshakeResponse

DISCOVER_TIMEOUT_S = 12.0
ADDRESS_TIMEOUT_S = 3.0
"""The time before the next address is asked, so that one silent address does not block the others."""
PAUSE_MIN_S = 0.05
PAUSE_MAX_S = 1.0
ANSWER_BYTES_MAX = 100 * 1024 * 1024
SILENT = "it does not answer"
CLOSED = "it closes the connection, as one does that speaks TLS, or is no Kafka"
IN_TLS = "it answers in TLS: give upstream_tls"
TLS_ALERT = b"\x15\x03"
UNNAMED = ""
"""No mechanism has this name, so the broker answers a handshake with those that it has, and the connection is as before."""

_SIZE = Struct(">i")


async def discover(hub: Hub, upstream: list[Address]) -> None:
    """Makes the hub listen for each of the cluster's brokers and learn its topics; of brokers that ask for SASL, for the given addresses.
    Raises ConnectionError with each address's reason."""
    reasons: dict[Address, str] = {}
    asking = AsyncRetrying(retry=retry_if_not_result(bool), wait=wait_random_exponential(multiplier=PAUSE_MIN_S, max=PAUSE_MAX_S))
    with suppress(TimeoutError):
        async with asyncio.timeout(DISCOVER_TIMEOUT_S):
            answer: MetadataResponse | NeedsSasl = await asking(_first_answer, upstream, reasons, hub.upstream_tls)
            if isinstance(answer, NeedsSasl):
                for number, (host, port) in enumerate(upstream, 1):
                    hub.address_of(-number, host, port)
                return
            for broker in sorted(answer.brokers, key=lambda each: each.node_id):
                hub.address_of(broker.node_id, broker.host, broker.port)
            hub.learn(names_in(answer))
            return
    raise ConnectionError("no broker answered: " + ", ".join(f"{spelled(*address)}: {why}" for address, why in reasons.items()))


class NeedsSasl:
    """The brokers ask for SASL before they tell anything."""


async def _first_answer(
    upstream: list[Address], reasons: dict[Address, str], tls: ssl.SSLContext | None
) -> MetadataResponse | NeedsSasl | None:
    """The first response that names brokers. None: all failed, for the noted reasons."""
    for address in upstream:
        reasons.setdefault(address, SILENT)  # an earlier reason says more than a timeout
        try:
            async with asyncio.timeout(ADDRESS_TIMEOUT_S):
                answer = await _metadata(address, tls)
        except TimeoutError:
            reasons[address] = SILENT
            continue
        except asyncio.IncompleteReadError:
            reasons[address] = CLOSED
            continue
        except (OSError, Malformed) as error:
            reasons[address] = str(error) or type(error).__name__
            continue
        if isinstance(answer, NeedsSasl) or answer.brokers:
            return answer
        reasons[address] = "it names no brokers"
    return None


async def _metadata(address: Address, tls: ssl.SSLContext | None) -> MetadataResponse | NeedsSasl:
    """Every broker and topic, in the newest version that the broker answers."""
    for version in (12, 1):  # an old broker closes the connection because of the version; it has no topic ids either
        with suppress(asyncio.IncompleteReadError):
            answer = await _ask(address, tls, MetadataRequest(topics=None, allow_auto_topic_creation=version < 4), version)
            assert isinstance(answer, MetadataResponse)
            return answer
    answer = await _ask(address, tls, SaslHandshakeRequest(mechanism=UNNAMED), 1)
    assert isinstance(answer, SaslHandshakeResponse)
    if answer.error_code != ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        raise ConnectionError(f"it closes the connection after Metadata, and answers SaslHandshake with error {answer.error_code}")
    return NeedsSasl()


async def _ask(address: Address, tls: ssl.SSLContext | None, request: Message, version: int) -> Message:
    reader, writer = await asyncio.open_connection(*address, ssl=tls)
    try:
        writer.write(b"".join(encode_request(request, version, correlation_id=1, client_id="fault-proxy")))
        head = await reader.readexactly(_SIZE.size)
        (size,) = _SIZE.unpack(head)
        if head.startswith(TLS_ALERT):
            raise ConnectionError(IN_TLS)
        if not 0 < size <= ANSWER_BYTES_MAX:
            raise ConnectionError(f"its answer begins with {head!r}, as no Kafka broker's does")
        _, answer = decode_response(await reader.readexactly(size), request.api, version)
        return answer
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
