"""The next batch of a query, read from its checkpoint, for processes that Spark tells nothing and that have no JVM.

Spark writes `offsets/<batch>` before it calls a sink, so the newest file there names the batch. A location has Spark's meaning: in a path,
%20 is not a space. Checkpoints are read where pyarrow can read files. An unreadable checkpoint is refused, because without it a repeated
batch cannot be told from other rows with the same number.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec
import pyarrow as pa
import pyarrow.fs as files

from fencepost.producer.wire.errors import NO_JSON
from fencepost.txn.spark.errors import BatchUnknown
from fencepost.txn.spark.sink.query_identity import BatchIdentity, files_of, fingerprint_of

SCHEMES: Final = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "abfs": "abfs", "abfss": "abfss", "hdfs": "hdfs", "viewfs": "viewfs"}
"""pyarrow's names of Hadoop's file systems, besides local ones."""
LOCATION: Final = re.compile(r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):)?(?://(?P<host>[^/]*))?(?P<path>.*)", re.DOTALL)
"""As Hadoop's Path reads it."""


class Metadata(msgspec.Struct, frozen=True):
    """`<checkpoint>/metadata`."""

    id: str


class OffsetsIn(msgspec.Struct, frozen=True):
    """The source offsets of a checkpoint's batches, read on request, on any file system."""

    checkpoint: str

    def __call__(self, batch: int) -> str | None:
        try:
            system, root = open_location(self.checkpoint)
            return _text(system, f"{root}/offsets/{batch}")
        except (OSError, ValueError, pa.ArrowException):
            return None


def newest_batch(checkpoint: str) -> BatchIdentity:
    """The batch whose offsets were written last. Raises BatchUnknown."""
    try:
        system, root = open_location(checkpoint)
        query = msgspec.json.decode(_read(system, f"{root}/metadata") or b"", type=Metadata).id
        numbers = [
            int(each.base_name) for each in system.get_file_info(files.FileSelector(f"{root}/offsets")) if each.base_name.isdecimal()
        ]
        batch = max(numbers)
        offsets = _text(system, f"{root}/offsets/{batch}")
        if offsets is None:
            raise ValueError(f"offsets/{batch} is gone")
        found = files_of(offsets, lambda place: _text(system, place), f"{root}/sources")
    except (OSError, ValueError, pa.ArrowException, *NO_JSON) as error:
        raise BatchUnknown(
            f"the checkpoint {checkpoint!r} cannot be read by Python on the driver's host ({_first_line(error)}), and without it a replay"
            f" cannot be told from other rows. {_advice(checkpoint)}, or write with ExactlyOnceKafkaWriter and foreachBatch, which reads it"
            " as Spark does"
        ) from None
    return BatchIdentity(query=query, run=query, batch=batch, fingerprint=fingerprint_of(offsets, found), offsets_of=OffsetsIn(checkpoint))


def open_location(location: str) -> tuple[Any, str]:
    """The file system of a checkpoint's location, and the path in it. Raises OSError, ValueError and pyarrow's errors."""
    scheme, host, path = _parts(location)
    if scheme in ("", "file") and host in ("", "localhost"):
        return files.LocalFileSystem(), str(Path(path).absolute())
    if scheme not in SCHEMES:
        raise ValueError(f"pyarrow knows no file system {scheme or host!r}, only {', '.join(['file', *SCHEMES])}")
    system, root = files.FileSystem.from_uri(f"{SCHEMES[scheme]}://{host}{quote(path)}")
    return system, root


def _parts(location: str) -> tuple[str, str, str]:
    """Scheme, host and path."""
    found = LOCATION.fullmatch(location)
    assert found is not None, "the pattern matches every location"
    return (found["scheme"] or "").lower(), found["host"] or "", found["path"]


def _first_line(error: BaseException) -> str:
    """Without the hundred paths at which libjvm was not found."""
    return str(error).partition("\n")[0]


def _advice(location: str) -> str:
    """What to do about a location that cannot be read."""
    scheme = _parts(location)[0]
    if scheme == "":
        return "Without a scheme it is a local path here; where Spark's fs.defaultFS is another, write its scheme"
    if scheme in ("hdfs", "viewfs"):
        return "Have libhdfs and libjvm found there (ARROW_LIBHDFS_DIR, JAVA_HOME, CLASSPATH of `hadoop classpath --glob`)"
    if scheme in SCHEMES:
        return "pyarrow takes credentials and regions from the environment of Spark's driver, and none of Hadoop's settings (fs.*)"
    return "Put it where pyarrow reads files"


def _read(system: Any, place: str) -> bytes | None:
    if system.get_file_info(place).type is not files.FileType.File:
        return None
    with system.open_input_stream(place) as stream:
        return bytes(stream.read())


def _text(system: Any, place: str) -> str | None:
    content = _read(system, place)
    return None if content is None else content.decode()
