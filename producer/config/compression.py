"""Reading and checking the settings of compression: the codec and its level.

`compression_level` applies to the chosen codec; `compression_gzip_level` and the like apply to one codec, as in Kafka (KIP-390). It
refuses a level that the codec does not have, and a level of a codec that is not chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fencepost.producer.config.settings import Settings
from fencepost.producer.errors import ConfigError
from fencepost.producer.wire.codecs.codec import LEVELS, Codec

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
"""The settings that apply to one codec."""

NO_LEVELS: Final = ("compression.snappy.level", "compression_snappy_level", "compression.none.level", "compression_none_level")


ASIDE_BYTES: Final[dict[Codec, int]] = {
    Codec.GZIP: 32 * 1024,
    Codec.SNAPPY: 512 * 1024,
    Codec.LZ4: 512 * 1024,
    Codec.ZSTD: 256 * 1024,
}
"""From this size on, compressing a batch takes about a millisecond or more, which is too long on the caller's event loop."""

ASIDE_BYTES_THOROUGH: Final = 8 * 1024
"""The same for a level above the codec's default, which takes ten or a hundred times as long."""

GZIP_USUAL: Final = 6
"""The level that gzip's -1 means."""


def aside_bytes(s: Settings) -> int | None:
    """From this size on, batches are compressed in a thread beside the event loop; None for never."""
    codec, level = s.compression_type, s.compression_level
    if codec not in ASIDE_BYTES:
        return None
    usual = GZIP_USUAL if codec is Codec.GZIP else LEVELS[codec].default if codec in LEVELS else 0
    return ASIDE_BYTES_THOROUGH if level is not None and level > usual else ASIDE_BYTES[codec]


def read_codec(key: str, value: object) -> Codec:
    """The codec of that name. Raises ConfigError."""
    if isinstance(value, Codec):
        return value
    name = "NONE" if value is None else value.upper() if isinstance(value, str) else ""
    if name not in Codec.__members__:
        raise ConfigError(f"{key}={value!r}: the codecs are {', '.join(codec.name.lower() for codec in Codec)}")
    return Codec[name]


def check_key(key: str, value: object) -> None:
    """Refuse a level for a codec that has none. Raises ConfigError."""
    if key in NO_LEVELS:
        raise ConfigError(f"{key}={value!r}: {key.replace('.', '_').split('_')[1]} has no levels: leave the setting out")


def settle_level(s: Settings, written: Mapping[str, str]) -> Settings:
    """The settings with the level of the chosen codec in `compression_level`. `written`: the names that the caller used. Raises
    ConfigError."""
    chosen, kind = s.compression_type, written["compression_type"]
    said: dict[str, Any] = {name: getattr(s, name) for name in ("compression_level", *LEVEL_OF) if getattr(s, name) is not None}
    for setting, level in said.items():
        codec, name = LEVEL_OF.get(setting, chosen), written[setting]
        if codec is not chosen:
            raise ConfigError(f"{name}={level} would be ignored, because {kind} is {chosen.name.lower()}: leave it out")
        levels = LEVELS.get(codec)
        if levels is None:
            raise ConfigError(f"{name}={level}: {kind} is {chosen.name.lower()}, which has no levels: leave {name} out")
        if level not in levels:
            raise ConfigError(f"{name}={level} is out of range: the levels of {codec.name.lower()} are {levels}")
    if len(said) > 1:
        raise ConfigError(f"{' and '.join(f'{written[name]}={level}' for name, level in said.items())}: give only one of them")
    return msgspec.structs.replace(s, compression_level=next(iter(said.values()), None))
