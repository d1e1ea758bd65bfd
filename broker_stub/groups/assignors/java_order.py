"""Java's orders: of strings, and of the keys of a HashMap or HashSet.

The order of a bucket with more than eight keys is that of their insertion here. Java turns such a bucket into a tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Generic, TypeVar

K = TypeVar("K")

FIRST_SIZE: Final = 16
BUCKET_MAX: Final = 8
TREES_FROM: Final = 64


def string_order(text: str) -> bytes:
    """The key for sorting as `String.compareTo` does, by UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


class HashOrder(Generic[K]):
    """A set of keys that iterates like Java's: by bucket, and within a bucket by insertion. Like Java's, the table never shrinks."""

    def __init__(self, hash_of: Callable[[K], int], keys: Iterable[K] = ()) -> None:
        self._hash_of = hash_of
        self._spread: dict[K, int] = {}
        self._size = FIRST_SIZE
        for key in keys:
            self.add(key)

    def add(self, key: K) -> None:
        if key in self._spread:
            return
        value = self._hash_of(key) & 0xFFFFFFFF
        spread = value ^ value >> 16
        # A full bucket doubles a small table.
        if self._size < TREES_FROM and sum(each % self._size == spread % self._size for each in self._spread.values()) >= BUCKET_MAX:
            self._size *= 2
        self._spread[key] = spread
        if len(self._spread) > self._size * 3 // 4:
            self._size *= 2

    def discard(self, key: K) -> None:
        self._spread.pop(key, None)

    def __len__(self) -> int:
        return len(self._spread)

    def __iter__(self) -> Iterator[K]:
        return iter(sorted(self._spread, key=lambda key: self._spread[key] % self._size))
