"""XXH3 gives what the reference gives. The conformance cases compare longer inputs with Kafka's hashes of topics."""

from __future__ import annotations

import pytest

from fencepost.broker_stub.groups.consumer.xxh3 import xxh3_64


@pytest.mark.parametrize(("data", "expected"), [(b"", 0x2D06800538D394C2), (b"a", 0xE6C632B61E964E1F), (b"abc", 0x78AF5F94892F3950)])
def test_known_hashes(data: bytes, expected: int) -> None:
    """Of the shortest inputs."""
    assert xxh3_64(data) == expected


def test_every_length_has_its_own_hash() -> None:
    """Across the limits of all ways of hashing, and a changed byte changes the hash."""
    data = bytes(index % 251 for index in range(3_000))
    hashes = {xxh3_64(data[:size]) for size in range(1_200)} | {xxh3_64(data[:size]) for size in (2_047, 2_048, 2_049, 3_000)}
    assert len(hashes) == 1_204
    for size in (3, 8, 16, 128, 240, 1_500):
        for at in (0, size // 2, size - 1):
            changed = bytearray(data[:size])
            changed[at] ^= 1
            assert xxh3_64(bytes(changed)) != xxh3_64(data[:size])
