"""DescribeClientQuotas: how many bytes clients may produce and fetch, and how much of the request threads they may use (KIP-546)."""

from __future__ import annotations

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import WireStruct, f64, i8, i16, i32


class ComponentData(WireStruct):
    """A filter on one type of entity. `match_type` 0 is the entity of that name, 1 the default entity, 2 any entity of the type."""

    entity_type: str = ""
    match_type: i8 = 0
    match: str | None = ""


class DescribeClientQuotasRequest(Message):
    """A client asks a broker for the quotas of matching entities. `strict` leaves out entities that have other types besides these."""

    api = Api.DESCRIBE_CLIENT_QUOTAS
    versions = range(2)
    flexible = 1
    is_request = True

    components: list[ComponentData] = []
    strict: bool = False


class EntityData(WireStruct):
    """One type of an entity, and its name; null is the default entity of that type."""

    entity_type: str = ""
    entity_name: str | None = ""


class ValueData(WireStruct):
    """A quota by its name, and its value: bytes per second, a percentage of the time, or a rate per second."""

    key: str = ""
    value: f64 = 0.0


class EntryData(WireStruct):
    """An entity and its quotas."""

    entity: list[EntityData] = []
    values: list[ValueData] = []


class DescribeClientQuotasResponse(Message):
    """The broker answers with the quotas, by entity."""

    api = Api.DESCRIBE_CLIENT_QUOTAS
    versions = range(2)
    flexible = 1
    is_request = False

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = ""
    entries: list[EntryData] | None = []
