"""Java's orders of strings and of hash tables."""

from __future__ import annotations

import pytest

from fencepost.broker_stub.cluster.coordinator_partition import string_hash
from fencepost.broker_stub.groups.assignors.java_order import HashOrder, string_order


@pytest.mark.parametrize(
    ("text", "value"),
    [("", 0), ("a", 97), ("my-group", -1906497762), ("polygenelubricants", -(1 << 31)), ("\U0001f600", 1772899), ("ключ", 33309882)],
)
def test_hash_codes(text: str, value: int) -> None:
    """`String.hashCode` counts UTF-16 units, in 32 bits with a sign."""
    assert string_hash(text) == value


def test_strings_by_utf_16() -> None:
    """A character beyond the first 65,536 sorts by its surrogates, before U+FF5E."""
    assert sorted(["～", "\U0001f600", "b", "a", "ab"], key=string_order) == ["a", "ab", "b", "\U0001f600", "～"]


def test_buckets() -> None:
    """Keys come by their bucket, equal buckets by insertion. The thirteenth key doubles a table of sixteen buckets."""
    assert list(HashOrder(int, [17, 16, 3, 1, 16])) == [16, 17, 1, 3]
    assert list(HashOrder(int, [*range(11), 16])) == [0, 16, *range(1, 11)]
    assert list(HashOrder(int, [*range(12), 16])) == [*range(12), 16]


def test_a_full_bucket_doubles_a_small_table() -> None:
    """The ninth key of one bucket does so below 64 buckets."""
    eight = [each * 16 for each in range(8)]
    assert list(HashOrder(int, [*eight, 1])) == [*eight, 1]
    assert list(HashOrder(int, [*eight, 8 * 16, 1])) == [0, 32, 64, 96, 128, 1, 16, 48, 80, 112]


def test_a_table_never_shrinks() -> None:
    """Keys that are removed leave the table as large as it was, and come last in their bucket when they return."""
    table = HashOrder(int, range(13))
    for key in (0, *range(2, 13)):
        table.discard(key)
    table.add(16)
    assert (list(table), len(table)) == ([1, 16], 2)
    assert list(HashOrder(int, [1, 16])) == [16, 1]
    again = HashOrder(int, [0, 16])
    again.discard(0)
    again.add(0)
    assert list(again) == [16, 0]


def test_high_bits_count() -> None:
    """Java folds the upper half of a hash code into the lower one."""
    assert list(HashOrder(int, [1 << 16, 0])) == [0, 1 << 16]
    assert list(HashOrder(int, [-1, 1])) == [-1, 1]
