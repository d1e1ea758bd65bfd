"""The form of a coordinator's keys and values: a version or type in two bytes, then a struct of the wire protocol."""

from __future__ import annotations

from struct import Struct as Layout
from typing import Final, TypeVar

from fencepost.producer.wire.schema.compiler import decoder_of, encoder_of
from fencepost.producer.wire.schema.fields import WireStruct

_PREFIX: Final = Layout(">h")

S = TypeVar("S", bound=WireStruct)


def prefix_of(data: bytes) -> int:
    """The type of a key, or the version of a value."""
    (prefix,) = _PREFIX.unpack_from(data)
    return int(prefix)


def written(struct: WireStruct, prefix: int, *, version: int, flexible: bool = False) -> bytes:
    parts: list[bytes | bytearray | memoryview] = []
    encode = encoder_of(type(struct), version, flexible=flexible)
    last = encode(struct, bytearray(_PREFIX.pack(prefix)), parts)
    return b"".join((*parts, last)) if parts else bytes(last)


def read(struct: type[S], data: bytes, *, version: int, flexible: bool = False) -> S:
    decode = decoder_of(struct, version, flexible=flexible, api=None)
    found: S = decode(data, _PREFIX.size, len(data))
    return found
