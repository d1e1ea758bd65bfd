"""The configs of brokers that IncrementalAlterConfigs changes: the limit of moves between log directories, and which of these are cordoned.

The limits of replication can be deleted, because no broker has one. Everything else is refused.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from fencepost.broker_stub.cluster.dynamic_broker_configs import CORDONED, EVERY_BROKER, EVERY_DIRECTORY, MOVE_LIMIT
from fencepost.broker_stub.configs.values import LONG_MAX, split
from fencepost.broker_stub.handlers.refusal import Refusal
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.incremental_configs import AlterableConfig, AlterConfigsResource

if TYPE_CHECKING:
    from fencepost.broker_stub.requests.call import Call

SET, DELETE, APPEND, SUBTRACT = range(4)
RATES: Final = frozenset(("leader.replication.throttled.rate", "follower.replication.throttled.rate"))


def is_changeable(call: Call, config: AlterableConfig) -> bool:
    """Whether the stub makes this change at all."""
    if config.name in RATES:
        return config.config_operation == DELETE
    return config.name == MOVE_LIMIT or (config.name == CORDONED and call.cluster.release.differs.directories_are_cordoned)


def alter_broker(call: Call, resource: AlterConfigsResource, *, validate_only: bool) -> Refusal | None:
    """Changes what is set on that broker, or on all for an empty name. Returns why it cannot."""
    configs, name = call.cluster.broker_configs, resource.resource_name
    values = configs.at(name)
    for config in resource.configs:
        if config.config_operation == DELETE:
            values.pop(config.name, None)
        elif config.config_operation == SET:
            values[config.name] = config.value or ""
        elif config.name == CORDONED:
            values[config.name] = _changed(config, values.get(config.name, ""))
        else:
            word = "APPEND" if config.config_operation == APPEND else "SUBTRACT"
            return Refusal(ErrorCode.INVALID_REQUEST, f"Can't {word} to key {config.name} because its type is not LIST.")
    wrong = _wrong_limit(values.get(MOVE_LIMIT)) or _wrong_directories(call, name, values.get(CORDONED))
    if wrong is not None:
        return Refusal(ErrorCode.INVALID_REQUEST, wrong)
    if not validate_only and values != configs.at(name):
        call.cluster.configure_brokers(name, values)
    return None


def _changed(config: AlterableConfig, current: str) -> str:
    """The list with more or fewer words."""
    before, named = split(current), split(config.value or "")
    if config.config_operation == APPEND:
        return ",".join([*before, *(each for each in named if each not in before)])
    return ",".join(each for each in before if each not in named)


def _wrong_limit(limit: str | None) -> str | None:
    if limit is None:
        return None
    says = f"Invalid value {limit} for configuration {MOVE_LIMIT}:"
    if re.fullmatch("[+-]?[0-9]{1,19}", limit.strip()) is None or int(limit) > LONG_MAX:
        return f"{says} Not a number of type LONG"
    return f"{says} Value must be at least 0" if int(limit) < 0 else None


def _wrong_directories(call: Call, name: str, paths: str | None) -> str | None:
    if paths is None:
        return None
    if name == EVERY_BROKER:
        return f"Cannot update these configs at default cluster level, broker id must be specified: [{CORDONED}]"
    named = split(paths)
    if EVERY_DIRECTORY in named:
        return None if len(named) == 1 else f"requirement failed: When {CORDONED} is set to *, it must not contain other values"
    unknown = [path for path in named if call.broker.logs.dir_at(path) is None]
    if not unknown:
        return None
    there = f"All entries in {CORDONED} must be present in log.dirs or log.dir."
    return f"requirement failed: {there} Missing entries : {', '.join(unknown)}"
