"""The files of a log, as Kafka writes them: values to bytes and back, and the error for damaged ones."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from fencepost.broker_stub.log.checkpoint_text import (
    read_leader_epochs,
    read_offsets,
    read_partition_metadata,
    write_leader_epochs,
    write_offsets,
    write_partition_metadata,
)
from fencepost.broker_stub.log.errors import CorruptFile, CorruptSnapshot
from fencepost.broker_stub.log.index_entries import (
    read_offset_index,
    read_time_index,
    read_txn_index,
    write_offset_index,
    write_time_index,
    write_txn_index,
)
from fencepost.broker_stub.log.producer_snapshot import read_snapshot
from fencepost.broker_stub.log.txn_index import AbortedTxn

OFFSETS = bytes.fromhex("00000003 00001770 00000006 00002ee0")
TIMES = bytes.fromhex("00000000000003ed 00000003 00000000000003ee 00000005")
ABORTED = bytes.fromhex("0000 0000000000000fa0 0000000000000007 0000000000000009 000000000000000a")
TOPIC_ID = uuid.UUID(bytes=bytes(range(16)))

READERS: dict[str, Callable[[bytes], Any]] = {
    "offset index": lambda data: read_offset_index(100, data),
    "time index": lambda data: read_time_index(100, data),
    "transaction index": read_txn_index,
    "leader-epoch-checkpoint": read_leader_epochs,
    "replication-offset-checkpoint": lambda data: read_offsets("replication-offset-checkpoint", data),
    "partition.metadata": read_partition_metadata,
}

WHOLE = [
    ("offset index", write_offset_index(100, [(103, 6000), (106, 12000)]), OFFSETS, [(103, 6000), (106, 12000)]),
    ("time index", write_time_index(100, [(1005, 103), (1006, 105)]), TIMES, [(1005, 103), (1006, 105)]),
    ("time index", write_time_index(100, [(0, 100)]), bytes(12), [(0, 100)]),
    ("transaction index", write_txn_index([AbortedTxn(4000, 7, 9, 10)]), ABORTED, [AbortedTxn(4000, 7, 9, 10)]),
    ("leader-epoch-checkpoint", write_leader_epochs([(0, 0), (3, 127)]).encode(), b"0\n2\n0 0\n3 127\n", [(0, 0), (3, 127)]),
    ("replication-offset-checkpoint", write_offsets({("t", 1): 5}).encode(), b"0\n1\nt 1 5\n", {("t", 1): 5}),
    (
        "partition.metadata",
        write_partition_metadata(TOPIC_ID).encode(),
        b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw",
        TOPIC_ID,
    ),
]


@pytest.mark.parametrize(("kind", "written", "data", "values"), WHOLE)
def test_values_and_bytes(kind: str, written: bytes, data: bytes, values: object) -> None:
    """Values become Kafka's bytes, and these become the values."""
    assert written == data
    assert READERS[kind](data) == values


@pytest.mark.parametrize("kind", ["offset index", "time index"])
def test_a_preallocated_index(kind: str) -> None:
    """The zeros after the last entry of an open index are no entries."""
    data = {"offset index": OFFSETS, "time index": TIMES}[kind]
    assert READERS[kind](data + bytes(len(data) * 50)) == READERS[kind](data)
    assert READERS[kind](bytes(len(data) * 50)) == []


DAMAGED = [
    ("offset index", OFFSETS[:-1], 8, "7 bytes where an entry has 8"),
    ("offset index", OFFSETS + OFFSETS[:8], 16, "offset 103 at 6000 does not follow offset 106 at 12000"),
    ("time index", TIMES[12:] + TIMES[:12], 12, "timestamp 1005 at offset 103 does not follow timestamp 1006 at offset 105"),
    ("transaction index", ABORTED + b"\0\1" + ABORTED[2:], 34, "version 1, only 0 is known"),
    ("transaction index", ABORTED + ABORTED, 34, "the marker at 9 does not follow the one at 9"),
    ("leader-epoch-checkpoint", b"0\n2\n0 0\n", 2, "2 entries are announced, 1 are there"),
    ("leader-epoch-checkpoint", b"0\n2\n3 0\n1 7\n", 4, "epoch 1 at offset 7 does not follow epoch 3"),
    ("leader-epoch-checkpoint", b"0\n1\n2147483648 0\n", 3, "'2147483648' is not a leader epoch from 0 to 2^31 - 1"),
    ("leader-epoch-checkpoint", b"0\n1\n1 9223372036854775808\n", 3, "'9223372036854775808' is not a number from 0 to 2^63 - 1"),
    ("replication-offset-checkpoint", b"1\n0\n", 1, "version '1', only 0 is known"),
    ("replication-offset-checkpoint", b"0\n1\nt 1\n", 3, "2 words where an entry has 3"),
    ("replication-offset-checkpoint", b"0\n1\nt 1 -5\n", 3, "'-5' is not a number from 0 to 2^63 - 1"),
    ("partition.metadata", b"version: 0\ntopic_id: AAEC", 2, "'AAEC' is no topic id"),
    ("partition.metadata", b"version: 0\n\xff", 2, "not UTF-8"),
]


@pytest.mark.parametrize(("kind", "data", "position", "reason"), DAMAGED)
def test_damaged_bytes(kind: str, data: bytes, position: int, reason: str) -> None:
    """The error names the kind of the file, the place and what is wrong."""
    with pytest.raises(CorruptFile) as raised:
        READERS[kind](data)
    assert (raised.value.kind, raised.value.position, raised.value.reason) == (kind, position, reason)


def test_random_bytes() -> None:
    """Random bytes, and damaged real ones, give values or the clear error, never another exception."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    readers = [*READERS.values(), read_snapshot]
    for _ in range(2000):
        data = bytearray(dice.choice([data for _, _, data, _ in WHOLE]) if dice.random() < 0.7 else dice.randbytes(dice.randrange(80)))
        for _ in range(dice.randrange(4)):
            if data:
                data[dice.randrange(len(data))] = dice.randrange(256)
        for read in readers:
            with suppress(CorruptFile, CorruptSnapshot):
                read(bytes(data[: dice.randrange(len(data) + 1)]))
