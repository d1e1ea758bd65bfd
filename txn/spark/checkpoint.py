"""Which batch of which query is about to be written, as its checkpoint says: for processes that Spark tells nothing and that have no JVM.

Spark writes `offsets/<batch>` before it asks a sink for anything, so that the newest there is the batch. Checkpoints are read where pyarrow
reads files; what cannot be read is refused, as without it a replay cannot be told from other rows under the same number.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.fs as files

from txn.spark.errors import BatchUnknown
from txn.spark.query import BatchIdentity, files_of, fingerprint_of


class Metadata(msgspec.Struct, frozen=True):
    """`<checkpoint>/metadata`."""

    id: str


def newest_batch(checkpoint: str) -> BatchIdentity:
    """The batch whose offsets were written last. Raises BatchUnknown."""
    try:
        system, root = files.FileSystem.from_uri(
            checkpoint if "://" in checkpoint else str(Path(checkpoint.removeprefix("file:")).absolute())
        )
        query = msgspec.json.decode(_read(system, f"{root}/metadata") or b"", type=Metadata).id
        numbers = [
            int(each.base_name) for each in system.get_file_info(files.FileSelector(f"{root}/offsets")) if each.base_name.isdecimal()
        ]
        batch = max(numbers)
        offsets = _text(system, f"{root}/offsets/{batch}")
        if offsets is None:
            raise ValueError(f"offsets/{batch} is gone")
        found = files_of(offsets, lambda place: _text(system, place), f"{root}/sources")
    except (OSError, ValueError, pa.ArrowException, msgspec.DecodeError) as error:
        raise BatchUnknown(
            f"the checkpoint {checkpoint!r} cannot be read by Python on the driver's host ({error}), and without it a replay cannot be told"
            " from other rows: put it where pyarrow reads files, or write with ExactlyOnceKafkaWriter and foreachBatch, which reads it as"
            " Spark does"
        ) from None
    return BatchIdentity(query=query, run=query, batch=batch, fingerprint=fingerprint_of(offsets, found))


def _read(system: Any, place: str) -> bytes | None:
    if system.get_file_info(place).type is not files.FileType.File:
        return None
    with system.open_input_stream(place) as stream:
        return bytes(stream.read())


def _text(system: Any, place: str) -> str | None:
    content = _read(system, place)
    return None if content is None else content.decode()
