"""The response of AlterClientQuotas. It has its own file, because Kafka uses the name EntryData in the request and the response."""

from __future__ import annotations

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.messages.describe_quotas import EntityData
from fencepost.producer.wire.schema.fields import WireStruct, i16, i32


class EntryData(WireStruct):
    """Whether the broker changed the quotas of one entity; if not, the error."""

    error_code: i16 = 0
    error_message: str | None = ""
    entity: list[EntityData] = []


class AlterClientQuotasResponse(Message):
    """The broker answers with one result per entity."""

    api = Api.ALTER_CLIENT_QUOTAS
    versions = range(2)
    flexible = 1
    is_request = False

    throttle_time_ms: i32 = 0
    entries: list[EntryData] = []
