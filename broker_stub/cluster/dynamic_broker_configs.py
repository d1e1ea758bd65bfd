"""Configs that an administrator sets on brokers while they run: on one broker, or on all of them as their default (Kafka's
`DynamicBrokerConfig`).

It keeps and finds values, and checks none: `handlers.alter_broker_configs` does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

MOVE_LIMIT: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
CORDONED: Final = "cordoned.log.dirs"
EVERY_BROKER: Final = ""
EVERY_DIRECTORY: Final = "*"


class DynamicBrokerConfigs:
    """See the module. A broker is named by its id as text. `save` gets all values of a name before they count."""

    def __init__(self, save: Callable[[str, Mapping[str, str]], object]) -> None:
        self._save = save
        self._values: dict[str, dict[str, str]] = {}

    def at(self, name: str) -> dict[str, str]:
        """What is set there."""
        return {**self._values.get(name, {})}

    def of(self, node_id: int, config: str) -> str | None:
        """The value in force at that broker; None: nothing is set."""
        return self.at(str(node_id)).get(config, self.at(EVERY_BROKER).get(config))

    def change(self, name: str, values: Mapping[str, str]) -> None:
        """Sets these and no others."""
        self._save(name, values)
        self.resume(name, values)

    def resume(self, name: str, values: Mapping[str, str]) -> None:
        """The same for what is kept already."""
        self._values[name] = dict(values)
