"""Reads the batches of a .log file one after the other. Only one batch is in memory at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from fencepost.broker_stub.log.errors import CorruptFile
from fencepost.producer.wire.records import BATCH_OVERHEAD, BatchHeader, CorruptBatch, check_crc, read_header


class StoredBatch(Struct, frozen=True):
    """A batch in a file. `position`: of its first byte."""

    position: int
    header: BatchHeader
    data: bytes

    @property
    def is_valid(self) -> bool:
        """Whether its checksum is correct."""
        return check_crc(self.data)

    @property
    def codec(self) -> str:
        try:
            return self.header.codec.name.lower()
        except CorruptBatch:
            return "unknown"


def batches_in(path: Path) -> Iterator[StoredBatch]:
    """The batches of the file. Raises CorruptFile at the first position where none can be read."""
    size = path.stat().st_size
    with path.open("rb") as file:
        position = 0
        while position < size:
            head = file.read(BATCH_OVERHEAD)
            try:
                header = read_header(head)
            except CorruptBatch as error:
                raise CorruptFile("log", position, str(error)) from None
            left = size - position
            if header.size > left:
                raise CorruptFile("log", position, f"the batch has {header.size} bytes, {left} are left in the file")
            data = head + file.read(header.size - len(head))
            if len(data) < header.size:
                raise CorruptFile("log", position, "the file became shorter while it was read")
            yield StoredBatch(position, header, data)
            position += header.size


def base_offset_of(path: Path) -> int:
    """The offset in the file's name."""
    stem = path.name.partition(".")[0]
    if not (stem.isascii() and stem.isdigit() and int(stem) < 2**63):
        raise CorruptFile("name", 0, f"{path.name!r} does not start with an offset")
    return int(stem)
