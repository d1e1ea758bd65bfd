"""A few lines about a stub for the report of a failed test: its last exchanges, and its fault rules with their hits.

It shows no records and no passwords. Of an exchange it shows the client, the node, the API, the topics, and the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from fencepost.broker_stub.network.addresses import printable
from fencepost.producer.foundations.counted import counted
from fencepost.producer.wire import Message, error_name
from fencepost.producer.wire.codes import api_name

if TYPE_CHECKING:
    from fencepost.broker_stub.journal.exchange import Exchange
    from fencepost.broker_stub.stub import BrokerStub

EXCHANGES_MAX = 12
TOPICS_MAX = 3


def seen_by(stub: BrokerStub) -> str:
    """The last exchanges, oldest first, and every installed rule."""
    kept = stub.journal.requests()
    last = kept[-EXCHANGES_MAX:]
    lines = [f"{counted(len(kept), 'exchange')} in the journal{', the last of them' if len(kept) > len(last) else ''}:"]
    if not stub.journal.enabled:
        lines = ["no journal was kept (journal=0)"]
    lines += [f"  {_told(stub, exchange, since_ms=kept[0].at_ms)}" for exchange in last]
    faults = stub.faults.installed
    lines += [f"{counted(len(faults), 'fault rule')}:"] if faults else ["no fault rules"]
    lines += [f"  {fault}, {counted(fault.hits, 'hit')}" for fault in faults]
    return "\n".join(lines)


def _told(stub: BrokerStub, exchange: Exchange, *, since_ms: int) -> str:
    topics = topics_in(exchange.request, stub.cluster.topic_name)
    about = f" {', '.join(map(printable, topics[:TOPICS_MAX]))}{', ...' if len(topics) > TOPICS_MAX else ''}" if topics else ""
    client = f"{printable(exchange.client_id or 'a client without id')} on connection {exchange.connection_id}"
    what = f"{api_name(exchange.api)} v{exchange.version}{about}"
    return f"+{exchange.at_ms - since_ms} ms, node {exchange.node}: {what} from {client}: {_answer(exchange.response)}"


def _answer(response: Message | None) -> str:
    if response is None:
        return "NOT ANSWERED"
    return ", ".join(errors_in(response)) or "ok"


def errors_in(response: Message) -> list[str]:
    """The names of the error codes in a response, each once, without NONE."""
    codes = {value for _, name, value in _fields(response) if name == "error_code" and isinstance(value, int) and value}
    return [error_name(code) for code in sorted(codes)]


def topics_in(request: Message, name_of: Callable[[UUID], str | None]) -> list[str]:
    """The topics' names and ids in a message, each once."""
    found: dict[str, None] = {}
    for struct, name, value in _fields(request):
        if isinstance(value, UUID):
            value = name_of(value)
        if isinstance(value, str) and value and (name in ("topic", "topic_id") or (name == "name" and "Topic" in struct)):
            found[value] = None
    return list(found)


def _fields(value: object) -> Iterator[tuple[str, str, object]]:
    """Every field of a message and of the structs in it, as (struct's name, field's name, value)."""
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            inner = getattr(value, name)
            yield type(value).__name__, name, inner
            yield from _fields(inner)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _fields(each)
