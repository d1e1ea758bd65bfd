"""The place of each record in a file: reading from there gives this record and all after it, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from fencepost.txn.files.chunks import RowChunk, line_chunks
from fencepost.txn.files.csv_rows import CsvLines, csv_chunks, csv_dicts
from fencepost.txn.files.formats import Format, format_of, is_compressed
from fencepost.txn.files.json_lines import json_chunks, json_value
from fencepost.txn.files.lines import Lines

Rows = list[tuple[int, object]]

SEEDS = 60


def chunks_of(kind: str, lines: Lines) -> Iterator[RowChunk]:
    if kind == "csv":
        return csv_chunks(lines, CsvLines(lines), csv_dicts(["a", "b"]))
    return json_chunks(lines, json_value) if kind == "json" else line_chunks(lines)


def blocks_of(data: bytes, drawn: random.Random) -> Callable[[], bytes]:
    """Reads the data in blocks of random sizes."""
    at = 0

    def read() -> bytes:
        nonlocal at
        size = drawn.randrange(1, 60)
        block = data[at : at + size]
        at += size
        return block

    return read


def rows_of(chunks: Iterator[RowChunk]) -> Rows:
    """Good and bad rows by their lines."""
    found: Rows = []
    for chunk in chunks:
        found += zip(chunk.numbers, chunk.rows, strict=True)
        found += [(number, raw) for number, raw, _ in chunk.bad]
    return sorted(found, key=lambda each: each[0])


def a_row(kind: str, drawn: random.Random) -> bytes:
    text = drawn.choice([b"x", b"", b"\xc3\xa9y", b"long " * drawn.randrange(30)])
    if kind == "lines":
        return text
    if kind == "json":
        return drawn.choice([b'{"a": "%s"}' % text, b"[1, 2]", b"", b"{bad", b"  7 "])
    return drawn.choice([b'%s,"quoted\n\r\n""%s"""' % (text, text), b"1,2", b"", b"too,many,cells", b"few", b'"a"b,c'])


@pytest.mark.parametrize("kind", ["lines", "json", "csv"])
def test_reading_on_at_any_place(kind: str) -> None:
    """Random rows, bad ones and blank lines among them, read in blocks of random sizes."""
    first = random.SystemRandom().randrange(10**6)
    print(f"seeds from {first} on")
    for seed in range(first, first + SEEDS):
        drawn = random.Random(seed)
        data = b"".join(a_row(kind, drawn) + b"\n" for _ in range(drawn.randrange(40)))
        everything = rows_of(chunks_of(kind, Lines(blocks_of(data, drawn))))
        places: list[tuple[int, int]] = [(0, 1)]
        for chunk in chunks_of(kind, Lines(blocks_of(data, drawn))):
            places += [(chunk.offset_of(number), number) for number in (*chunk.numbers, *(each[0] for each in chunk.bad))]
            places.append((chunk.end, chunk.next))
        assert places[-1] == (len(data), data.count(b"\n") + 1), seed
        for offset, number in places:
            rest = Lines(blocks_of(data[offset:], drawn), offset=offset, number=number - 1)
            assert rows_of(chunks_of(kind, rest)) == [each for each in everything if each[0] >= number], (seed, offset)


@pytest.mark.parametrize("kind", ["lines", "json", "csv"])
def test_a_file_that_is_cut_off(kind: str) -> None:
    """At any byte: what is not complete is left, and the rest of the file, read from the end's place, gives the rows that are missing."""
    drawn = random.Random(7)
    data = b"".join(a_row(kind, drawn) + b"\n" for _ in range(12))
    everything = rows_of(chunks_of(kind, Lines(blocks_of(data, drawn), complete=False)))
    for size in range(len(data) + 1):
        end, after = 0, 1
        found: Rows = []
        for chunk in chunks_of(kind, Lines(blocks_of(data[:size], drawn), complete=False)):
            found += rows_of(iter([chunk]))
            end, after = chunk.end, chunk.next
        rest = Lines(blocks_of(data[end:], drawn), complete=False, offset=end, number=after - 1)
        assert found + rows_of(chunks_of(kind, rest)) == everything, size


@pytest.mark.parametrize(
    ("name", "format", "compressed"),
    [
        ("a", Format.LINES, False),
        ("a.CSV", Format.CSV, False),
        ("a.jsonl.gz", Format.JSON, True),
        ("a.csv.BZ2", Format.CSV, True),
        ("a.gz", Format.LINES, True),
        ("a.pq", Format.PARQUET, False),
    ],
)
def test_formats(name: str, format: Format, compressed: bool) -> None:
    """By the suffix, or by the one before that of a compressed file."""
    assert (format_of(name), is_compressed(name)) == (format, compressed)
