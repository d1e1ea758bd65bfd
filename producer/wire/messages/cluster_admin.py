"""UpdateFeatures changes the levels of a cluster's features (KIP-584). UnregisterBroker removes a broker (KIP-500)."""

from __future__ import annotations

from typing import Annotated

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import WireStruct, i8, i16, i32, ignorable, since, until


class FeatureUpdateKey(WireStruct):
    """A feature, its new level, and whether the level may fall: upgrade type 1 no, 2 if nothing is lost, 3 in any case."""

    feature: str = ""
    max_version_level: i16 = 0
    allow_downgrade: Annotated[bool, until(0)] = False
    upgrade_type: Annotated[i8, since(1)] = 1


class UpdateFeaturesRequest(Message):
    """A client tells the controller to change features."""

    api = Api.UPDATE_FEATURES
    versions = range(3)
    flexible = 0
    is_request = True

    timeout_ms: i32 = 60000
    feature_updates: list[FeatureUpdateKey] = []
    validate_only: Annotated[bool, since(1)] = False


class UpdatableFeatureResult(WireStruct):
    """A feature, and whether it was changed."""

    feature: str = ""
    error_code: i16 = 0
    error_message: str | None = ""


class UpdateFeaturesResponse(Message):
    """The controller changes all features or none. Up to version 1 it answers feature by feature."""

    api = Api.UPDATE_FEATURES
    versions = range(3)
    flexible = 0
    is_request = False

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = ""
    results: Annotated[list[UpdatableFeatureResult], until(1), ignorable] = []


class UnregisterBrokerRequest(Message):
    """A client tells the controller to forget a broker."""

    api = Api.UNREGISTER_BROKER
    versions = range(1)
    flexible = 0
    is_request = True

    broker_id: i32 = 0


class UnregisterBrokerResponse(Message):
    """The controller answers whether it has forgotten the broker."""

    api = Api.UNREGISTER_BROKER
    versions = range(1)
    flexible = 0
    is_request = False

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = ""
