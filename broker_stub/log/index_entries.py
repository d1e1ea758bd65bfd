"""The bytes of Kafka's index files: entries of one size, back to back, without a header.

It does no I/O. A broker preallocates the offset index and the time index, so zeros may follow the last entry until it closes them.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from fencepost.broker_stub.log.errors import CorruptFile
from fencepost.broker_stub.log.txn_index import AbortedTxn

_OFFSET: Final = Struct(">ii")
_TIME: Final = Struct(">qi")
_TXN: Final = Struct(">hqqqq")
_TXN_VERSION: Final = 0


def write_offset_index(base_offset: int, entries: list[tuple[int, int]]) -> bytes:
    """`entries`: (last offset of the batch, its position)."""
    return b"".join(_OFFSET.pack(offset - base_offset, position) for offset, position in entries)


def read_offset_index(base_offset: int, data: bytes) -> list[tuple[int, int]]:
    """(last offset of the batch, its position). Raises CorruptFile."""
    kind = "offset index"
    found: list[tuple[int, int]] = []
    before = (-1, 0)  # the first batch of a segment has no entry, so each position is above 0
    for number, (relative, position) in enumerate(_entries(kind, _OFFSET, _without_padding(data, _OFFSET, kept=0))):
        if relative <= before[0] or position <= before[1]:
            reason = f"offset {base_offset + relative} at {position} does not follow offset {base_offset + before[0]} at {before[1]}"
            raise CorruptFile(kind, number * _OFFSET.size, reason)
        before = (relative, position)
        found.append((base_offset + relative, position))
    return found


def write_time_index(base_offset: int, entries: list[tuple[int, int]]) -> bytes:
    """`entries`: (timestamp, offset)."""
    return b"".join(_TIME.pack(timestamp, offset - base_offset) for timestamp, offset in entries)


def read_time_index(base_offset: int, data: bytes) -> list[tuple[int, int]]:
    """(timestamp, offset). Raises CorruptFile."""
    kind = "time index"
    found: list[tuple[int, int]] = []
    before = (-1, 0)
    # A closed segment whose only timestamp is 0 has one entry of zeros.
    kept = 1 if len(data) == _TIME.size else 0
    for number, (timestamp, relative) in enumerate(_entries(kind, _TIME, _without_padding(data, _TIME, kept=kept))):
        if timestamp <= before[0] or relative < before[1]:
            reason = f"timestamp {timestamp} at offset {base_offset + relative} does not follow timestamp {before[0]}"
            raise CorruptFile(kind, number * _TIME.size, f"{reason} at offset {base_offset + before[1]}")
        before = (timestamp, relative)
        found.append((timestamp, base_offset + relative))
    return found


def write_txn_index(entries: list[AbortedTxn]) -> bytes:
    return b"".join(
        _TXN.pack(_TXN_VERSION, each.producer_id, each.first_offset, each.last_offset, each.last_stable_offset) for each in entries
    )


def read_txn_index(data: bytes) -> list[AbortedTxn]:
    """The aborted transactions, in the order of their markers. Raises CorruptFile."""
    kind = "transaction index"
    found: list[AbortedTxn] = []
    for number, (version, *fields) in enumerate(_entries(kind, _TXN, data)):
        txn = AbortedTxn(*fields)
        position = number * _TXN.size
        if version != _TXN_VERSION:
            raise CorruptFile(kind, position, f"version {version}, only {_TXN_VERSION} is known")
        if not 0 <= txn.first_offset < txn.last_offset:
            raise CorruptFile(kind, position, f"a transaction from offset {txn.first_offset} to its marker at {txn.last_offset}")
        if found and txn.last_offset <= found[-1].last_offset:
            raise CorruptFile(kind, position, f"the marker at {txn.last_offset} does not follow the one at {found[-1].last_offset}")
        found.append(txn)
    return found


def _without_padding(data: bytes, entry: Struct, *, kept: int) -> bytes:
    """Without the zeros of a preallocated file, but with the first `kept` entries."""
    used = len(data.rstrip(b"\0"))
    end = max(-(-used // entry.size), kept) * entry.size
    return data if end > len(data) or len(data) % entry.size else data[:end]


def _entries(kind: str, entry: Struct, data: bytes) -> list[tuple[int, ...]]:
    whole = len(data) - len(data) % entry.size
    if whole < len(data):
        raise CorruptFile(kind, whole, f"{len(data) - whole} bytes where an entry has {entry.size}")
    return list(entry.iter_unpack(data))
