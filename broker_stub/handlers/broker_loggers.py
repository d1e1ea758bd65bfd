"""What IncrementalAlterConfigs answers about the loggers of a broker (KIP-412).

A broker of the stub has no loggers of Kafka's, so no change of a level is taken.
"""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.broker_stub.configs.resource_types import ResourceType
from fencepost.broker_stub.handlers.alter_config_checks import permission_refusal
from fencepost.broker_stub.handlers.refusal import Refusal
from fencepost.broker_stub.requests.call import Call
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.incremental_configs import AlterableConfig

SET, DELETE = range(2)
LISTS = {2: "APPEND", 3: "SUBTRACT"}


def logger_refusal(call: Call, name: str, changes: Sequence[AlterableConfig]) -> Refusal | None:
    """Why the levels cannot be changed; None if there is nothing to change."""
    refusal = permission_refusal(call, ResourceType.BROKER_LOGGER, name)
    if refusal is not None:
        return Refusal(refusal.code)
    try:
        node_id = int(name)
    except ValueError:
        return Refusal(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if node_id != call.broker.node_id:
        return Refusal(ErrorCode.INVALID_REQUEST, f"Unexpected node id. Expected {call.broker.node_id}, but received {node_id}")
    for change in changes:
        if change.config_operation in LISTS:
            operation = LISTS[change.config_operation]
            return Refusal(ErrorCode.INVALID_REQUEST, f"{operation} operation is not allowed for the BROKER_LOGGER resource")
        if change.config_operation not in (SET, DELETE):
            return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)
        return Refusal(ErrorCode.INVALID_CONFIG, f"Logger {change.name} does not exist!")
    return None
