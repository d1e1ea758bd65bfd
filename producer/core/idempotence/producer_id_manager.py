"""The producer id: requested once, and again only when a partition has used the last epoch.

It returns (producer id, epoch 0). Each partition bumps its own epoch (`in_flight_window`).
"""

from __future__ import annotations

from collections.abc import Callable

from fencepost.producer.config.settings import Settings
from fencepost.producer.core.cluster.cluster_connection_states import ClusterConnectionStates, Request, backoff_ms
from fencepost.producer.core.error_table import ErrorAction, judge
from fencepost.producer.core.events import NEVER, Command, Die, Send
from fencepost.producer.errors import Fatal, with_code
from fencepost.producer.wire import InitProducerIdRequest, InitProducerIdResponse
from fencepost.producer.wire.codes import Api, error_name

INIT_VERSION_MAX = 5
NO_TRANSACTION_TIMEOUT_MS = 2_147_483_647


class ProducerIdManager:
    """Obtains identities with InitProducerId."""

    def __init__(self, settings: Settings, nodes: ClusterConnectionStates, draw: Callable[[], float]) -> None:
        self.identity: tuple[int, int] | None = None
        self.trouble = "no broker could be asked for one yet"
        self._settings = settings
        self._nodes = nodes
        self._draw = draw
        self._wanted = False
        self._asked = False
        self._attempts = 0
        self._not_before_ms = 0.0

    def identity_after(self, spent_pid: int | None) -> tuple[int, int] | None:
        """An identity whose producer id is not the spent one. Without one, None, and a request follows."""
        if self.identity is not None and self.identity[0] != spent_pid:
            return self.identity
        self._wanted = True
        return None

    def forget(self) -> None:
        """Forget the identity: it belongs to another cluster."""
        self.identity = None

    def advance(self, now_ms: float) -> list[Command]:
        """Send the request if an identity is needed and a node can be asked."""
        if not self._wanted or self._asked or now_ms < self._not_before_ms:
            return []
        node, commands = self._nodes.pick(now_ms, Api.INIT_PRODUCER_ID)
        if node is None:
            return commands
        version = node.version(Api.INIT_PRODUCER_ID, INIT_VERSION_MAX)
        if version is None:
            return [
                Die(
                    Fatal(
                        "the broker cannot assign producer ids (InitProducerId): "
                        "use a broker of Kafka 0.11 or later, or set enable_idempotence=False to write without the guarantee"
                    )
                )
            ]
        request = self._nodes.begin(node, Api.INIT_PRODUCER_ID, now_ms, Request)
        self._asked = True
        message = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=NO_TRANSACTION_TIMEOUT_MS)
        return [*commands, Send(node.node_id, request.request_id, Api.INIT_PRODUCER_ID, version, message)]

    def answered(self, request: Request, answer: InitProducerIdResponse, now_ms: float) -> list[Command]:
        """Use a response."""
        self._asked = False
        row = judge(Api.INIT_PRODUCER_ID, answer.error_code)
        if row.action is ErrorAction.DONE:
            self.identity = (answer.producer_id, answer.producer_epoch)
            self._wanted = False
            self._attempts = 0
            return []
        if row.action is ErrorAction.RETRY:
            self.trouble = f"InitProducerId was answered with {error_name(answer.error_code)}"
            self._again(now_ms)
            return []
        why = f"InitProducerId was refused with {error_name(answer.error_code)}: {row.why}"
        return [Die(with_code(Fatal(why), answer.error_code))]

    def lost(self, request: Request, now_ms: float) -> None:
        """The connection was lost before the response."""
        self._asked = False
        self._again(now_ms)

    def next_deadline(self, now_ms: float) -> float:
        waiting = self._wanted and not self._asked and self._not_before_ms > now_ms
        return self._not_before_ms if waiting else NEVER

    def _again(self, now_ms: float) -> None:
        settings = self._settings
        self._not_before_ms = now_ms + backoff_ms(self._attempts, settings.retry_backoff_ms, settings.retry_backoff_max_ms, self._draw())
        self._attempts += 1
