"""The response of AlterClientQuotas. It has a file of its own, because Kafka calls its entries EntryData, as those of the request."""

from __future__ import annotations

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.messages.describe_quotas import EntityData
from fencepost.producer.wire.schema.fields import WireStruct, i16, i32


class EntryData(WireStruct):
    """The result for one entity."""

    error_code: i16 = 0
    error_message: str | None = ""
    entity: list[EntityData] = []


class AlterClientQuotasResponse(Message):
    """One result per entity."""

    api = Api.ALTER_CLIENT_QUOTAS
    versions = range(2)
    flexible = 1
    is_request = False

    throttle_time_ms: i32 = 0
    entries: list[EntryData] = []
