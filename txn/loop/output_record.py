"""A record that a transform returns, if a value or a pair does not say enough."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import force_setattr


class OutputRecord(Struct, frozen=True, kw_only=True):
    """A record to write. `topic`: None for the pipeline's sink. `key`: None for a record without a key. `partition`: None to let the
    producer choose. `headers`: (name, bytes or None) pairs, or a mapping. `timestamp`: milliseconds since 1970; None for now."""

    value: bytes | None
    key: bytes | None = None
    topic: str | None = None
    partition: int | None = None
    headers: Iterable[tuple[str, bytes | None]] | Mapping[str, bytes | None] | None = None
    timestamp: int | None = None

    def __post_init__(self) -> None:
        """An iterator of headers is read here, because it can be read only once."""
        if isinstance(self.headers, Iterator):
            force_setattr(self, "headers", list(self.headers))
