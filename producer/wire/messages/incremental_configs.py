"""IncrementalAlterConfigs: changes some configs of a resource and leaves the others as they are (KIP-339)."""

from __future__ import annotations

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.messages.configs import AlterConfigsResourceResponse
from fencepost.producer.wire.schema.fields import WireStruct, i8, i32


class AlterableConfig(WireStruct):
    """A config, its new value, and the operation: 0 set, 1 delete, 2 append to its list, 3 subtract from its list."""

    name: str = ""
    config_operation: i8 = 0
    value: str | None = ""


class AlterConfigsResource(WireStruct):
    """A resource, and the changes to its configs."""

    resource_type: i8 = 0
    resource_name: str = ""
    configs: list[AlterableConfig] = []


class IncrementalAlterConfigsRequest(Message):
    """A client tells a broker to change configs of resources."""

    api = Api.INCREMENTAL_ALTER_CONFIGS
    versions = range(2)
    flexible = 1
    is_request = True

    resources: list[AlterConfigsResource] = []
    validate_only: bool = False


class IncrementalAlterConfigsResponse(Message):
    """The broker answers with one result per resource."""

    api = Api.INCREMENTAL_ALTER_CONFIGS
    versions = range(2)
    flexible = 1
    is_request = False

    throttle_time_ms: i32 = 0
    responses: list[AlterConfigsResourceResponse] = []
