"""ListConfigResources: the resources that have configs (KIP-714, KIP-1142). Version 0 is ListClientMetricsResources."""

from __future__ import annotations

from typing import Annotated

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import WireStruct, i8, i16, i32, ignorable, since


class ListConfigResourcesRequest(Message):
    """A client asks for the resources of these types; an empty list stands for all types. Version 0 asks for client metrics."""

    api = Api.LIST_CONFIG_RESOURCES
    versions = range(2)
    flexible = 0
    is_request = True

    resource_types: Annotated[list[i8], since(1)] = []


class ConfigResource(WireStruct):
    """A resource and its type."""

    resource_name: str = ""
    resource_type: Annotated[i8, since(1), ignorable] = 16


class ListConfigResourcesResponse(Message):
    """The broker answers with the resources."""

    api = Api.LIST_CONFIG_RESOURCES
    versions = range(2)
    flexible = 0
    is_request = False

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    config_resources: list[ConfigResource] = []
