"""The partition of a group or a transactional id in the coordinators' topics."""

from __future__ import annotations

import pytest

from fencepost.broker_stub.cluster.coordinator_partition import partition_for


@pytest.mark.parametrize(
    ("key", "partition"),
    [
        ("", 0),  # hash 0
        ("a", 47),  # 97
        ("hello", 22),  # 99162322
        ("polygenelubricants", 0),  # -2147483648, whose absolute value Java makes 0
        ("\U0001f600", 49),  # two UTF-16 code units, d83d de00: 31 * 55357 + 56832 = 1772899
    ],
)
def test_coordinators_are_found_by_javas_hash(key: str, partition: int) -> None:
    """String.hashCode over UTF-16, its absolute value with -2^31 as 0, modulo the partitions."""
    assert partition_for(key, 50) == partition
