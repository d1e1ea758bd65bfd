"""The flights as Parquet files, of which a streaming source reads a few at a time.

Padded values make all records equally long. So each attempt of a task makes batches with the same number of records. A broker then takes
the batches of a second attempt for repeats, which loses rows if no guard prevents it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.demo.flights import Flight

FILES_PER_BATCH: Final = 8
BATCHES: Final = 6


def padded(flights: Sequence[Flight]) -> list[Flight]:
    """The flights with padded values, so that key and value together have one size."""
    width = max(len(key or b"") + len(value) for key, value in flights)
    return [Flight(key, value.ljust(width - len(key or b""))) for key, value in flights]


def write_files(flights: Sequence[Flight], place: Path) -> int:
    """Write the files, and return the number of micro-batches."""
    place.mkdir()
    count = FILES_PER_BATCH * BATCHES
    each = -(-len(flights) // count)
    for number in range(count):
        rows = flights[number * each : (number + 1) * each]
        columns = {"key": [key for key, _ in rows], "value": [value for _, value in rows]}
        table = pa.table(columns, schema=pa.schema([("key", pa.binary()), ("value", pa.binary())]))
        file = place / f"flights-{number:02d}.parquet"
        pq.write_table(table, file)
        # The source reads the oldest file first.
        os.utime(file, (1_000_000_000 + number, 1_000_000_000 + number))
    return BATCHES
