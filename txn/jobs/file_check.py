"""Whether a file is still the one that a job has read so far: by its size, and by checksums of the bytes around the place.

It is a check against mistakes: truncated, replaced and rotated files. It compares the first kilobyte, and the last one before the place.
"""

from __future__ import annotations

import os
from typing import Annotated, Final
from zlib import crc32

from msgspec import Meta, Struct

from fencepost.txn.jobs.errors import SourceChanged

SAMPLE_BYTES: Final = 1024


class FilePlace(Struct, frozen=True, array_like=True):
    """Where a job is in one file. `at`: the offset in bytes (of a compressed file: decompressed), or the row of a Parquet file. `number`:
    how many lines or rows are before it. `check`: what the file looks like up to there; "" if that is not to be checked."""

    at: Annotated[int, Meta(ge=0)]
    number: Annotated[int, Meta(ge=0)]
    check: str


def check_before(fd: int, offset: int) -> str:
    """The checksum of a file that may grow: of the bytes before the offset."""
    head = os.pread(fd, min(SAMPLE_BYTES, offset), 0)
    begin = max(0, offset - SAMPLE_BYTES)
    return f"{crc32(head):08x}{crc32(os.pread(fd, offset - begin, begin)):08x}"


def check_whole(fd: int) -> str:
    """The checksum of a file that may not change: of its size and its ends."""
    size = os.fstat(fd).st_size
    return f"{size}:{check_before(fd, size)}"


def looks_like(fd: int, place: FilePlace, *, grows: bool) -> bool:
    """Whether the file looks like the one that was read up to this place."""
    if not grows:
        return check_whole(fd) == place.check
    return os.fstat(fd).st_size >= place.at and check_before(fd, place.at) == place.check


def refuse_changed(path: str, fd: int, place: FilePlace, *, grows: bool, reset: str) -> None:
    """Raise SourceChanged unless the file is the one that was read up to this place. `reset`: what to do to read it from the start."""
    size = os.fstat(fd).st_size
    if not grows:
        if place.check and check_whole(fd) != place.check:
            raise SourceChanged(
                f"{path} has changed since the job read it up to {place.number}: it has {size} bytes now. A compressed file or a Parquet "
                f"file may not change: put new records into a new file, or {reset}"
            )
        return
    if size < place.at:
        raise SourceChanged(
            f"{path} has {size} bytes, and the job has read {place.at}: the file was truncated or replaced. Give a new file a new name, or"
            f" {reset}"
        )
    if place.check and check_before(fd, place.at) != place.check:
        raise SourceChanged(
            f"{path} is not the file that the job has read up to byte {place.at}: the bytes before that are others. Give a new file a new "
            f"name, or {reset}"
        )
