"""A relay in front of a stub that alters its responses as the test says."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from msgspec.structs import replace

from fencepost.producer.wire import (
    Api,
    FindCoordinatorResponse,
    Message,
    MetadataResponse,
    decode_request_header,
    decode_response,
    encode_response,
)

HOST = "127.0.0.1"
Lie = Callable[[Message], Message]


@contextmanager
def lying_relay(port: int, lie: Lie) -> Iterator[str]:
    """The address of a relay in front of the one broker at that port of this host."""
    with socket.create_server((HOST, 0)) as listener:
        own = listener.getsockname()[1]

        def serve() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    threading.Thread(target=_converse, args=(client, port, own, lie), daemon=True).start()

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        yield f"{HOST}:{own}"
        listener.shutdown(socket.SHUT_RDWR)
    serving.join(10)


def altered(api: Api, change: Callable[[Any], Any]) -> Lie:
    """Change the responses of one API."""
    return lambda answer: change(answer) if answer.api is api else answer


def numbered_0(answer: Message) -> Message:
    """Give the one broker the number 0, as in many clusters, and name no controller."""
    if isinstance(answer, MetadataResponse):
        topics = [
            replace(topic, partitions=[replace(each, leader_id=0, replica_nodes=[0], isr_nodes=[0]) for each in topic.partitions])
            for topic in answer.topics
        ]
        answer = replace(answer, brokers=[replace(each, node_id=0) for each in answer.brokers], topics=topics, controller_id=-1)
    if isinstance(answer, FindCoordinatorResponse):
        answer = replace(answer, node_id=0, coordinators=[replace(each, node_id=0) for each in answer.coordinators])
    return answer


def _converse(client: socket.socket, port: int, own: int, lie: Lie) -> None:
    """Pass on one request and its response after the other."""
    with suppress(OSError, EOFError), client, socket.create_connection((HOST, port)) as broker:
        while True:
            asked = _frame(client)
            header, _ = decode_request_header(asked)
            broker.sendall(len(asked).to_bytes(4, "big") + asked)
            correlation_id, answer = decode_response(_frame(broker), header.api_key, header.api_version)
            if isinstance(answer, MetadataResponse):
                answer = replace(answer, brokers=[replace(each, port=own) for each in answer.brokers])
            if hasattr(answer, "coordinators"):
                answer = replace(answer, coordinators=[replace(each, port=own) for each in answer.coordinators])
            parts = encode_response(lie(answer), header.api_version, correlation_id=correlation_id)
            client.sendall(b"".join(bytes(part) for part in parts))


def _frame(connection: socket.socket) -> bytes:
    size = int.from_bytes(_exactly(connection, 4), "big")
    return _exactly(connection, size)


def _exactly(connection: socket.socket, size: int) -> bytes:
    came = bytearray()
    while len(came) < size:
        more = connection.recv(size - len(came))
        if not more:
            raise EOFError
        came += more
    return bytes(came)
