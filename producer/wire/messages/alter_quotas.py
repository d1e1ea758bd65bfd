"""The request of AlterClientQuotas, which sets and removes quotas of clients (KIP-546)."""

from __future__ import annotations

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.messages.alter_quotas_response import AlterClientQuotasResponse
from fencepost.producer.wire.messages.describe_quotas import EntityData
from fencepost.producer.wire.schema.fields import WireStruct, f64

__all__ = ["AlterClientQuotasRequest", "AlterClientQuotasResponse", "EntityData", "EntryData", "OpData"]


class OpData(WireStruct):
    """A quota by its name, with its new value, or `remove`."""

    key: str = ""
    value: f64 = 0.0
    remove: bool = False


class EntryData(WireStruct):
    """An entity, and the changes to its quotas."""

    entity: list[EntityData] = []
    ops: list[OpData] = []


class AlterClientQuotasRequest(Message):
    """A client tells a broker to change quotas."""

    api = Api.ALTER_CLIENT_QUOTAS
    versions = range(2)
    flexible = 1
    is_request = True

    entries: list[EntryData] = []
    validate_only: bool = False
