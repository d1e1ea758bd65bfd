"""The connection to the coordinator of a transactional id or a group: which broker it is, one request at a time, and the backoff.

It does not know what the requests ask. It remembers of the answers only which broker is the coordinator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fencepost.producer.config.settings import Settings
from fencepost.producer.core.cluster.cluster_connection_states import ClusterConnectionStates, LinkState, Node, Request, backoff_ms
from fencepost.producer.core.cluster.view import ClusterView
from fencepost.producer.core.events import Command, Send
from fencepost.producer.foundations.address import Address
from fencepost.producer.wire import FindCoordinatorRequest, FindCoordinatorResponse
from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.txn.protocol.error_table import Row, Step, judge
from fencepost.txn.protocol.requests import FIND_VERSION_MAX, TRANSACTION

SOON_MS: Final = 20.0
"""The pause before a request is repeated while the coordinator completes the previous transaction, which usually takes a few
milliseconds."""


class CoordinatorConnection:
    """See the module. `request`: the one in flight. `not_before_ms`: the earliest time for the next one."""

    def __init__(
        self,
        key: str,
        settings: Settings,
        *,
        key_type: int = TRANSACTION,
        nodes: ClusterConnectionStates,
        view: ClusterView,
        draw: Callable[[], float],
    ) -> None:
        self.request: Request | None = None
        self.not_before_ms = 0.0
        self._key = key
        self._key_type = key_type
        self._settings = settings
        self._nodes = nodes
        self._view = view
        self._draw = draw
        self._node_id: int | None = None
        self._losses = 0
        self._attempts = 0

    @property
    def node_id(self) -> int | None:
        """The coordinator, if it is known."""
        return self._node_id

    def ready(self, now_ms: float) -> tuple[Node | None, list[Command]]:
        """The coordinator if a request can be sent now, and the commands that are needed before one can be."""
        if self.request is not None or now_ms < self.not_before_ms:
            return None, []
        node = self._nodes.get(self._node_id) if self._node_id is not None else None
        if node is None or (node.state is LinkState.DOWN and node.losses != self._losses):
            self._node_id = None
            return None, self._look_up(now_ms)
        if node.ready(now_ms):
            return node, []
        return None, self._nodes.connect(node, now_ms)

    def send(self, node: Node, message: Message, version: int, now_ms: float) -> list[Command]:
        """Send a request."""
        self.request = self._nodes.begin(node, message.api, now_ms, Request)
        return [Send(node.node_id, self.request.request_id, message.api, version, message)]

    def answered(self) -> None:
        """The request in flight was answered."""
        self.request = None

    def went_well(self) -> None:
        """The next request is a first attempt, without backoff."""
        self._attempts = 0

    def lost(self, now_ms: float) -> None:
        """The request in flight was lost with its connection."""
        self.request = None
        self.again(Step.RETRY, now_ms)

    def again(self, step: Step, now_ms: float) -> None:
        """Repeat the same request after a backoff."""
        if step is Step.LOOKUP:
            self._node_id = None
        base_ms = SOON_MS if step is Step.SOON else self._settings.retry_backoff_ms
        cap_ms = max(base_ms, self._settings.retry_backoff_max_ms)
        self.not_before_ms = now_ms + backoff_ms(self._attempts, base_ms, cap_ms, self._draw())
        self._attempts += 1

    def found(self, answer: FindCoordinatorResponse, now_ms: float) -> tuple[Row, int, list[Command]]:
        """Read which broker is the coordinator. Returns the row of the answer's code, the code, and the commands that follow."""
        said = answer.coordinators[0] if answer.coordinators else answer
        row = judge(Api.FIND_COORDINATOR, said.error_code)
        if row.step is not Step.DONE:
            return row, said.error_code, []
        self._view.brokers = self._view.brokers | {said.node_id: Address(said.host, said.port)}
        commands = self._nodes.learn(self._view.brokers)
        node = self._nodes.get(said.node_id)
        self._node_id = said.node_id
        self._losses = node.losses if node is not None else 0
        return row, said.error_code, commands

    def _look_up(self, now_ms: float) -> list[Command]:
        node, commands = self._nodes.pick(now_ms, Api.FIND_COORDINATOR)
        if node is None:
            return commands
        version = node.version(Api.FIND_COORDINATOR, FIND_VERSION_MAX, least=1)
        if version is None:
            self.again(Step.RETRY, now_ms)
            return commands
        if version >= FIND_VERSION_MAX:
            message = FindCoordinatorRequest(key_type=self._key_type, coordinator_keys=[self._key])
        else:
            message = FindCoordinatorRequest(key_type=self._key_type, key=self._key)
        return [*commands, *self.send(node, message, version, now_ms)]
