"""The flights as Parquet files, for a streaming source to take a few at a time.

Values are padded so that all records are of one size: batches of produce requests then hold as many records whoever writes them, which is
what makes a broker take a second attempt's for repeats, and what makes losses possible where nothing guards against that.
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
    """All of one size, key and value together."""
    width = max(len(key or b"") + len(value) for key, value in flights)
    return [Flight(key, value.ljust(width - len(key or b""))) for key, value in flights]


def write_files(flights: Sequence[Flight], place: Path) -> int:
    """Write them, and return how many batches they are."""
    place.mkdir()
    count = FILES_PER_BATCH * BATCHES
    each = -(-len(flights) // count)
    for number in range(count):
        rows = flights[number * each : (number + 1) * each]
        columns = {"key": [key for key, _ in rows], "value": [value for _, value in rows]}
        table = pa.table(columns, schema=pa.schema([("key", pa.binary()), ("value", pa.binary())]))
        file = place / f"flights-{number:02d}.parquet"
        pq.write_table(table, file)
        # The source takes the oldest first.
        os.utime(file, (1_000_000_000 + number, 1_000_000_000 + number))
    return BATCHES
