"""The vocabulary in which messages are declared: wire types and version marks, both for use inside annotations.

    class PartitionAck(WireStruct):
        index: i32 = 0
        log_append_time_ms: Annotated[i64, since(2), ignorable] = -1
        error_message: Annotated[str | None, since(8), ignorable] = None
        current_leader: Annotated[LeaderIdAndEpoch, since(10), tag(0)] = LeaderIdAndEpoch()

The order of the fields is their order on the wire. This module only declares: `producer.wire.schema.declarations` reads the
annotations.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias, cast, dataclass_transform
from uuid import UUID

import msgspec

NEVER: Final = 1 << 15
"""Above every version: a message that is `flexible = NEVER` has no flexible version, a field `nullable(NEVER)` is never null."""

ZERO_UUID: Final = UUID(int=0)
"""Kafka's "no id"; compare with `is` first, decoding returns this very object."""


class Scalar(msgspec.Struct, frozen=True):
    """A wire type of fixed width: its format character as the `struct` module knows it, and its width."""

    code: str
    size_bytes: int


class RecordsType(msgspec.Struct, frozen=True):
    """Marks record batches: bytes that are referenced rather than copied where that pays."""


class Since(msgspec.Struct, frozen=True):
    """The first version that has the field."""

    version: int


class Until(msgspec.Struct, frozen=True):
    """The last version that has the field."""

    version: int


class Nullable(msgspec.Struct, frozen=True):
    """The first version in which the field may be null."""

    version: int


class Tag(msgspec.Struct, frozen=True):
    """The number under which the field travels in the tag buffer instead of in its place."""

    number: int


class Ignorable(msgspec.Struct, frozen=True):
    """Marks a field whose value may be dropped silently where the version does not have it."""


def since(version: int) -> Since:
    """The field exists from this version on."""
    return Since(version)


def until(version: int) -> Until:
    """The field exists up to and including this version."""
    return Until(version)


def nullable(version: int) -> Nullable:
    """A field typed `| None` may be null only from this version on; without this mark it may be null in every version that has it."""
    return Nullable(version)


def tag(number: int) -> Tag:
    """The field is a tagged one."""
    return Tag(number)


ignorable: Final = Ignorable()

i8: TypeAlias = Annotated[int, Scalar("b", 1)]
i16: TypeAlias = Annotated[int, Scalar("h", 2)]
i32: TypeAlias = Annotated[int, Scalar("i", 4)]
i64: TypeAlias = Annotated[int, Scalar("q", 8)]
f64: TypeAlias = Annotated[float, Scalar("d", 8)]

Buffer: TypeAlias = bytes | bytearray | memoryview

Records: TypeAlias = Annotated[Buffer, RecordsType()]
"""Record batches back to back. Any bytes-like object encodes; decoding gives a view into the frame, which keeps the frame alive."""


def gathered(pieces: tuple[Buffer, ...]) -> Buffer:
    """Record batches that lie in pieces, as the value of a field to be encoded and for nothing else: they are written one after the
    other."""
    return cast(Buffer, pieces)


# The decorator tells type checkers what msgspec does anyway: subclasses are frozen and keyword-only, too.
@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class WireStruct(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Part of a message. Every field has a default; unknown tags are dropped when it is read."""
