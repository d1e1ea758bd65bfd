"""The configs that clients have set on brokers, groups and client metrics subscriptions. Those of topics are the topics'.

It checks nothing: `dynamic_broker_configs`, `group_configs` and `client_metrics_configs` do.
"""

from __future__ import annotations

from collections.abc import Mapping

from fencepost.broker_stub.configs.resource_types import ResourceType


class DynamicConfigs:
    """The resources of these types that have a config. `of_brokers`: `BrokerConfig.dynamic`."""

    def __init__(self, of_brokers: dict[str, Mapping[str, str]]) -> None:
        self._of: dict[ResourceType, dict[str, Mapping[str, str]]] = {
            ResourceType.BROKER: of_brokers,
            ResourceType.CLIENT_METRICS: {},
            ResourceType.GROUP: {},
        }

    def of(self, kind: ResourceType, name: str) -> Mapping[str, str]:
        """What was set on that resource."""
        return self._of[kind].get(name, {})

    def names(self, kind: ResourceType) -> list[str]:
        """The resources of that type, in the order in which they got their first config."""
        return [*self._of[kind]]

    def change(self, kind: ResourceType, name: str, values: Mapping[str, str]) -> None:
        """Sets all configs of a resource. Without any, there is no such resource."""
        if values:
            self._of[kind][name] = dict(values)
        else:
            self._of[kind].pop(name, None)
