"""The entries of the proxy's journal: one exchange for each request that the proxy sent to a broker, with the broker's own response.

It reads frames only while the journal is enabled. It leaves out requests that it cannot read: unknown APIs, and damaged ones. It changes
no frame.
"""

from __future__ import annotations

import logging

from fencepost.broker_stub.journal.exchange import Exchange, Heard
from fencepost.broker_stub.journal.journal import Journal
from fencepost.broker_stub.journal.memory import lightened
from fencepost.broker_stub.proxy.messages import is_in_version_0, read_answer, read_request
from fencepost.broker_stub.proxy.request import ProxiedRequest
from fencepost.producer.wire import Malformed, decode_request_header

_log = logging.getLogger(__name__)


def note_request(journal: Journal, proxied: ProxiedRequest, frame: bytes, *, connection_id: int, at_ms: int) -> Exchange | None:
    """Adds an exchange for the frame that is about to leave for the broker, which may be a part of the client's request."""
    if not journal.enabled:
        return None
    try:
        start = proxied.start if frame is proxied.frame else decode_request_header(frame)[1]
        request = read_request(frame, proxied.api, proxied.version, start=start)
    except Malformed:
        return None
    if request is None:
        return None
    exchange = Exchange(
        node=proxied.node,
        connection_id=connection_id,
        api=proxied.api,
        version=proxied.version,
        correlation_id=proxied.correlation_id,
        client_id=proxied.client_id,
        request=lightened(request),
        at_ms=at_ms,
        heard=Heard.NOTHING,
    )
    exchange.faults = proxied.faults
    journal.add(exchange)
    return exchange


def note_answer(journal: Journal, exchange: Exchange, frame: bytes, *, at_ms: int) -> None:
    """Adds the broker's response, before any fault changes it."""
    try:
        answer = read_answer(frame, exchange.api, 0 if is_in_version_0(frame, exchange.api) else exchange.version)
    except Malformed as error:
        _log.warning("node %d: %s; the journal does not have it", exchange.node, error)
        answer = None
    exchange.ended_ms = at_ms
    exchange.response = None if answer is None else lightened(answer)
    if answer is not None:
        journal.weigh(exchange)
    exchange.settle()
