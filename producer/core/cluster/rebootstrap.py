"""When to go back to `bootstrap_servers`: KIP-899, and KIP-1102's deadline and error code.

There are two ways. Where none of the known brokers can be reached any more, the bootstrap addresses are tried beside them. Where metadata
did not come for `metadata_recovery_rebootstrap_trigger_ms`, or a broker says REBOOTSTRAP_REQUIRED, or speaks for another cluster, every
link is given up, the known brokers are forgotten, and only the bootstrap addresses are left. What was not acknowledged stays where it is,
with its sequences, and goes to whoever leads its partition then. `metadata_recovery_strategy=none` does neither.

It asks nobody and resolves no names; whoever makes a link does that.
"""

from __future__ import annotations

import logging
from typing import Final

from fencepost.producer.config.settings import MetadataRecovery, Settings
from fencepost.producer.core.cluster.broker_connections import Node, Nodes
from fencepost.producer.core.cluster.view import ClusterView
from fencepost.producer.core.events import NEVER, Command
from fencepost.producer.errors import plain
from fencepost.producer.foundations.printable import said
from fencepost.producer.wire.codes import ErrorCode
from fencepost.producer.wire.messages import MetadataResponse

log = logging.getLogger("fencepost.producer")

ELSEWHERE: Final = "speaks for cluster {theirs}, and this producer writes to cluster {ours}"


class Rebootstrap:
    """See the module. `_since_ms`: when asking for metadata began, if no answer came since. `_back`: nothing is believed of the cluster any
    more, and the bootstrap addresses have not answered yet."""

    def __init__(self, settings: Settings, nodes: Nodes, view: ClusterView) -> None:
        self._nodes = nodes
        self._view = view
        self._wanted = settings.metadata_recovery_strategy is MetadataRecovery.REBOOTSTRAP
        self._trigger_ms = settings.metadata_recovery_rebootstrap_trigger_ms
        self._since_ms: float | None = None
        self._back = False

    def overdue(self, now_ms: float, *, asking: bool) -> list[Command]:
        """Go back if metadata has been asked for in vain for too long. `asking`: whether it is being asked for."""
        if not asking or self._nodes.only_bootstrap():
            self._since_ms = None  # Nobody asks, or there is nothing to go back from.
        if now_ms < self.next_deadline():
            return []
        self._since_ms = now_ms
        return self.go_back(f"no metadata for metadata_recovery_rebootstrap_trigger_ms={plain(self._trigger_ms)}")

    def attempt(self, now_ms: float) -> None:
        """Metadata is about to be asked for."""
        if self._since_ms is None and not self._nodes.only_bootstrap():
            self._since_ms = now_ms
        if self._wanted and self._nodes.exhausted():
            log.info("none of the known brokers can be reached: trying bootstrap_servers as well")
            self._nodes.bootstrapping = True

    def answered(self, node: Node, answer: MetadataResponse) -> list[Command] | None:
        """None for an answer that can be believed; otherwise what to do instead."""
        where = f"broker {node.node_id} at {node.address}"
        if answer.error_code == ErrorCode.REBOOTSTRAP_REQUIRED and self._wanted:
            return self.go_back(f"{where} answered REBOOTSTRAP_REQUIRED")
        # Of a coordinator that was asked for a broker may be known already, by the word of the new cluster.
        if self._moved(answer) and not (node.node_id < 0 and (self._back or self._nodes.only_bootstrap())):
            reason = f"{where} {ELSEWHERE.format(theirs=said(answer.cluster_id), ours=said(self._view.cluster_id))}"
            if self._wanted:
                return self.go_back(reason)
            log.warning("%s; metadata_recovery_strategy=none: it is not believed", reason)
            return self._nodes.disconnect(node, reason)
        if answer.error_code and not answer.brokers:
            return []
        self._since_ms = None
        self._back = False
        return None

    def emigrated(self, answer: MetadataResponse) -> bool:
        """Whether an answer that can be believed comes from another cluster than the producer has written to."""
        moved = self._moved(answer)
        if moved:
            log.warning(
                "bootstrap_servers lead to cluster %s now, and this producer wrote to cluster %s: what may have been written there fails "
                "with DeliveryUnknown, what was not sent yet goes to the new cluster",
                said(answer.cluster_id),
                said(self._view.cluster_id),
            )
        return moved

    def go_back(self, reason: str) -> list[Command]:
        """Give every link up and begin with the bootstrap addresses."""
        log.warning("going back to bootstrap_servers: %s", reason)
        self._back = True
        return self._nodes.start_over(f"going back to bootstrap_servers: {reason}")

    def next_deadline(self) -> float:
        """When asking in vain has lasted too long, in ms."""
        return self._since_ms + self._trigger_ms if self._since_ms is not None and self._wanted else NEVER

    def _moved(self, answer: MetadataResponse) -> bool:
        known = self._view.cluster_id
        return known is not None and answer.cluster_id is not None and answer.cluster_id != known
