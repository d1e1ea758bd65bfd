"""Finds the brokers behind a proxy: asks the upstream's addresses in turn, repeatedly, until one answers or the time is over.

A server that does not answer like a broker is ignored. An impossible size of a response is refused before the response is read.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from struct import Struct

from tenacity import AsyncRetrying, retry_if_not_result, wait_random_exponential

from fencepost.broker_stub.network.addresses import spelled
from fencepost.broker_stub.proxy.hub import Address, Hub
from fencepost.broker_stub.proxy.messages import names_in
from fencepost.producer.wire import Malformed, MetadataRequest, MetadataResponse, decode_response, encode_request

DISCOVER_TIMEOUT_S = 12.0
ADDRESS_TIMEOUT_S = 3.0
"""The time before the next address is asked, so that one silent address does not block the others."""
PAUSE_MIN_S = 0.05
PAUSE_MAX_S = 1.0
ANSWER_BYTES_MAX = 100 * 1024 * 1024
SILENT = "it does not answer"

_SIZE = Struct(">i")


async def discover(hub: Hub, upstream: list[Address]) -> None:
    """Makes the hub listen for each of the cluster's brokers and learn its topics. Raises ConnectionError with each address's reason."""
    reasons: dict[Address, str] = {}
    asking = AsyncRetrying(retry=retry_if_not_result(bool), wait=wait_random_exponential(multiplier=PAUSE_MIN_S, max=PAUSE_MAX_S))
    with suppress(TimeoutError):
        async with asyncio.timeout(DISCOVER_TIMEOUT_S):
            answer: MetadataResponse = await asking(_first_answer, upstream, reasons)
            for broker in sorted(answer.brokers, key=lambda each: each.node_id):
                hub.address_of(broker.node_id, broker.host, broker.port)
            hub.learn(names_in(answer))
            return
    raise ConnectionError("no broker answered: " + ", ".join(f"{spelled(*address)}: {why}" for address, why in reasons.items()))


async def _first_answer(upstream: list[Address], reasons: dict[Address, str]) -> MetadataResponse | None:
    """The first response that names brokers. None: all failed, for the noted reasons."""
    for address in upstream:
        reasons.setdefault(address, SILENT)  # an earlier reason says more than a timeout
        try:
            async with asyncio.timeout(ADDRESS_TIMEOUT_S):
                answer = await _metadata(address)
        except TimeoutError:
            reasons[address] = SILENT
            continue
        except (OSError, asyncio.IncompleteReadError, Malformed) as error:
            reasons[address] = str(error) or type(error).__name__
            continue
        if answer.brokers:
            return answer
        reasons[address] = "it names no brokers"
    return None


async def _metadata(address: Address) -> MetadataResponse:
    """Every broker and topic, in the newest version that the broker answers."""
    try:
        return await _ask_metadata(address, 12)
    except asyncio.IncompleteReadError:
        return await _ask_metadata(address, 1)  # it closed the connection because of the version; an old broker has no topic ids either


async def _ask_metadata(address: Address, version: int) -> MetadataResponse:
    request = MetadataRequest(topics=None, allow_auto_topic_creation=version < 4)
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(b"".join(encode_request(request, version, correlation_id=1, client_id="fault-proxy")))
        (size,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
        if not 0 < size <= ANSWER_BYTES_MAX:
            raise ConnectionError(f"its answer begins with {_SIZE.pack(size)!r}, as no Kafka broker's does")
        _, answer = decode_response(await reader.readexactly(size), request.api, version)
        assert isinstance(answer, MetadataResponse)
        return answer
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
