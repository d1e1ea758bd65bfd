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
"""Above every version: a message with `flexible = NEVER` has no flexible version, and a `nullable(NEVER)` field is never null."""

ZERO_UUID: Final = UUID(int=0)
"""Kafka's value for "no id". Decoders return this very object, so compare with `is` first."""


class Scalar(msgspec.Struct, frozen=True):
    """A wire type of fixed width: its format character as the `struct` module knows it, and its width."""

    code: str
    size_bytes: int


class RecordsType(msgspec.Struct, frozen=True):
    """Marks record batches: the encoder does not copy these bytes if a reference is cheaper."""


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
    """The field is in the tag buffer, under this number."""

    number: int


class Ignorable(msgspec.Struct, frozen=True):
    """The encoder drops the field's value silently if the version does not have the field."""


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
u16: TypeAlias = Annotated[int, Scalar("H", 2)]
i32: TypeAlias = Annotated[int, Scalar("i", 4)]
i64: TypeAlias = Annotated[int, Scalar("q", 8)]
f64: TypeAlias = Annotated[float, Scalar("d", 8)]

Buffer: TypeAlias = bytes | bytearray | memoryview

Records: TypeAlias = Annotated[Buffer, RecordsType()]
"""Record batches back to back. Any bytes-like object encodes; decoding gives a view into the frame, which keeps the frame alive."""


def gathered(pieces: tuple[Buffer, ...]) -> Buffer:
    """Record batches in several pieces, as the value of a field. The encoder writes the pieces in order. Decoders never return it."""
    return cast(Buffer, pieces)


# msgspec makes subclasses frozen and keyword-only, too. The decorator tells type checkers so.
@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class WireStruct(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Part of a message. Every field has a default. Decoders drop unknown tags."""
