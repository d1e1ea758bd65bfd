"""The files of `fencepost produce --failed-to`: the original bytes of the failed records, and the reason of each failure.

A run without failures creates no file. `fencepost produce` can read the file of failed records unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from fencepost.cli.error_lines import CommandError
from fencepost.cli.output import json_line
from fencepost.cli.sending import Failure


class FailedRecords:
    """The files of --failed-to. The first failed record creates them."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.reasons = path.with_name(f"{path.name}.reasons") if path is not None else None
        self._stack = ExitStack()
        self._told: Any = None
        if path is not None and not path.parent.is_dir():
            raise CommandError(f"--failed-to {path}: there is no directory {path.parent}")

    def lines(self, header: bytes | None = None) -> Late | None:
        return self.make(lambda path: LineSink(path, header))

    def make(self, make: Callable[[Path], Any]) -> Late | None:
        path = self._path
        return Late(lambda: self._stack.enter_context(_closing(make(path)))) if path is not None else None

    def note(self, failure: Failure) -> None:
        """Write one JSON object for a failed record, in the order of the other file."""
        if self.reasons is None:
            return
        if self._told is None:
            self._told = self._stack.enter_context(self.reasons.open("wb"))
        told = {"number": failure.number, "persisted": failure.persisted.name, "reason": failure.reason}
        self._told.write(json_line(told).encode() + b"\n")

    def close(self) -> None:
        self._stack.close()


class Late:
    """A sink that is created at its first use."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._sink: Any = None

    @property
    def sink(self) -> Any:
        if self._sink is None:
            self._sink = self._make()
        return self._sink

    def keep(self, chunk: Any, indexes: list[int]) -> None:
        self.sink.keep(chunk, indexes)

    def keep_raw(self, raw: bytes) -> None:
        self.sink.keep_raw(raw)


class LineSink:
    """The original bytes of failed lines, below the header of a CSV file."""

    def __init__(self, path: Path, header: bytes | None) -> None:
        self._file = path.open("wb")
        if header is not None:
            self.keep_raw(header)

    def keep(self, chunk: Any, indexes: list[int]) -> None:
        self._file.writelines(chunk.raws[index] + b"\n" for index in indexes)

    def keep_raw(self, raw: bytes) -> None:
        self._file.write(raw + b"\n")

    def close(self) -> None:
        self._file.close()


class ParquetSink:
    """Failed rows in a Parquet file of the same columns."""

    def __init__(self, path: Path, schema: Any) -> None:
        import pyarrow.parquet as pq

        self._writer = pq.ParquetWriter(path, schema)

    def keep_raw(self, raw: bytes) -> None:
        raise AssertionError("a row of a Parquet file is never a line")

    def keep(self, chunk: Any, indexes: list[int]) -> None:
        self._writer.write_batch(chunk.batch.take(indexes))

    def close(self) -> None:
        self._writer.close()


@contextmanager
def _closing(sink: Any) -> Iterator[Any]:
    try:
        yield sink
    finally:
        sink.close()
