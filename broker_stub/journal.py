"""Every exchange the cluster had lately, to assert on: `stub.journal.requests(Api.PRODUCE)`.

Bounded by count, and light: of record batches longer than 4 KiB only the header stays, enough to read producer id, epoch, sequence and
count from. It never holds on to a frame, so a journal of large requests does not keep their records in memory.
"""

import threading
from collections import deque
from collections.abc import Callable, Collection
from typing import Any

import msgspec

from broker_stub.faults import TopicPartition
from producer.wire import Api, Message

RECORDS_BYTES_MAX = 4096  # record batches up to here are kept whole
HEADER_BYTES = 61


class Exchange:
    """One request and what was answered; `response` is None when nothing was, or not yet."""

    __slots__ = ("_partitions", "api", "at_ms", "client_id", "connection_id", "correlation_id", "node", "request", "response", "version")

    def __init__(
        self,
        *,
        node: int,
        connection_id: int,
        api: int,
        version: int,
        correlation_id: int,
        client_id: str | None,
        request: Message,
        at_ms: int,
        partitions: Callable[[], Collection[TopicPartition]],
    ) -> None:
        self.node = node
        self.connection_id = connection_id
        self.api = api
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.request = request
        self.response: Message | None = None
        self.at_ms = at_ms
        self._partitions: Callable[[], Collection[TopicPartition]] | None = partitions

    def partitions(self) -> Collection[TopicPartition]:
        """The (topic, partition)s the request names, resolved; the fault rules ask while it runs, nobody may afterwards."""
        return self._partitions() if self._partitions is not None else ()

    def settle(self) -> None:
        """Lets go of what only a running exchange needs."""
        self._partitions = None

    def __repr__(self) -> str:
        answer = type(self.response).__name__ if self.response is not None else None
        return f"Exchange({type(self.request).__name__} v{self.version} to node {self.node} at {self.at_ms}, {answer})"


class Journal:
    """The newest exchanges, oldest first; readable from any thread."""

    def __init__(self, limit: int) -> None:
        self._lock = threading.Lock()
        self._kept: deque[Exchange] = deque(maxlen=limit)
        self.enabled = limit > 0

    def add(self, exchange: Exchange) -> None:
        """Keeps the exchange; its request must have been lightened."""
        with self._lock:
            self._kept.append(exchange)

    def requests(self, api: int | None = None, *, node: int | None = None, client_id: str | None = None) -> list[Exchange]:
        """The kept exchanges of that API, node and client, oldest first."""
        with self._lock:
            kept = list(self._kept)
        return [
            each
            for each in kept
            if (api is None or each.api == api)
            and (node is None or each.node == node)
            and (client_id is None or each.client_id == client_id)
        ]

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()

    def __len__(self) -> int:
        return len(self._kept)


def lightened(message: Message) -> Message:
    """The message without its large record batches; what has none is returned as it is."""
    walk = _WITH_RECORDS.get((message.api, message.is_request))
    if walk is None:
        return message
    topics, partitions = walk
    lighter = [
        msgspec.structs.replace(topic, **{partitions: [_light(each) for each in getattr(topic, partitions)]})
        for topic in getattr(message, topics)
    ]
    return msgspec.structs.replace(message, **{topics: lighter})


_WITH_RECORDS = {(Api.PRODUCE, True): ("topic_data", "partition_data"), (Api.FETCH, False): ("responses", "partitions")}


def _light(partition: Any) -> Any:
    """A copy of a small blob or of a large one's first header, so that no frame is kept alive."""
    records = partition.records
    if records is None:
        return partition
    return msgspec.structs.replace(partition, records=bytes(records if len(records) <= RECORDS_BYTES_MAX else records[:HEADER_BYTES]))
