"""DescribeClientQuotas: how much clients may produce, fetch and ask for (KIP-546)."""

from __future__ import annotations

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import WireStruct, f64, i8, i16, i32


class ComponentData(WireStruct):
    """One kind of entity, and which of them: 0 the one of that name, 1 the default, 2 any."""

    entity_type: str = ""
    match_type: i8 = 0
    match: str | None = ""


class DescribeClientQuotasRequest(Message):
    """Asks for the quotas that fit; strict: of entities that have these kinds and no others."""

    api = Api.DESCRIBE_CLIENT_QUOTAS
    versions = range(2)
    flexible = 1
    is_request = True

    components: list[ComponentData] = []
    strict: bool = False


class EntityData(WireStruct):
    """Part of who is meant: a kind and a name, null for the default of that kind."""

    entity_type: str = ""
    entity_name: str | None = ""


class ValueData(WireStruct):
    """A quota."""

    key: str = ""
    value: f64 = 0.0


class EntryData(WireStruct):
    """Who has which quotas."""

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
