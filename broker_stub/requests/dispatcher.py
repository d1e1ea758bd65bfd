"""The way of a decoded request to its handler: its exchange, its entry in the journal, and its call.

A connection or a simulator brings requests. Handlers validate them. Handlers must be registered before.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from fencepost.broker_stub.cluster.broker import Broker
from fencepost.broker_stub.faults.topics_and_partitions import ANY_PARTITION, asks_for_all, names_partitions, partitions_of
from fencepost.broker_stub.journal.exchange import Exchange
from fencepost.broker_stub.journal.memory import lightened
from fencepost.broker_stub.requests.call import Call, Fate, Reply
from fencepost.broker_stub.requests.client import LOCAL_CLIENT, Client
from fencepost.broker_stub.requests.router import route_to
from fencepost.broker_stub.requests.services import Services
from fencepost.producer.wire import Api, FetchRequest, FetchResponse, Message, RequestHeader

FETCH_VERSION: Final = 18
"""The version of a follower's Fetch."""
UNPROVEN_KEPT_BYTES_MAX = 16 * 1024
"""The largest request of an unauthenticated client that the journal keeps, so that such clients cannot fill the memory."""


class Dispatcher:
    """The dispatcher of all brokers of a cluster."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.cluster = services.cluster
        self.journal = services.journal
        self.cluster.send_fetch = self.fetch

    def handle(
        self,
        node_id: int,
        connection: int,
        header: RequestHeader,
        request: Message,
        reply: Callable[[Reply], None],
        *,
        client: Client = LOCAL_CLIENT,
    ) -> Call:
        """Serves one decoded request of connection number `connection`. Calls `reply` once, now or in a later tick of the cluster."""
        broker = self.cluster.brokers[node_id]
        call = self.call(broker, connection, header, request=request, reply=reply, processed=_nothing, client=client)
        call.start()
        return call

    def call(
        self,
        broker: Broker,
        connection: int,
        header: RequestHeader,
        *,
        request: Message,
        reply: Callable[[Reply], None],
        processed: Callable[[], None],
        client: Client = LOCAL_CLIENT,
        size_bytes: int = 0,
    ) -> Call:
        """Creates a call without starting it. `processed` is called when the connection's next request may begin."""
        exchange = Exchange(
            node=broker.node_id,
            connection_id=connection,
            api=header.api_key,
            version=header.api_version,
            correlation_id=header.correlation_id,
            client_id=header.client_id,
            request=lightened(request) if self.journal.enabled else request,
            at_ms=self.cluster.now_ms(),
            partitions=self._naming(broker, request, header.api_version),
        )
        self.cluster.counters.requests += 1
        if self.journal.enabled and (size_bytes <= UNPROVEN_KEPT_BYTES_MAX or client.sasl_state is None or client.sasl_state.proven):
            self.journal.add(exchange)
        return self._routed(broker, request, exchange, reply=reply, processed=processed, client=client, size_bytes=size_bytes)

    def _routed(
        self,
        broker: Broker,
        request: Message,
        exchange: Exchange,
        *,
        reply: Callable[[Reply], None],
        processed: Callable[[], None],
        client: Client,
        size_bytes: int = 0,
    ) -> Call:
        """The call of the handler for that request."""
        route = route_to(exchange.api)
        assert route is not None, f"{request!r:.100} is not served"
        return Call(
            self.services,
            broker,
            route.handler,
            needs=route.needs,
            forwarded=route.forwarded,
            request=request,
            exchange=exchange,
            reply=reply,
            processed=processed,
            client=client,
            size_bytes=size_bytes,
        )

    def fetch(self, follower: int, leader: int, request: FetchRequest, then: Callable[[FetchResponse | None], None]) -> Call:
        """Serves the Fetch of a follower. `then` gets the response; None if there will be none. The journal does not have it, and only
        fault rules that name its client id, such as broker-2-fetcher-0, act on it."""
        broker = self.cluster.brokers[leader]
        exchange = Exchange(
            node=leader,
            connection_id=0,
            api=Api.FETCH,
            version=FETCH_VERSION,
            correlation_id=0,
            client_id=f"broker-{follower}-fetcher-0",
            request=request,
            at_ms=self.cluster.now_ms(),
            partitions=partial(self._subjects, broker, request, FETCH_VERSION),
        )
        delay_ms = self.cluster.delay_ms(follower, leader)
        if delay_ms:
            then = partial(self._arrives, delay_ms, then)

        def reply(reply: Reply) -> None:
            if reply.fate is Fate.SILENCE or not self.cluster.reach(leader, follower):
                self.cluster.later(int(self.cluster.config["replica.socket.timeout.ms"]), partial(then, None))
            else:
                then(reply.response if reply.fate is Fate.ANSWER and isinstance(reply.response, FetchResponse) else None)

        call = self._routed(broker, request, exchange, reply=reply, processed=_nothing, client=Client(follower=follower))
        if delay_ms:
            self.cluster.later(delay_ms, lambda: None if call.over else call.start())
        else:
            call.start()
        return call

    def _arrives(self, delay_ms: int, then: Callable[[FetchResponse | None], None], response: FetchResponse | None) -> None:
        """The response of a leader behind a slow link arrives later."""
        self.cluster.watch_lag()
        self.cluster.later(delay_ms, partial(then, response))

    def _naming(self, broker: Broker, request: Message, version: int) -> Callable[[], list[tuple[str, int]]]:
        """Returns a function that names the request's partitions, for fault rules."""
        if request.api == Api.DELETE_TOPICS:
            named = self._subjects(broker, request, version)  # after the deletion the topics' ids have no names
            return lambda: named
        return partial(self._subjects, broker, request, version)

    def _subjects(self, broker: Broker, request: Message, version: int) -> list[tuple[str, int]]:
        """The partitions of the request. An incremental fetch is about its whole session, a request for all about all existing ones."""
        cluster = self.cluster
        named = partitions_of(request, cluster.topic_name)
        if asks_for_all(request, version):
            if request.api == Api.OFFSET_FETCH:
                asked: list[Any] = [each for each in (request, *getattr(request, "groups", ())) if getattr(each, "topics", ()) is None]
                return named + [tp for each in asked for tp in self.services.groups.committed(each.group_id, broker.node_id)]
            if names_partitions(request.api):
                return [(topic.name, each.index) for topic in cluster.topics for each in topic.partitions]
            return [(topic.name, ANY_PARTITION) for topic in cluster.topics]
        if request.api == Api.FETCH:
            session = broker.sessions.get(getattr(request, "session_id", 0))
            if session is not None:
                named += [(asked.topic or cluster.topic_name(asked.topic_id) or "", asked.partition) for asked in session.partitions()]
        return named


def _nothing() -> None:
    """Does nothing: no other request waits for this call."""
