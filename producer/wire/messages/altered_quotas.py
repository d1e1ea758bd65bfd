"""The answer to AlterClientQuotas. Kafka calls what is in it by the name of what is in the request, hence a file of its own."""

from __future__ import annotations

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.messages.describe_quotas import EntityData
from fencepost.producer.wire.schema.fields import WireStruct, i16, i32


class EntryData(WireStruct):
    """What became of one entity's quotas."""

    error_code: i16 = 0
    error_message: str | None = ""
    entity: list[EntityData] = []


class AlterClientQuotasResponse(Message):
    """One answer per entity."""

    api = Api.ALTER_CLIENT_QUOTAS
    versions = range(2)
    flexible = 1
    is_request = False

    throttle_time_ms: i32 = 0
    entries: list[EntryData] = []
