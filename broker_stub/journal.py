"""Every exchange the cluster had lately, to assert on: `stub.journal.requests(Api.PRODUCE)`, or `proxy.journal`.

Bounded by count and by the memory that what was asked and answered takes, and light: of record batches longer than 4 KiB only the header
stays, enough to read producer id, epoch, sequence and count from. It never holds on to a frame, so a journal of large requests does not
keep their records in memory. Whoever has to see every exchange, however many there are, follows it instead of keeping them.
"""

import threading
from collections import deque
from collections.abc import Callable, Collection
from enum import Enum
from sys import getsizeof
from typing import Any, Protocol

import msgspec

from fencepost.broker_stub.faults.owners import groups_of, transactional_ids_of
from fencepost.broker_stub.faults.rules import TopicPartition
from fencepost.producer.wire import Api, Message

RECORDS_BYTES_MAX = 4096  # record batches up to here are kept whole
HEADER_BYTES = 61
EXCHANGE_BYTES = 64 * 1024  # of memory that a request and its answer may take, on the average, for as many to be kept as was asked for
EXCHANGE_ITSELF_BYTES = 512
NUMBER_BYTES = 32


class Heard(Enum):
    """What a proxy sent to its client of the broker's response."""

    NOTHING = "nothing"  # a fault dropped it or cut the connection, the client has gone, nothing came, or it has not left yet
    CHANGED = "changed"  # a fault put an error or a throttle time into it, or answered for a part of the request itself
    ALL = "all"  # as the broker gave it, but for the addresses and versions that every client of a proxy is shown differently


class Exchange:
    """One request and what was answered; `response` is None when nothing was, or not yet.

    In a stub's journal `response` is what the client could see, None for one that a fault dropped, and `heard` is None. In a proxy's it is
    what the broker answered, whatever became of it on its way to the client, and `heard` says what that was.
    """

    __slots__ = (
        "_journal",
        "_partitions",
        "api",
        "at_ms",
        "client_id",
        "connection_id",
        "correlation_id",
        "heard",
        "kept",
        "node",
        "request",
        "response",
        "version",
        "weight",
    )

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
        partitions: Callable[[], Collection[TopicPartition]] | None = None,
        heard: Heard | None = None,
    ) -> None:
        self.node = node
        self.connection_id = connection_id
        self.api = api
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.request = request
        self.response: Message | None = None
        self.heard = heard
        self.at_ms = at_ms
        self.weight = 0
        self.kept = False  # by the journal, which counts its weight
        self._partitions = partitions
        self._journal: Journal | None = None

    def partitions(self) -> Collection[TopicPartition]:
        """The (topic, partition)s the request names, resolved; the fault rules ask while it runs, nobody may afterwards."""
        return self._partitions() if self._partitions is not None else ()

    def groups(self) -> Collection[str]:
        """The groups the request names."""
        return groups_of(self.request)

    def transactional_ids(self) -> Collection[str]:
        """The transactional ids the request names."""
        return transactional_ids_of(self.request)

    def settle(self) -> None:
        """Nothing more will be said: lets go of what only a running exchange needs, and tells the journal's followers of the response."""
        journal, self._journal, self._partitions = self._journal, None, None
        if journal is not None and self.response is not None:
            for follower in journal.followers:
                follower.answered(self)

    def __repr__(self) -> str:
        answer = type(self.response).__name__ if self.response is not None else None
        heard = f", heard: {self.heard.value}" if self.heard is not None else ""
        return f"Exchange({type(self.request).__name__} v{self.version} to node {self.node} at {self.at_ms}, {answer}{heard})"


class Follower(Protocol):
    """Who is told of every exchange, in the thread that serves the brokers: it must be quick and must not raise."""

    def asked(self, exchange: Exchange) -> None:
        """The request has come, and nothing is done yet."""
        ...

    def answered(self, exchange: Exchange) -> None:
        """Its response is there; never called when there is none."""
        ...


class Journal:
    """The newest exchanges, oldest first; readable from any thread."""

    def __init__(self, limit: int) -> None:
        self._lock = threading.Lock()
        self._kept: deque[Exchange] = deque()
        self._limit = limit
        self._bytes_max = limit * EXCHANGE_BYTES
        self._bytes = 0
        self.followers: tuple[Follower, ...] = ()
        self.enabled = limit > 0  # whether anybody wants exchanges at all

    def follow(self, follower: Follower) -> None:
        """Tells the follower of every exchange that begins from now on, also those beyond the limit."""
        with self._lock:
            self.followers = (*self.followers, follower)
            self.enabled = True

    def add(self, exchange: Exchange) -> None:
        """Keeps the exchange, whose request must have been lightened."""
        exchange.weight = EXCHANGE_ITSELF_BYTES + len(exchange.client_id or "") + footprint(exchange.request, self._bytes_max)
        with self._lock:
            self._kept.append(exchange)
            self._bytes += exchange.weight
            exchange.kept = True
            self._make_room()
        exchange._journal = self
        for follower in self.followers:
            follower.asked(exchange)

    def weigh(self, exchange: Exchange) -> None:
        """The answer is there."""
        if exchange.response is None or not exchange.kept:
            return
        more = footprint(exchange.response, self._bytes_max)
        with self._lock:
            if exchange.kept:
                exchange.weight += more
                self._bytes += more
                self._make_room()

    def _make_room(self) -> None:
        """Lets go of the oldest; the lock is held."""
        while len(self._kept) > self._limit or self._bytes > self._bytes_max:
            oldest = self._kept.popleft()
            oldest.kept = False
            self._bytes -= oldest.weight

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
            for each in self._kept:
                each.kept = False
            self._kept.clear()
            self._bytes = 0

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


def footprint(message: Message, most: int) -> int:
    """The bytes of memory that it takes, which can be a hundred times those of its frame; counted until there are more than `most`."""
    total = 0
    waiting: list[Any] = [message]
    while waiting and total <= most:
        value = waiting.pop()
        total += getsizeof(value)
        if isinstance(value, msgspec.Struct):
            waiting += [each for name in value.__struct_fields__ if not isinstance(each := getattr(value, name), int)]
        elif isinstance(value, list) and total <= most:
            if value and isinstance(value[0], int):
                total += NUMBER_BYTES * len(value)
            else:
                waiting += value
    return total


def _light(partition: Any) -> Any:
    """A copy of a small blob or of a large one's first header, so that no frame is kept alive."""
    records = partition.records
    if records is None:
        return partition
    return msgspec.structs.replace(partition, records=bytes(records if len(records) <= RECORDS_BYTES_MAX else records[:HEADER_BYTES]))
