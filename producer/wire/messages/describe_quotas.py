"""DescribeClientQuotas: how much clients may produce, fetch and ask for (KIP-546)."""

from __future__ import annotations

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import WireStruct, f64, i8, i16, i32


class ComponentData(WireStruct):
    """One type of entity, and which entities of it: 0 the one of that name, 1 the default, 2 any."""

    entity_type: str = ""
    match_type: i8 = 0
    match: str | None = ""


class DescribeClientQuotasRequest(Message):
    """Asks for the quotas of the entities that match. `strict`: of entities that have these types and no others."""

    api = Api.DESCRIBE_CLIENT_QUOTAS
    versions = range(2)
    flexible = 1
    is_request = True

    components: list[ComponentData] = []
    strict: bool = False


class EntityData(WireStruct):
    """One type of an entity and its name; null is the default of that type."""

    entity_type: str = ""
    entity_name: str | None = ""


class ValueData(WireStruct):
    """A quota."""

    key: str = ""
    value: f64 = 0.0


class EntryData(WireStruct):
    """An entity and its quotas."""

    entity: list[EntityData] = []
    values: list[ValueData] = []


class DescribeClientQuotasResponse(Message):
    """The quotas."""

    api = Api.DESCRIBE_CLIENT_QUOTAS
    versions = range(2)
    flexible = 1
    is_request = False

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = ""
    entries: list[EntryData] | None = []
