"""The client metrics of a cluster: one manager for each broker, and what clients have pushed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from fencepost.broker_stub.configs.resource_types import ResourceType
from fencepost.broker_stub.telemetry.client_metrics_manager import ClientMetricsManager, Subscriptions
from fencepost.broker_stub.telemetry.pushes import Pushes

if TYPE_CHECKING:
    from fencepost.broker_stub.cluster.context import Context


class Telemetry:
    """Of one cluster."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._managers: dict[int, tuple[int, ClientMetricsManager]] = {}
        self.pushes = Pushes()
        context.on_configs_changed.append(self._changed)

    def manager(self, node_id: int) -> ClientMetricsManager:
        """That of a broker. It ends with the broker."""
        broker = self._context.brokers[node_id]
        generation, manager = self._managers.get(node_id, (-1, None))
        if manager is None or generation != broker.generation:
            manager = ClientMetricsManager(
                subscriptions=self._subscriptions,
                is_open=partial(self._is_open, node_id),
                new_id=self._context.new_id,
                bytes_max=int(self._context.config["telemetry.max.bytes"]),
            )
            self._managers[node_id] = broker.generation, manager
        return manager

    def _subscriptions(self) -> Subscriptions:
        known = self._context.dynamic_configs
        return {name: known.of(ResourceType.CLIENT_METRICS, name) for name in known.names(ResourceType.CLIENT_METRICS)}

    def _is_open(self, node_id: int, connection_id: int) -> bool:
        return any(connection.id == connection_id for connection in self._context.brokers[node_id].connections)

    def _changed(self, kind: ResourceType, name: str) -> None:
        if kind is ResourceType.CLIENT_METRICS:
            for _, manager in self._managers.values():
                manager.version += 1
