"""What the generated encoders and decoders call: loops and exceptions.

Lengths and tags fit 31 bits here. A varint of more than five bytes or above 2^31 - 1 is refused, because nothing so long fits in a frame.
Varints that are longer than needed are accepted, as in Kafka. Record varints are wider and in zigzag form: see
`producer.wire.schema.varint`.
"""

from __future__ import annotations

from functools import lru_cache
from struct import error as StructError
from typing import Final
from uuid import UUID

from fencepost.producer.foundations.counted import counted
from fencepost.producer.wire.errors import Malformed, UnsupportedFieldValue
from fencepost.producer.wire.schema.fields import ZERO_UUID, Buffer

UVARINT_MAX: Final = (1 << 31) - 1

RECORDS_COPIED_BYTES_MAX: Final = 4096
"""Records of at most this many bytes are copied into the surrounding buffer, because one more piece in a gathering write costs more."""


def records_size(records: Buffer | tuple[Buffer, ...]) -> int:
    """How many bytes record batches take, in one piece or gathered."""
    return sum(memoryview(piece).nbytes for piece in records) if isinstance(records, tuple) else memoryview(records).nbytes


class LayoutBroken(Exception):
    """Generated code raises this if data break the layout. The decoder turns it into Malformed."""

    def __init__(self, reason: str, offset: int) -> None:
        super().__init__(reason)
        self.offset = offset


REFUSALS: Final = (StructError, IndexError, UnicodeDecodeError, LayoutBroken)
"""The exceptions that damaged data can raise inside a decoder."""


def malformed(error: Exception, offset: int, api: int | None, version: int | None) -> Malformed:
    """The error for damaged data; `offset` is where the item starts that the decoder was reading."""
    match error:
        case LayoutBroken():
            return Malformed(str(error), error.offset, api=api, version=version)
        case UnicodeDecodeError():
            return Malformed("text that is not UTF-8", offset, api=api, version=version)
        case _:
            return Malformed("ends too early", offset, api=api, version=version)


def absent(where: str, version: int) -> UnsupportedFieldValue:
    """The error for a value in a field that the version does not have."""
    return UnsupportedFieldValue(f"v{version} has no field {where}, so its value would be lost")


def not_null(where: str, version: int) -> UnsupportedFieldValue:
    """The error for a null that the version cannot express."""
    return UnsupportedFieldValue(f"{where} cannot be null in v{version}")


def too_long(where: str, size_bytes: int) -> UnsupportedFieldValue:
    """The error for text that is longer than either string encoding allows."""
    return UnsupportedFieldValue(f"{where} has {counted(size_bytes, 'byte')}, 32767 are the most that a string carries")


def uvarint(number: int) -> bytes:
    """The unsigned varint of a number that is not negative."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_uvarint(data: bytes | memoryview, pos: int) -> tuple[int, int]:
    """The unsigned varint at `pos`, and where it ends."""
    start = pos
    number = 0
    for shift in (0, 7, 14, 21, 28):
        byte = data[pos]
        pos += 1
        number |= (byte & 127) << shift
        if byte < 128:
            if number > UVARINT_MAX:
                raise LayoutBroken(f"varint {number} above 31 bits", start)
            return number, pos
    raise LayoutBroken("varint of more than five bytes", start)


def skip_tags(data: bytes | memoryview, pos: int, end: int) -> int:
    """Skip a whole tag buffer, from its count on, and return where it ends."""
    count, pos = read_uvarint(data, pos)
    if count * 2 > end - pos:
        raise LayoutBroken(f"{counted(count, 'tag')} in {counted(end - pos, 'byte')}", pos)
    for _ in range(count):
        _, pos = read_uvarint(data, pos)
        size, pos = read_uvarint(data, pos)
        if size > end - pos:
            raise LayoutBroken(f"a tag of {counted(size, 'byte')} where {end - pos} are left", pos)
        pos += size
    return pos


@lru_cache(maxsize=1024)
def uuid_of(raw: bytes) -> UUID:
    """The UUID of sixteen bytes, cached: the same ids come in message after message, and building one costs a microsecond."""
    return UUID(bytes=raw) if any(raw) else ZERO_UUID
