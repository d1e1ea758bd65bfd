"""The configs that were set on groups. They stay when the group is gone, as in Kafka."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fencepost.broker_stub.configs.group_configs import in_force
from fencepost.broker_stub.configs.topic_configs import BrokerConfig


class GroupConfigs:
    """Of one cluster. `keep` is called with each group whose configs have changed."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._overrides: dict[str, dict[str, str]] = {}
        self.keep: Callable[[str, dict[str, str]], object] = lambda group_id, overrides: None

    def of(self, group_id: str) -> Mapping[str, str]:
        """What was set on that group."""
        return self._overrides.get(group_id, {})

    def value(self, group_id: str, name: str) -> str:
        """The config that is in force for that group."""
        return in_force(self.of(group_id), name, self._config)

    def configure(self, group_id: str, overrides: Mapping[str, str]) -> None:
        """Sets the group's own configs. The caller has checked them."""
        self.keep(group_id, dict(overrides))
        self.resume(group_id, overrides)

    def resume(self, group_id: str, overrides: Mapping[str, str]) -> None:
        """The same for what was kept before."""
        if overrides:
            self._overrides[group_id] = dict(overrides)
        else:
            self._overrides.pop(group_id, None)
