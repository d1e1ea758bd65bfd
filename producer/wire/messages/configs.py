"""DescribeConfigs reads the configs of a resource; AlterConfigs replaces all of them at once.

Only brokers up to Kafka 3.9 accept version 0 of DescribeConfigs.
"""

from __future__ import annotations

from typing import Annotated

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import WireStruct, i8, i16, i32, ignorable, since, until


class DescribeConfigsResource(WireStruct):
    """A topic, a broker or another resource, and the configs that the client asks for; null means all."""

    resource_type: i8 = 0
    resource_name: str = ""
    configuration_keys: list[str] | None = []


class DescribeConfigsRequest(Message):
    """A client asks a broker for configs. It must ask a broker for that broker's own configs."""

    api = Api.DESCRIBE_CONFIGS
    versions = range(5)
    flexible = 4
    is_request = True

    resources: list[DescribeConfigsResource] = []
    include_synonyms: Annotated[bool, since(1)] = False
    include_documentation: Annotated[bool, since(3)] = False


class DescribeConfigsSynonym(WireStruct):
    """One of the places from which the config can take its value, highest priority first."""

    name: Annotated[str, since(1)] = ""
    value: Annotated[str | None, since(1)] = ""
    source: Annotated[i8, since(1)] = 0


class DescribeConfigsResourceResult(WireStruct):
    """One config, its value, and the source of the value."""

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
    """The configs of one resource, or the error."""

    error_code: i16 = 0
    error_message: str | None = ""
    resource_type: i8 = 0
    resource_name: str = ""
    configs: list[DescribeConfigsResourceResult] = []


class DescribeConfigsResponse(Message):
    """The broker answers with one result per resource."""

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
    """A client tells a broker to replace the configs of resources. A config that the request does not name falls back to its default."""

    api = Api.ALTER_CONFIGS
    versions = range(3)
    flexible = 2
    is_request = True

    resources: list[AlterConfigsResource] = []
    validate_only: bool = False


class AlterConfigsResourceResponse(WireStruct):
    """Whether the broker replaced the configs of one resource; if not, the error."""

    error_code: i16 = 0
    error_message: str | None = ""
    resource_type: i8 = 0
    resource_name: str = ""


class AlterConfigsResponse(Message):
    """The broker answers with one result per resource."""

    api = Api.ALTER_CONFIGS
    versions = range(3)
    flexible = 2
    is_request = False

    throttle_time_ms: i32 = 0
    responses: list[AlterConfigsResourceResponse] = []
