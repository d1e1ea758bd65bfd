"""What the proxy writes into its journal: one exchange for each request that it handed to a broker, with the broker's own response.

It reads frames only while somebody wants exchanges. What it cannot read is not written: requests of APIs that are not spoken here, and
damaged ones, which the broker will answer as it likes. It changes nothing that passes.
"""

from __future__ import annotations

import logging

from fencepost.broker_stub.journal.exchange import Exchange, Heard
from fencepost.broker_stub.journal.journal import Journal
from fencepost.broker_stub.journal.memory import lightened
from fencepost.broker_stub.proxy.messages import read_answer, read_request
from fencepost.broker_stub.proxy.request import Slot
from fencepost.producer.wire import Api, ErrorCode, Malformed, decode_request_header

_ERROR_AT = slice(4, 6)  # the error code of an answer to ApiVersions, after the correlation id
_UNSUPPORTED_VERSION = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")
_log = logging.getLogger(__name__)


def note_request(journal: Journal, slot: Slot, frame: bytes, *, connection_id: int, at_ms: int) -> Exchange | None:
    """A new exchange for the frame that is about to leave for the broker, which may be less than the client asked for."""
    if not journal.enabled:
        return None
    try:
        start = slot.start if frame is slot.frame else decode_request_header(frame)[1]
        request = read_request(frame, slot.api, slot.version, start=start)
    except Malformed:
        return None
    if request is None:
        return None
    exchange = Exchange(
        node=slot.node,
        connection_id=connection_id,
        api=slot.api,
        version=slot.version,
        correlation_id=slot.correlation_id,
        client_id=slot.client_id,
        request=lightened(request),
        at_ms=at_ms,
        heard=Heard.NOTHING,
    )
    journal.add(exchange)
    return exchange


def note_answer(journal: Journal, exchange: Exchange, frame: bytes) -> None:
    """The broker's answer, as it came and before any fault about it."""
    # A broker that does not know the version of ApiVersions that it was asked in answers in version 0 (KIP-511).
    old = exchange.api == Api.API_VERSIONS and frame[_ERROR_AT] == _UNSUPPORTED_VERSION
    try:
        answer = read_answer(frame, exchange.api, 0 if old else exchange.version)
    except Malformed as error:
        _log.warning("node %d: %s; the journal does not have it", exchange.node, error)
        answer = None
    exchange.response = None if answer is None else lightened(answer)
    if answer is not None:
        journal.weigh(exchange)
    exchange.settle()
