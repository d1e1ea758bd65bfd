"""The formats of files, known by their suffixes, and compressed files."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Final


class Format(enum.StrEnum):
    """The format of the input."""

    LINES = "lines"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


SUFFIXES: Final = {
    ".json": Format.JSON,
    ".jsonl": Format.JSON,
    ".ndjson": Format.JSON,
    ".csv": Format.CSV,
    ".parquet": Format.PARQUET,
    ".pq": Format.PARQUET,
}
PARQUET_NEEDS: Final = "Parquet needs pyarrow: install fencepost's extra `arrow`, in a checkout with pip install '.[arrow]'"
COMPRESSED: Final = frozenset({".gz", ".bz2", ".xz"})


def is_compressed(name: str) -> bool:
    """Whether the file's suffix says that it is compressed."""
    return Path(name).suffix.lower() in COMPRESSED


def format_of(name: str) -> Format:
    """The format by the suffix, lines for any other: of `flights.csv.gz` that of `flights.csv`."""
    path = Path(name)
    return SUFFIXES.get((path.with_suffix("") if is_compressed(name) else path).suffix.lower(), Format.LINES)
