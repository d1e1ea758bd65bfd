"""The newest offset of each key in the dirty part of a log (Kafka's `SkimpyOffsetMap`). Kafka keeps a hash of each key, this the key."""

from __future__ import annotations


class OffsetMap:
    """See the module. `keys_max`: it takes no more keys. `latest_offset`: what lies beyond it was not looked at."""

    __slots__ = ("_offsets", "keys_max", "latest_offset")

    def __init__(self, keys_max: int) -> None:
        self.keys_max = keys_max
        self.latest_offset = -1
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        return len(self._offsets) >= self.keys_max

    def put(self, key: bytes, offset: int) -> None:
        """Notes a record. Offsets come in order."""
        self._offsets[key] = self.latest_offset = offset

    def is_newest(self, key: bytes, offset: int) -> bool:
        """Whether the map knows no later record with the key."""
        return offset >= self._offsets.get(key, -1)
