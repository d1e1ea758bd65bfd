"""DescribeConfigs and AlterConfigs, which replaces all configs of a resource at once. Only brokers up to Kafka 3.9 take version 0 of
DescribeConfigs."""

from __future__ import annotations

from typing import Annotated

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import WireStruct, i8, i16, i32, ignorable, since, until


class DescribeConfigsResource(WireStruct):
    """A topic, a broker or another resource, and which of its configs are asked for, null for all."""

    resource_type: i8 = 0
    resource_name: str = ""
    configuration_keys: list[str] | None = []


class DescribeConfigsRequest(Message):
    """Asks for configs. Those of a broker must be asked of that broker."""

    api = Api.DESCRIBE_CONFIGS
    versions = range(5)
    flexible = 4
    is_request = True

    resources: list[DescribeConfigsResource] = []
    include_synonyms: Annotated[bool, since(1)] = False
    include_documentation: Annotated[bool, since(3)] = False


class DescribeConfigsSynonym(WireStruct):
    """A config that the value comes from, or would come from if the ones before it were not set."""

    name: Annotated[str, since(1)] = ""
    value: Annotated[str | None, since(1)] = ""
    source: Annotated[i8, since(1)] = 0


class DescribeConfigsResourceResult(WireStruct):
    """One config: its value and where that comes from."""

    name: str = ""
    value: str | None = ""
    read_only: bool = False
    is_default: Annotated[bool, until(0)] = False
    config_source: Annotated[i8, since(1), ignorable] = -1
    is_sensitive: bool = False
    synonyms: Annotated[list[DescribeConfigsSynonym], since(1), ignorable] = []
    config_type: Annotated[i8, since(3), ignorable] = 0
    documentation: Annotated[str | None, since(3), ignorable] = ""


class DescribeConfigsResult(WireStruct):
    """The configs of one resource."""

    error_code: i16 = 0
    error_message: str | None = ""
    resource_type: i8 = 0
    resource_name: str = ""
    configs: list[DescribeConfigsResourceResult] = []


class DescribeConfigsResponse(Message):
    """One answer per resource."""

    api = Api.DESCRIBE_CONFIGS
    versions = range(5)
    flexible = 4
    is_request = False

    throttle_time_ms: i32 = 0
    results: list[DescribeConfigsResult] = []


class AlterableConfig(WireStruct):
    """A config and its new value."""

    name: str = ""
    value: str | None = ""


class AlterConfigsResource(WireStruct):
    """A resource and all its new configs."""

    resource_type: i8 = 0
    resource_name: str = ""
    configs: list[AlterableConfig] = []


class AlterConfigsRequest(Message):
    """Replaces the configs of resources: what is not named is as it would be without ever having been set."""

    api = Api.ALTER_CONFIGS
    versions = range(3)
    flexible = 2
    is_request = True

    resources: list[AlterConfigsResource] = []
    validate_only: bool = False


class AlterConfigsResourceResponse(WireStruct):
    """What became of one resource."""

    error_code: i16 = 0
    error_message: str | None = ""
    resource_type: i8 = 0
    resource_name: str = ""


class AlterConfigsResponse(Message):
    """One answer per resource."""

    api = Api.ALTER_CONFIGS
    versions = range(3)
    flexible = 2
    is_request = False

    throttle_time_ms: i32 = 0
    responses: list[AlterConfigsResourceResponse] = []
