"""The process that reads a Parquet file, under a memory limit, and writes it to standard output.

A damaged or hostile file of a few bytes can request any amount of memory, or crash the reader. Such a file ends only this process.

It writes two Arrow streams. The first has no rows: it has the file's schema and number of rows. Then the process reads a line of JSON from
standard input: the columns (null: all), and the first row. The second stream has the batches from there on. It writes errors to standard
error.
"""

from __future__ import annotations

import json
import signal
import sys
import sysconfig
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

MEMORY_BYTES_MAX: Final = 1024 * 1024 * 1024
BATCH_ROWS_MAX: Final = 16_384
BATCH_BYTES: Final = 16 * 1024 * 1024
SMALLER: Final = 16
READ_BYTES: Final = 1024 * 1024
REASON_CHARACTERS_MAX: Final = 500
ROWS: Final = b"fencepost.rows"


def main(path: str) -> None:
    """The entry point of the process."""
    # The command handles Ctrl-C, and ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _limit_memory()
    try:
        _read(path)
    except Exception as error:  # noqa: BLE001  # the outermost loop of the process
        memory = f"more than {MEMORY_BYTES_MAX >> 20} MiB of memory would be needed"
        reason = memory if isinstance(error, MemoryError) else str(error) or type(error).__name__
        sys.stderr.write(" ".join(reason.split())[:REASON_CHARACTERS_MAX])
        sys.exit(1)


def _limit_memory() -> None:
    pa.set_cpu_count(1)
    try:
        import resource
    except ImportError:  # Windows has no memory limit
        return
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = MEMORY_BYTES_MAX + _reserved_bytes()
    resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _reserved_bytes() -> int:
    """What counts towards the limit and is not used, if Python has no GIL: its allocator reserves a gigabyte of addresses."""
    if not sysconfig.get_config_var("Py_GIL_DISABLED"):
        return 0
    try:
        with open("/proc/self/status") as status:
            kib = {name: int(words.split()[0]) for name, _, words in (line.partition(":") for line in status) if words.endswith("kB\n")}
        return max(0, kib["VmData"] - kib["RssAnon"]) * 1024
    except (OSError, KeyError):  # no Linux
        return 0


def _read(path: str) -> None:
    out = pa.PythonFile(sys.stdout.buffer, mode="w")
    with pq.ParquetFile(path, buffer_size=READ_BYTES, pre_buffer=False, memory_map=False) as file:
        schema = file.schema_arrow
        pa.ipc.new_stream(out, schema.with_metadata({ROWS: b"%d" % file.metadata.num_rows})).close()
        sys.stdout.buffer.flush()
        asked = json.loads(sys.stdin.buffer.readline())
        columns: list[str] | None = asked["columns"]
        skip: int = asked["first"]
        if columns is not None:
            schema = pa.schema([schema.field(name) for name in schema.names if name in columns])
        with pa.ipc.new_stream(out, schema) as stream:
            for group in range(file.metadata.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                if skip >= rows:
                    skip -= rows
                    continue
                for batch in _batches(file, group, columns, skip):
                    asked_for = batch if columns is None else batch.select(schema.names)
                    for piece in _pieces(asked_for):
                        stream.write_batch(piece)
                        sys.stdout.buffer.flush()
                skip = 0


def _batches(file: Any, group: int, columns: list[str] | None, given: int) -> Iterator[Any]:
    """The rows of one row group, without the first `given`, in batches of about BATCH_BYTES. If these exceed the memory limit, it makes
    smaller ones. This happens if the file stores a value once for many rows."""
    metadata = file.metadata.row_group(group)
    rows = max(1, min(BATCH_ROWS_MAX, BATCH_BYTES // max(1, metadata.total_byte_size // max(1, metadata.num_rows))))
    while True:
        begin = 0
        try:
            for batch in file.iter_batches(rows, row_groups=[group], columns=columns, use_threads=False):
                end = begin + batch.num_rows
                if end > given:
                    yield batch.slice(given - begin)
                    given = end
                begin = end
            return
        except MemoryError:
            if rows == 1:
                raise
            rows = max(1, rows // SMALLER)


def _pieces(batch: Any) -> Iterator[Any]:
    """The batch in pieces of about BATCH_BYTES: the process that asked holds one at a time. A batch that is read may be larger, if the file
    stores a value once for many rows."""
    rows = max(1, batch.num_rows * BATCH_BYTES // max(1, batch.nbytes))
    for begin in range(0, batch.num_rows, rows):
        yield batch.slice(begin, rows)
