"""One request of each API with a value in every field, for tests that go through all APIs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from fencepost.producer.wire import REQUESTS, Api, Message, WireStruct
from fencepost.producer.wire.schema.declarations import Array, Blob, FieldSpec, Kind, Nested, Text, Uuid, describe
from fencepost.producer.wire.schema.fields import RecordsType, Scalar

APIS = sorted(map(Api, REQUESTS))


def request_of(api: int, version: int | None = None) -> Any:
    """The request in that version, by default the newest. Each text field has its own name as its value."""
    cls = REQUESTS[api]
    return filled(cls, cls.versions.stop - 1 if version is None else version)


def filled(struct: type[WireStruct], version: int) -> Any:
    """An instance with one element in every list."""
    return struct(**{field.name: _value(field.kind, field.name, version) for field in describe(struct) if field.present(version)})


def fields_of(struct: type[WireStruct]) -> Iterator[FieldSpec]:
    """Every field, also of the structs in it."""
    for field in describe(struct):
        yield field
        element = field.kind.element if isinstance(field.kind, Array) else field.kind
        if isinstance(element, Nested):
            yield from fields_of(element.struct)


def newest(message: type[Message]) -> int:
    return message.versions.stop - 1


def _value(kind: Kind, name: str, version: int) -> Any:
    match kind:
        case Scalar(code="?"):
            return True
        case Scalar():
            return 0
        case Text():
            return name
        case Blob() | RecordsType():
            return b"records"
        case Uuid():
            return UUID(int=7)
        case Nested():
            return filled(kind.struct, version)
        case Array():
            return [_value(kind.element, name, version)]
