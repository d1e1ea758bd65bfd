"""Compresses and decompresses the records of a batch with each of Kafka's codecs, in the framing of Kafka's Java clients.

The modules beside it define each codec's framing, and what that codec refuses as damaged. Every call releases the GIL while it works.
Decompression has a limit, and never allocates more than that; Kafka has no such limit. It refuses levels that a codec does not have.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Final

from msgspec import Struct

from fencepost.producer.wire.codecs import gzip, lz4, snappy, zstd
from fencepost.producer.wire.codecs.damage import CorruptBatch, TooMuch, too_much

__all__ = ["DECOMPRESSED_BYTES_MAX", "LEVELS", "Codec", "CorruptBatch", "Levels", "TooMuch", "compress", "decompress"]

DECOMPRESSED_BYTES_MAX: Final = 128 << 20
"""The default limit of `decompress`. A compressed batch of 1 MiB can hold a multiple of this."""


class Codec(IntEnum):
    """How the records of a batch are compressed: bits 0 to 2 of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class Levels(Struct, frozen=True):
    """The levels of a codec in Kafka (KIP-390): the lowest, the highest, and the default."""

    low: int
    high: int
    default: int

    def __contains__(self, level: int) -> bool:
        return self.low <= level <= self.high or level == self.default

    def __str__(self) -> str:
        lone = "" if self.low <= self.default <= self.high else f", or {self.default} for its own choice"
        return f"{self.low} to {self.high}{lone}"


LEVELS: Final = {Codec.GZIP: Levels(1, 9, -1), Codec.LZ4: Levels(1, 17, 9), Codec.ZSTD: Levels(-131_072, 22, 3)}
"""The codecs that have levels."""

_WRITERS: Final[dict[Codec, Callable[[bytes, int], bytes]]] = {
    Codec.GZIP: gzip.compress,
    Codec.LZ4: lz4.compress,
    Codec.ZSTD: zstd.compress,
}
_READERS: Final[dict[Codec, Callable[[bytes, int], bytes]]] = {
    Codec.GZIP: gzip.decompress,
    Codec.SNAPPY: snappy.decompress,
    Codec.LZ4: lz4.decompress,
    Codec.ZSTD: zstd.decompress,
}


def compress(codec: Codec, data: bytes, *, level: int | None = None) -> bytes:
    """The compressed records, at a level from `LEVELS` or its default. Raises ValueError for a level that the codec does not have."""
    levels = LEVELS.get(codec)
    if levels is None:
        if level is not None:
            raise ValueError(f"{codec.name.lower()} has no levels")
        return data if codec == Codec.NONE else snappy.compress(data)
    if level is not None and level not in levels:
        raise ValueError(f"level {level} of {codec.name.lower()}: its levels are {levels}")
    return _WRITERS[codec](data, levels.default if level is None else level)


def decompress(codec: Codec, data: bytes | bytearray | memoryview, *, limit: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """The uncompressed records. Raises `CorruptBatch` if the data are damaged, or if they hold more than `limit` bytes."""
    if codec != Codec.NONE:
        return _READERS[codec](bytes(data), limit)
    if len(data) > limit:
        raise too_much("uncompressed", limit)
    return bytes(data)
