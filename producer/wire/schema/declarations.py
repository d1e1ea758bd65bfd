"""Reads the declarations of `producer.wire.schema.fields` into plain descriptions. The code writers and the tests use these.

It refuses, with TypeError at first use, a declaration that has no form on the wire. It knows nothing about any single message.
"""

from __future__ import annotations

import types
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin
from uuid import UUID

import msgspec

from fencepost.producer.wire.schema.fields import NEVER, Ignorable, Nullable, RecordsType, Scalar, Since, Tag, Until, WireStruct


class Text(msgspec.Struct, frozen=True):
    """A UTF-8 string."""


class Blob(msgspec.Struct, frozen=True):
    """Bytes, copied when read."""


class Uuid(msgspec.Struct, frozen=True):
    """Sixteen bytes."""


class Nested(msgspec.Struct, frozen=True):
    """A struct inside another one."""

    struct: type[WireStruct]


class Array(msgspec.Struct, frozen=True):
    """A counted sequence. Its elements are never null."""

    element: Scalar | Text | Blob | Uuid | Nested


Element = Scalar | Text | Blob | Uuid | Nested
Kind = Element | RecordsType | Array


class FieldSpec(msgspec.Struct, frozen=True):
    """One field of a struct: its type and its versions."""

    name: str
    kind: Kind
    default: Any
    since: int = 0
    until: int = NEVER
    nullable: int = NEVER
    tag: int | None = None
    ignorable: bool = False

    def present(self, version: int) -> bool:
        """Whether this version has the field."""
        return self.since <= version <= self.until

    def nullable_in(self, version: int) -> bool:
        """Whether the field may be null in this version."""
        return version >= self.nullable


@cache
def describe(struct: type[WireStruct]) -> tuple[FieldSpec, ...]:
    """The fields of a struct in wire order. Tagged fields stand where they are declared."""
    return tuple(_describe_field(f"{struct.__name__}.{field.name}", field) for field in msgspec.structs.fields(struct))


def _describe_field(where: str, field: msgspec.structs.FieldInfo) -> FieldSpec:
    """Describe one field from its annotation and default. `where` names the field in the error."""
    default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
    if default is msgspec.NODEFAULT:
        raise TypeError(f"{where} has no default")
    hint, marks = _unwrap(field.type)
    optional = get_origin(hint) in (Union, types.UnionType) and type(None) in get_args(hint)
    if optional:
        rest = tuple(argument for argument in get_args(hint) if argument is not type(None))
        hint, inner = _unwrap(Union[rest])  # noqa: UP007 - built at run time from a tuple
        marks += inner
    found: dict[type, Any] = {type(mark): mark for mark in marks}
    first = found[Since].version if Since in found else 0
    if Nullable in found and not optional:
        raise TypeError(f"{where} is marked nullable but not typed `| None`")
    return FieldSpec(
        name=field.name,
        kind=_kind(where, hint, marks),
        default=default,
        since=first,
        until=found[Until].version if Until in found else NEVER,
        nullable=NEVER if not optional else found[Nullable].version if Nullable in found else first,
        tag=found[Tag].number if Tag in found else None,
        ignorable=Ignorable in found,
    )


def _unwrap(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """A type hint without Annotated, and the marks that Annotated held."""
    if get_origin(hint) is Annotated:
        return hint.__origin__, hint.__metadata__
    return hint, ()


def _kind(where: str, hint: Any, marks: tuple[Any, ...]) -> Kind:
    """The wire type of a hint without `| None`."""
    for mark in marks:
        if isinstance(mark, Scalar | RecordsType):
            return mark
    if get_origin(hint) is list:
        inner = _kind(where, *_unwrap(get_args(hint)[0]))
        if isinstance(inner, Array | RecordsType):
            raise TypeError(f"{where}: an array of {type(inner).__name__} has no form on the wire")
        return Array(inner)
    if hint is bool:
        return Scalar("?", 1)
    if hint is str:
        return Text()
    if hint is bytes:
        return Blob()
    if hint is UUID:
        return Uuid()
    if isinstance(hint, type) and issubclass(hint, WireStruct):
        return Nested(hint)
    raise TypeError(f"{where}: {hint!r} has no form on the wire")


def smallest_size(kind: Kind, version: int, *, flexible: bool) -> int:
    """The fewest bytes that a value can take. A decoder refuses a count whose elements cannot fit, before it allocates anything."""
    match kind:
        case Scalar():
            return kind.size_bytes
        case Uuid():
            return 16
        case Text():
            return 1 if flexible else 2
        case Blob() | RecordsType() | Array():
            return 1 if flexible else 4
        case Nested():
            fields = (field for field in describe(kind.struct) if field.present(version) and field.tag is None)
            sizes = (1 if _has_marker(field, version) else smallest_size(field.kind, version, flexible=flexible) for field in fields)
            return sum(sizes) + (1 if flexible else 0)


def _has_marker(field: FieldSpec, version: int) -> bool:
    """Whether a byte in front of the struct says if the struct is there."""
    return isinstance(field.kind, Nested) and field.nullable_in(version)
