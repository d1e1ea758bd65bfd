"""Single questions to a cluster, without a producer: the leaders, the coordinators, and one request to one broker.

Each answer comes within `request_timeout_ms` or not at all; the caller passes a `Deadline`. A failure that may pass is an `Unanswered`,
which is an OSError. A lasting failure raises its own error at once. The client keeps connections, and of the answers only where brokers
are.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from fencepost.producer.config.bootstrap_servers import addresses
from fencepost.producer.config.settings import Settings
from fencepost.producer.core.cluster.cluster_connection_states import backoff_ms
from fencepost.producer.core.error_classes import KINDS, RETRIABLE_KINDS
from fencepost.producer.errors import with_code
from fencepost.producer.foundations.address import Address
from fencepost.producer.foundations.counted import counted
from fencepost.producer.network.connect_error import ConnectError
from fencepost.producer.network.connection import Connection
from fencepost.producer.network.connector import Connector, Versions
from fencepost.producer.wire import REQUESTS, FindCoordinatorRequest, FindCoordinatorResponse, MetadataRequest, MetadataResponse
from fencepost.producer.wire.codes import Api, ErrorCode, error_name
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.messages.metadata import MetadataRequestTopic
from fencepost.txn.errors import NotPermitted
from fencepost.txn.protocol.error_table import AGAIN, TABLE, judge
from fencepost.txn.protocol.requests import FIND_VERSION_MAX, GROUP, TRANSACTION

T = TypeVar("T")

SOON: Final = frozenset({ErrorCode.UNKNOWN_SERVER_ERROR, *(code for code, kind in KINDS.items() if kind in RETRIABLE_KINDS)})
"""Codes after which the same question may succeed a moment later, for requests that the coordinators' table does not have. A broker that
has not heard of a new topic or of a new leader yet answers with UNKNOWN_TOPIC_OR_PARTITION."""


DENIED: Final = frozenset(
    {
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
)


class Unanswered(OSError):
    """There is no usable answer this time."""


class Deadline:
    """The time to stop. `trouble`: why there is no answer yet, for the error that the time passed."""

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._at = self._loop.time() + seconds
        self.seconds = seconds
        self.trouble = "no broker was asked"

    @property
    def left_s(self) -> float:
        return max(0.0, self._at - self._loop.time())

    @property
    def passed(self) -> bool:
        return self.left_s <= 0.0


class ClusterClient:
    """See the module. `brokers`: by node id, from the newest answer."""

    def __init__(self, settings: Settings) -> None:
        self.brokers: dict[int, Address] = {}
        self._settings = settings
        self._connector = Connector(settings)
        self._open: dict[Address, tuple[Connection, Versions]] = {}
        self._dialling: defaultdict[Address, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._coordinators: dict[tuple[int, str], int] = {}
        self._answers = 0
        self._given_up = ""
        """Which answer had not come when the time passed."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for connection, _ in self._open.values():
            connection.silence()

    # -- asking ------------------------------------------------------------------------------------------------------

    async def again(self, ask: Callable[[], Awaitable[T]], deadline: Deadline) -> T:
        """The first answer before the deadline. Raises Unanswered with the last reason when it passes."""
        attempt = 0
        while True:
            self._given_up = ""
            try:
                async with asyncio.timeout(deadline.left_s):
                    return await ask()
            except TimeoutError:
                raise Unanswered(self._given_up or deadline.trouble) from None
            except Unanswered as error:
                deadline.trouble = str(error)
            await self.pause(attempt, deadline)
            attempt += 1

    async def pause(self, attempt: int, deadline: Deadline) -> None:
        """Wait before the next attempt, or raise Unanswered if there is no time for one."""
        settings = self._settings
        wait_s = backoff_ms(attempt, settings.retry_backoff_ms, settings.retry_backoff_max_ms, random.random()) / 1000.0
        if deadline.left_s <= wait_s:
            raise Unanswered(deadline.trouble)
        await asyncio.sleep(wait_s)

    async def ask(self, node_id: int, message: Message, versions: range | None = None) -> Any:
        """One broker's answer to one request."""
        address = self.brokers.get(node_id)
        if address is None:
            raise Unanswered(f"broker {node_id} is not known to the cluster at the moment")
        return await self._ask_at(address, message, versions)

    async def ask_any(self, message: Message, versions: range | None = None) -> Any:
        """The answer of the first broker that gives one."""
        known = list(self.brokers.values())
        random.shuffle(known)
        trouble: list[str] = []
        for address in (*known, *(each for each in addresses(self._settings) if each not in known)):
            try:
                return await self._ask_at(address, message, versions)
            except Unanswered as error:
                trouble.append(str(error))
        raise Unanswered("; ".join(trouble))

    async def metadata(self, topics: Iterable[str] | None = ()) -> MetadataResponse:
        """The brokers and these topics; None for all topics. It creates no topic."""
        wanted = [MetadataRequestTopic(name=name) for name in topics] if topics is not None else None
        answer: MetadataResponse = await self.ask_any(MetadataRequest(topics=wanted, allow_auto_topic_creation=False), range(4, 14))
        self.brokers.update({broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers})
        return answer

    async def coordinator(self, key: str, kind: int = TRANSACTION) -> int:
        """The coordinator of a transactional id, or of a group: looked up once, and again after `forget`."""
        if (kind, key) in self._coordinators:
            return self._coordinators[kind, key]
        answer: FindCoordinatorResponse
        try:
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
            answer = await self.ask_any(request, range(FIND_VERSION_MAX, FIND_VERSION_MAX + 1))
        except NotPermitted:
            answer = await self.ask_any(FindCoordinatorRequest(key_type=kind, key=key), range(1, FIND_VERSION_MAX))
        said = answer.coordinators[0] if answer.coordinators else answer
        refuse(Api.FIND_COORDINATOR, said.error_code, f"{'group' if kind == GROUP else 'transactional id'} {key!r}")
        self.brokers[said.node_id] = Address(said.host, said.port)
        self._coordinators[kind, key] = said.node_id
        return said.node_id

    async def ask_coordinator(self, key: str, message: Message, versions: range | None = None, *, kind: int = TRANSACTION) -> Any:
        """The coordinator's answer. If it gives none, its successor is looked up."""
        node_id = await self.coordinator(key, kind)
        try:
            return await self.ask(node_id, message, versions)
        except Unanswered:
            self.forget(key, kind)
            raise

    def forget(self, key: str, kind: int = TRANSACTION) -> None:
        """The coordinator has changed, or may have."""
        self._coordinators.pop((kind, key), None)

    def refuse(self, api: Api, code: int, subject: str, *, key: str, kind: int = TRANSACTION) -> None:
        """`refuse` for a coordinator's code. It looks for the coordinator anew the next time."""
        if code:
            self.forget(key, kind)
        refuse(api, code, subject)

    # -- connections -------------------------------------------------------------------------------------------------

    async def _ask_at(self, address: Address, message: Message, versions: range | None) -> Any:
        try:
            answer = await self._answer_of(address, message, versions)
        except asyncio.CancelledError:
            already = f", after {counted(self._answers, 'answer')}" if self._answers else ""
            self._given_up = f"{address} has not answered {message.api.name} yet{already}"
            raise
        self._answers += 1
        return answer

    async def _answer_of(self, address: Address, message: Message, versions: range | None) -> Any:
        connection, offered = await self._connection(address)
        ours = versions if versions is not None else REQUESTS[message.api].versions
        low, high = offered.get(message.api, (0, -1))
        version = min(high, ours[-1])
        if version < max(low, ours[0]):
            theirs = f"versions {low} to {high}" if high >= low else "none"
            raise NotPermitted(
                f"the broker at {address} offers {theirs} of {message.api.name}; this client needs one of {ours[0]} to {ours[-1]}"
            )
        try:
            async with asyncio.timeout(self._settings.request_timeout_ms / 1000.0):
                return await connection.ask(message, version)
        except ConnectError as refusal:
            raise refusal.for_core() from None
        except TimeoutError:
            reason = f"{address} did not answer {message.api.name} in time"
        except OSError as error:
            reason = f"{address} did not answer {message.api.name}: {error}"
        if self._open.get(address, (None,))[0] is connection:
            del self._open[address]
        connection.silence()
        raise Unanswered(reason)

    async def _connection(self, address: Address) -> tuple[Connection, Versions]:
        async with self._dialling[address]:
            if address not in self._open:
                try:
                    opened = await self._connector.open(address.host, address.port)
                except ConnectError as refusal:
                    raise refusal.kind(f"{address}: {refusal}") from None
                except OSError as error:
                    raise Unanswered(f"{address}: {error}") from None
                self._open[address] = (opened.connection, opened.versions)
            return self._open[address]


def the_one(answers: Sequence[T], subject: str) -> T:
    """The answer about the one thing that was asked about. Raises Unanswered if the broker answers about none, or also about others."""
    if len(answers) != 1:
        raise Unanswered(f"{subject}: a broker was asked about one thing, and answers about {len(answers)}")
    return answers[0]


def refuse(api: Api, code: int, subject: str) -> None:
    """Raise the error of a code: Unanswered if it may pass. If not, the error that the coordinators' table has for it; for other requests
    NotPermitted."""
    if code == ErrorCode.NONE:
        return
    words = f"{subject}: {api.name} was refused with {error_name(code)}"
    row = judge(api, code) if api in TABLE else None
    if code in SOON if row is None else row.step in AGAIN:
        raise Unanswered(words)
    raise with_code((NotPermitted if row is None else row.kind)(words), code)
