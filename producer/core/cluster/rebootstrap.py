"""When to go back to `bootstrap_servers`: KIP-899, and KIP-1102's deadline and error code.

There are two ways. If no known broker can be reached any more, the producer tries the bootstrap addresses, too. If no metadata came for
`metadata_recovery_rebootstrap_trigger_ms`, a broker says REBOOTSTRAP_REQUIRED, or a broker belongs to another cluster, the producer closes
every connection, forgets the brokers, and only tries the bootstrap addresses. Batches without an acknowledgement keep their sequences and
go to the new leaders of their partitions. `metadata_recovery_strategy=none` does neither.

It sends no requests and resolves no names.
"""

from __future__ import annotations

import logging
from typing import Final

from fencepost.producer.config.settings import MetadataRecovery, Settings
from fencepost.producer.core.cluster.cluster_connection_states import ClusterConnectionStates, Node
from fencepost.producer.core.cluster.view import ClusterView
from fencepost.producer.core.events import NEVER, Command
from fencepost.producer.errors import plain
from fencepost.producer.foundations.printable import said
from fencepost.producer.wire import MetadataResponse
from fencepost.producer.wire.codes import ErrorCode

log = logging.getLogger("fencepost.producer")

ELSEWHERE: Final = "belongs to cluster {theirs}, but this producer writes to cluster {ours}"


class Rebootstrap:
    """See the module. `_since_ms`: when asking for metadata began, if no response came since. `_back`: the brokers are forgotten, and no
    bootstrap address has answered yet."""

    def __init__(self, settings: Settings, nodes: ClusterConnectionStates, view: ClusterView) -> None:
        self._nodes = nodes
        self._view = view
        self._wanted = settings.metadata_recovery_strategy is MetadataRecovery.REBOOTSTRAP
        self._trigger_ms = settings.metadata_recovery_rebootstrap_trigger_ms
        self._since_ms: float | None = None
        self._back = False

    def overdue(self, now_ms: float, *, asking: bool) -> list[Command]:
        """Go back if no metadata came for too long. `asking`: whether the producer asks for metadata."""
        if not asking or self._nodes.only_bootstrap():
            self._since_ms = None  # No metadata is needed, or only bootstrap addresses are known anyway.
        if now_ms < self.next_deadline():
            return []
        self._since_ms = now_ms
        return self.go_back(f"no metadata for metadata_recovery_rebootstrap_trigger_ms={plain(self._trigger_ms)}")

    def attempt(self, now_ms: float) -> None:
        """Metadata is about to be asked for."""
        if self._since_ms is None and not self._nodes.only_bootstrap():
            self._since_ms = now_ms
        if self._wanted and self._nodes.exhausted():
            log.info("none of the known brokers can be reached: trying bootstrap_servers, too")
            self._nodes.bootstrapping = True

    def answered(self, node: Node, answer: MetadataResponse) -> list[Command] | None:
        """None for a response to use; otherwise the commands to run instead."""
        where = node.name
        if answer.error_code == ErrorCode.REBOOTSTRAP_REQUIRED and self._wanted:
            return self.go_back(f"{where} answered REBOOTSTRAP_REQUIRED")
        # FindCoordinator may have told the new cluster's broker already, so `only_bootstrap` alone is not enough.
        if self._moved(answer) and not (node.node_id < 0 and (self._back or self._nodes.only_bootstrap())):
            reason = f"{where} {ELSEWHERE.format(theirs=said(answer.cluster_id), ours=said(self._view.cluster_id))}"
            if self._wanted:
                return self.go_back(reason)
            log.warning("%s: its metadata is ignored, because metadata_recovery_strategy=none", reason)
            return self._nodes.disconnect(node, reason)
        if answer.error_code and not answer.brokers:
            return []
        self._since_ms = None
        self._back = False
        return None

    def is_another_cluster(self, answer: MetadataResponse) -> bool:
        """Whether a response to use comes from another cluster than the one that the producer wrote to."""
        moved = self._moved(answer)
        if moved:
            log.warning(
                "bootstrap_servers lead to cluster %s now, but this producer wrote to cluster %s: records that were sent there without an "
                "acknowledgement fail with DeliveryUnknown, records that were not sent go to the new cluster",
                said(answer.cluster_id),
                said(self._view.cluster_id),
            )
        return moved

    def go_back(self, reason: str) -> list[Command]:
        """Close every connection and start again with the bootstrap addresses."""
        log.warning("going back to bootstrap_servers: %s", reason)
        self._back = True
        return self._nodes.start_over(f"going back to bootstrap_servers: {reason}")

    def next_deadline(self) -> float:
        """When the producer goes back if no metadata comes, in ms."""
        return self._since_ms + self._trigger_ms if self._since_ms is not None and self._wanted else NEVER

    def _moved(self, answer: MetadataResponse) -> bool:
        known = self._view.cluster_id
        return known is not None and answer.cluster_id is not None and answer.cluster_id != known
