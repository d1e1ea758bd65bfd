"""One request on its way through the cluster: fault points, handler, response, journal.

A call runs through BEFORE, its handler, AFTER_APPEND and REPLY. At each point faults may change it, hold it or end it. A call that was
started continues without its connection, as in a broker that has read the request; it ends when its broker stops. It writes nothing:
its caller gets a `Reply`, at most once.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol
from uuid import UUID

import msgspec

from fencepost.broker_stub.faults.execution import execute
from fencepost.broker_stub.faults.rules import Action, Kind, Point
from fencepost.broker_stub.faults.topics_and_partitions import with_error
from fencepost.broker_stub.journal.exchange import Exchange
from fencepost.broker_stub.journal.memory import lightened
from fencepost.broker_stub.requests.client import LOCAL_CLIENT, Client
from fencepost.broker_stub.requests.permissions import INJECTED, Asker, Needs
from fencepost.broker_stub.requests.services import Services
from fencepost.broker_stub.security.operations import CLUSTER_NAME, OLDER, SUPPORTED, Operation, Resource
from fencepost.producer.wire import Api, ErrorCode, Message

if TYPE_CHECKING:
    from fencepost.broker_stub.cluster.broker import Broker
    from fencepost.broker_stub.cluster.cluster import Cluster
    from fencepost.broker_stub.cluster.metadata_image import MetadataImage
    from fencepost.broker_stub.cluster.topics import Topic
    from fencepost.broker_stub.groups.coordinators import GroupCoordinators
    from fencepost.broker_stub.replication.partition import Partition
    from fencepost.broker_stub.replication.replica import Replica
    from fencepost.broker_stub.share_partitions.coordinator.persister import Persister
    from fencepost.broker_stub.share_partitions.share_partitions import BrokerShares
    from fencepost.broker_stub.telemetry.telemetry import Telemetry
    from fencepost.broker_stub.transactions.coordinators import TransactionCoordinators
    from fencepost.broker_stub.transactions.verification import TransactionVerification


class NamesTopic(Protocol):
    """An entry of a request about a topic, by name or by id."""

    @property
    def name(self) -> str: ...
    @property
    def topic_id(self) -> UUID: ...


class Instead(Enum):
    """What a handler may return instead of a response."""

    LATER = "later"  # the handler will call `call.answer`
    NOTHING = "nothing"  # no response is due (acks=0)
    CUT = "cut"  # the connection must be closed


Result = Message | Instead
Handler = Callable[["Call", Message], Result]


class Fate(Enum):
    """What happens to the connection when a call has ended."""

    ANSWER = "answer"
    NOTHING = "nothing"  # no response is due
    SILENCE = "silence"  # no response, now or later
    CLOSE = "close"  # the end, as Kafka's broker does
    CUT = "cut"  # the end, by a fault
    CUT_HALFWAY = "cut halfway"  # the first half of the response, then the end, by a fault


class Reply(NamedTuple):
    """How a call ended."""

    fate: Fate
    response: Message | None = None
    throttle_ms: int = 0
    exchange: Exchange | None = None  # for the journal


class Call:
    """What a handler sees of one request, and the request's way through the points.

    `size_bytes` is the size of the request's frame.
    """

    __slots__ = (
        "_forwarded",
        "_generation",
        "_handler",
        "_needs",
        "_processed",
        "_reply",
        "_result",
        "_services",
        "_throttle_ms",
        "_twice",
        "broker",
        "client",
        "errors",
        "exchange",
        "is_lost",
        "on_lost",
        "request",
        "size_bytes",
        "version",
    )

    def __init__(
        self,
        services: Services,
        broker: Broker,
        handler: Handler,
        *,
        needs: Needs,
        forwarded: bool = False,
        request: Message,
        exchange: Exchange,
        reply: Callable[[Reply], None],
        processed: Callable[[], None],
        client: Client = LOCAL_CLIENT,
        size_bytes: int = 0,
    ) -> None:
        self.broker = broker
        self.client = client
        self.request = request
        self.size_bytes = size_bytes
        self.exchange = exchange
        self.version = exchange.version
        self.errors: list[Action] = []
        self.is_lost = False  # whether the connection is lost
        self.on_lost: Callable[[], None] | None = None  # set by a handler that responds later: called when the connection is lost
        self._forwarded = forwarded
        self._generation = broker.generation
        self._handler = handler
        self._needs = needs
        self._processed = processed
        self._reply = reply
        self._result: Result | None = None
        self._services = services
        self._throttle_ms = 0
        self._twice = False

    @property
    def cluster(self) -> Cluster:
        return self._services.cluster

    @property
    def image(self) -> MetadataImage:
        """What its broker knows of the cluster."""
        return self.broker.image

    def find(self, topic: str, index: int) -> tuple[Partition | None, Replica | None]:
        """The partition, if its broker knows it, and the broker's replica, if it has one."""
        partition = self.cluster.known(self.broker.node_id, topic, index)
        return partition, None if partition is None else partition.on(self.broker.node_id)

    @property
    def groups(self) -> GroupCoordinators:
        return self._services.groups

    @property
    def shares(self) -> BrokerShares:
        """The share partitions and share sessions of its broker."""
        return self._services.share_partitions.at(self.broker.node_id)

    @property
    def persister(self) -> Persister:
        """What brokers ask of share coordinators."""
        return self._services.persister

    @property
    def transactions(self) -> TransactionCoordinators:
        return self._services.transactions

    @property
    def telemetry(self) -> Telemetry:
        return self._services.telemetry

    @property
    def offers_telemetry(self) -> bool:
        """Whether brokers offer clients to take their metrics."""
        return self._services.offers_telemetry

    @property
    def verification(self) -> TransactionVerification:
        return self._services.verification

    @property
    def principal(self) -> str:
        return self.client.principal

    @property
    def follower(self) -> int | None:
        """The broker that sent this as a follower, if one did."""
        return self.client.follower

    @property
    def waits(self) -> bool:
        """Whether its handler responds later."""
        return self.on_lost is not None

    @property
    def client_id(self) -> str | None:
        return self.exchange.client_id

    def fault_for(self, topic: str, partition: int) -> int:
        """The error code of a fault for this partition; 0 if none."""
        return next((action.code for action in self.errors if action.covers(topic, partition)), 0)

    def error_for(self, topic: str, partition: int) -> int:
        """The error code of a fault for this partition, or the one for a topic without permission; 0 if none."""
        return self.fault_for(topic, partition) or self.topic_refusal(topic)

    @property
    def error(self) -> int:
        """The error code of a fault for the whole request, or the one for a cluster without permission; 0 if none."""
        injected = next((action.code for action in self.errors if action.only is None), 0)
        return injected or self.asker.refusal(self._needs.cluster, Resource.CLUSTER)

    def topic_of(self, asked: NamesTopic, *, by_id_since: int) -> Topic | None:
        """The topic that an entry names, by its id from that version of the request on."""
        topics = self.image.topics
        return topics.with_id(asked.topic_id) if self.version >= by_id_since else topics.named(asked.name)

    def group_error(self, group_id: str) -> int:
        """The error code of a fault for the whole request, or the one for a group without permission; 0 if none."""
        return self.error or self.asker.refusal(self._needs.group, Resource.GROUP, group_id)

    def topic_refusal(self, topic: str) -> int:
        """The code for a topic without permission; 0 if the client has it."""
        if self.cluster.authorizer is None or self.follower is not None:
            return 0  # the fast path, taken for every partition of every request
        return self.asker.refusal(self._needs.topic, Resource.TOPIC, topic)

    def refusal(self, operation: Operation, resource: Resource, name: str = CLUSTER_NAME) -> int:
        """The code for an operation without permission; 0 if the client has it."""
        return self.asker.refusal(operation, resource, name)

    @property
    def asker(self) -> Asker:
        """Checks the permissions of this client."""
        cluster = self.cluster
        supported = SUPPORTED if cluster.release.differs.groups_have_configs else OLDER
        return Asker(cluster.authorizer, self.principal, self.client.host, supported)

    def may(self, operation: Operation, resource: Resource, name: str = CLUSTER_NAME) -> bool:
        """Whether this client may do that."""
        return self.asker.may(operation, resource, name)

    def needs_words(self, code: int, operation: Operation) -> str:
        """The error message where a request needs a permission on the cluster. Kafka prints the request itself."""
        if code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return INJECTED
        request = f"Request {type(self.request).__name__.removesuffix('Request')}"
        if self.cluster.release.differs.needs_are_named:
            return f"{request} needs {operation.name} permission."
        return f"{request} is not authorized."

    def start(self) -> None:
        if self.broker.paused:
            self.broker.when_running(self.start)
        else:
            self._pass(Point.BEFORE, self._process)

    def answer(self, result: Result) -> None:
        """Takes the response of a handler that returned LATER. A broker that has stopped sends none."""
        if not self.over:
            self._handled(result)

    def abandon(self) -> None:
        """The connection is lost: a handler that responds later stops waiting. A call that waits for a fault continues."""
        self.is_lost = True
        if self.on_lost is not None:
            self.on_lost()

    def _process(self) -> None:
        cluster = self.cluster
        if self._forwarded and not cluster.controller_link.is_near(self.broker.node_id):
            cluster.controller_link.forward(self.broker.node_id, self._process_forwarded)
        else:
            self._process_here()

    def _process_forwarded(self, got_there: bool) -> None:
        if got_there:
            self._process_here(delay_ms=self.cluster.controller_delay_ms(self.broker.node_id))
        else:
            from fencepost.broker_stub.requests.not_forwarded import timed_out  # imported when this happens, which is rare

            self._handled(self._with_errors(timed_out(self.request, self.version)))

    def _process_here(self, *, delay_ms: int = 0) -> None:
        """`delay_ms`: how long the controller's response takes."""
        writing_ms = self.broker.writing_ms() if self.exchange.api == Api.PRODUCE else 0
        if writing_ms:
            self.cluster.later_on(self.broker.node_id, writing_ms, lambda: None if self.over else self._write())
        else:
            self._write(delay_ms=delay_ms)

    def _write(self, *, delay_ms: int = 0) -> None:
        result = self._handler(self, self.request)
        if self._twice:
            self._process_again()
        if result is Instead.LATER:
            return
        if delay_ms:
            self.cluster.later_on(self.broker.node_id, delay_ms, partial(self.answer, result))
        else:
            self._handled(result)

    def _process_again(self) -> None:
        """Processes the request once more, as after a retransmission, and drops the response."""
        echo = _Echo(
            self._services,
            self.broker,
            self._handler,
            needs=self._needs,
            request=self.request,
            exchange=self.exchange,
            reply=_unheard,
            processed=_nothing,
            client=self.client,
        )
        if self._handler(echo, self.request) is Instead.LATER:
            echo.abandon()

    def _handled(self, result: Result) -> None:
        self.on_lost = None
        self.errors = []  # the handler has applied these; later ones change its response
        self._result = result
        if self.cluster.quotas and self.follower is None and result is not Instead.CUT:
            self._charge()
        self._pass(Point.AFTER_APPEND, self._effected)

    def _charge(self) -> None:
        """Charges the client's quotas."""
        response = self._result if isinstance(self._result, Message) else None
        verdict = self.cluster.throttling_of(self.broker).charge(self, response)
        self._throttle_ms = max(self._throttle_ms, verdict.throttle_ms)
        if verdict.response is not None:
            self._result = verdict.response

    def _effected(self) -> None:
        if isinstance(self._result, Message):
            self._pass(Point.REPLY, self._send)
        elif self._result is Instead.NOTHING and not self.errors:
            self._end(Reply(Fate.NOTHING, throttle_ms=self._throttle_ms))
        else:
            self._end(Reply(Fate.CLOSE))
        self._processed()

    def _send(self, fate: Fate = Fate.ANSWER) -> None:
        response = self._result
        assert isinstance(response, Message)
        response = self._with_errors(response)
        if self._throttle_ms and "throttle_time_ms" in response.__struct_fields__:
            response = msgspec.structs.replace(response, throttle_time_ms=self._throttle_ms)
        self._end(Reply(fate, response, self._throttle_ms, self.exchange))

    def _with_errors(self, response: Message) -> Message:
        for action in self.errors:
            response = with_error(response, action.code, action.covers, self.cluster.topic_name)
        return response

    def _end(self, reply: Reply) -> None:
        if self._services.journal.enabled:
            self.exchange.ended_ms = self.cluster.now_ms()
            if reply.response is not None and reply.fate is Fate.ANSWER:
                self.exchange.response = lightened(reply.response)
        self.exchange.settle()
        self._reply(reply)

    def _pass(self, point: Point, go_on: Callable[[], None]) -> None:
        actions = self.cluster.faults.match(self.exchange, point, addressed=self.follower is not None)
        if actions:
            self.exchange.faults += tuple(str(action.fault) for action in actions)
            if self.follower is not None:
                self.cluster.watch_lag()
            execute(self, iter(actions), point, go_on)
        else:
            go_on()

    # -- what faults do to it ----------------------------------------------------------------------------------------------

    @property
    def over(self) -> bool:
        """Whether the broker has stopped since the call started. Its connections ended with it."""
        return self.broker.generation != self._generation

    def inject(self, action: Action) -> None:
        self.errors.append(action)

    def throttle(self, ms: int) -> None:
        self._throttle_ms = max(self._throttle_ms, ms)

    def repeat(self, point: Point) -> None:
        if point is Point.BEFORE:
            self._twice = True
        else:
            self._process_again()

    def continue_after(self, ms: int, go_on: Callable[[], None]) -> None:
        self.cluster.later_on(self.broker.node_id, ms, go_on)

    def post(self, go_on: Callable[[], None]) -> None:
        self.cluster.post(go_on)

    def break_off(self, kind: Kind, point: Point) -> bool:
        cut = kind is Kind.DISCONNECT
        if not cut and self._result is Instead.NOTHING:
            return False
        if cut and point is Point.REPLY:
            self._send(Fate.CUT_HALFWAY)
        else:
            self._end(Reply(Fate.CUT if cut else Fate.SILENCE))
            if point is not Point.REPLY:
                self._processed()
        return True


class _Echo(Call):
    """A repeated request."""

    __slots__ = ()

    def answer(self, result: Result) -> None:
        """Drops the response, and matches no fault rules."""


def _unheard(reply: Reply) -> None:
    """Drops the response of a repeated request."""


def _nothing() -> None:
    """Does nothing: no request waits for a repeated one."""
