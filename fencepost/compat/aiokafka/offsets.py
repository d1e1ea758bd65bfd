"""The offsets that `send_offsets_to_transaction` takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fencepost.txn.offsets import OffsetAndMetadata, Offsets


def read_offsets(given: Mapping[Any, Any]) -> Offsets:
    """Offsets by partition. Raises ValueError for none, and for an offset that is neither a number nor (offset, metadata); TypeError for a
    key that is no TopicPartition, and for metadata that is no str."""
    if not given or not isinstance(given, Mapping):
        raise ValueError(f"offsets={given!r}: it must be a dict with an offset for at least one TopicPartition")
    return {_partition(key): _offset(key, value) for key, value in given.items()}


def _partition(key: Any) -> tuple[str, int]:
    if not isinstance(key, tuple) or len(key) != 2:
        raise TypeError(f"offsets names {key!r}: each key must be a TopicPartition")
    topic, partition = key
    return topic, partition


def _offset(key: Any, value: Any) -> OffsetAndMetadata:
    if isinstance(value, int):
        return OffsetAndMetadata(value)
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise ValueError(f"offsets: {key!r} has {value!r}: it must be an offset, or (offset, metadata)")
    offset, metadata = value
    if not isinstance(metadata, str):
        raise TypeError(f"offsets: {key!r} has the metadata {metadata!r}: it must be a str")
    return OffsetAndMetadata(offset, metadata=metadata)
