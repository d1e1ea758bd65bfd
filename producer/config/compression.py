"""Reading and checking the settings of compression: which codec, and how thoroughly it packs.

A level is given for whatever codec is chosen (`compression_level`) or for one by its name, as Kafka has it (KIP-390). It refuses levels
that a codec does not have, and levels that would be ignored, because the chosen codec is another one.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from fencepost.producer.config.settings import Settings
from fencepost.producer.errors import ConfigError
from fencepost.producer.wire.records.compression import LEVELS, Codec

NAMES: Final[dict[str, str]] = {
    "compression.type": "compression_type",
    "compression.codec": "compression_type",
    "compression.level": "compression_level",
    "compression.gzip.level": "compression_gzip_level",
    "compression.lz4.level": "compression_lz4_level",
    "compression.zstd.level": "compression_zstd_level",
}
"""Java's names and librdkafka's."""

LEVEL_OF: Final[dict[str, Codec]] = {f"compression_{codec.name.lower()}_level": codec for codec in LEVELS}
"""The settings that are about one codec."""

NO_LEVELS: Final = ("compression.snappy.level", "compression_snappy_level", "compression.none.level", "compression_none_level")


ASIDE_BYTES: Final[dict[Codec, int]] = {
    Codec.GZIP: 32 * 1024,
    Codec.SNAPPY: 512 * 1024,
    Codec.LZ4: 512 * 1024,
    Codec.ZSTD: 256 * 1024,
}
"""From how many bytes on packing a batch takes about a millisecond or more, which is too long for somebody else's event loop."""

ASIDE_BYTES_THOROUGH: Final = 8 * 1024
"""The same where a level above the codec's default was chosen: ten times as long, or a hundred times."""

GZIP_USUAL: Final = 6
"""What gzip's -1 stands for."""


def aside_bytes(s: Settings) -> int | None:
    """From which size on batches are packed beside the event loop; None for never."""
    codec, level = s.compression_type, s.compression_level
    if codec not in ASIDE_BYTES:
        return None
    usual = GZIP_USUAL if codec is Codec.GZIP else LEVELS[codec].default if codec in LEVELS else 0
    return ASIDE_BYTES_THOROUGH if level is not None and level > usual else ASIDE_BYTES[codec]


def read_codec(key: str, value: object) -> Codec:
    """The codec of that name. Raises ConfigError."""
    if isinstance(value, Codec):
        return value
    name = str(value).upper()
    if name not in Codec.__members__:
        raise ConfigError(f"{key}={value!r}: the codecs are {', '.join(codec.name.lower() for codec in Codec)}")
    return Codec[name]


def check_key(key: str, value: object) -> None:
    """Refuse the level of a codec that has none, which somebody may look for under its name."""
    if key in NO_LEVELS:
        raise ConfigError(f"{key}={value!r}: {key.replace('.', '_').split('_')[1]} has no levels")


def settle_level(s: Settings) -> Settings:
    """The settings with `compression_level` for the codec that they choose, wherever it was said. Raises ConfigError."""
    chosen = s.compression_type
    said: dict[str, Any] = {name: getattr(s, name) for name in ("compression_level", *LEVEL_OF) if getattr(s, name) is not None}
    for name, level in said.items():
        codec = LEVEL_OF.get(name, chosen)
        if codec is not chosen:
            raise ConfigError(f"{name}={level} would be ignored: compression_type is {chosen.name.lower()}")
        levels = LEVELS.get(codec)
        if levels is None:
            raise ConfigError(f"{name}={level}: compression_type is {chosen.name.lower()}, which has no levels")
        if level not in levels:
            raise ConfigError(f"{name}={level} is out of range: {codec.name.lower()} has the levels {levels}")
    if len(said) > 1:
        raise ConfigError(f"{' and '.join(f'{name}={level}' for name, level in said.items())}: one level is enough")
    return msgspec.structs.replace(s, compression_level=next(iter(said.values()), None))
