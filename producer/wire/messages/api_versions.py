"""ApiVersions: the APIs and versions of a broker, and the features of its cluster. It is the first request on every connection.

A broker that does not know the version of the request answers in version 0 (KIP-511).
"""

from __future__ import annotations

from typing import Annotated

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import WireStruct, i16, i32, i64, ignorable, since, tag


class ApiVersionsRequest(Message):
    """A client asks a broker which APIs and versions it has. From version 3 on the client sends its software's name and version."""

    api = Api.API_VERSIONS
    versions = range(5)
    flexible = 3
    is_request = True

    client_software_name: Annotated[str, since(3), ignorable] = ""
    client_software_version: Annotated[str, since(3), ignorable] = ""


class ApiVersion(WireStruct):
    """The lowest and the highest version that the broker has of one API."""

    api_key: i16 = 0
    min_version: i16 = 0
    max_version: i16 = 0


class SupportedFeatureKey(WireStruct):
    """The lowest and the highest level of one feature that this broker could run."""

    name: Annotated[str, since(3)] = ""
    min_version: Annotated[i16, since(3)] = 0
    max_version: Annotated[i16, since(3)] = 0


class FinalizedFeatureKey(WireStruct):
    """The level of one feature that the cluster runs."""

    name: Annotated[str, since(3)] = ""
    max_version_level: Annotated[i16, since(3)] = 0
    min_version_level: Annotated[i16, since(3)] = 0


class ApiVersionsResponse(Message):
    """The broker answers with its APIs and features. Version 4 is the first in which a supported feature may start at level 0."""

    api = Api.API_VERSIONS
    versions = range(5)
    flexible = 3
    is_request = False

    error_code: i16 = 0
    api_keys: list[ApiVersion] = []
    throttle_time_ms: Annotated[i32, since(1), ignorable] = 0
    supported_features: Annotated[list[SupportedFeatureKey], since(3), tag(0), ignorable] = []
    finalized_features_epoch: Annotated[i64, since(3), tag(1), ignorable] = -1
    finalized_features: Annotated[list[FinalizedFeatureKey], since(3), tag(2), ignorable] = []
    zk_migration_ready: Annotated[bool, since(3), tag(3), ignorable] = False
