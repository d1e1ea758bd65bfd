"""`fencepost produce` on damaged and hostile files: a clear error with its place, bounds of memory and time, and nothing lost that was read
before."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.cli.stopping import Stop
from fencepost.txn.files.chunks import RowChunk, line_chunks
from fencepost.txn.files.csv_rows import CsvLines, csv_chunks, csv_converter, csv_header
from fencepost.txn.files.errors import BadInput, InputBroken
from fencepost.txn.files.fields import Fields
from fencepost.txn.files.json_lines import json_chunks, json_converter
from fencepost.txn.files.lines import Lines
from fencepost.txn.files.patience import block_reader
from tests.drawn import drawn
from tests.fencepost.cli.shell import complaint, peak_of, produce

pytestmark = pytest.mark.timeout(300)

SEEDS = 300
ALL = Fields()


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerStub]:
    with BrokerStub() as running_stub:
        yield running_stub


@pytest.fixture
def stub(broker: BrokerStub) -> Iterator[BrokerStub]:
    broker.create_topic("t")
    yield broker
    broker.delete_topic("t")


def values(stub: BrokerStub) -> list[bytes]:
    return [bytes(record.value or b"") for record in stub.records("t", 0)]


# -- lines, JSON and CSV -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fields", [(), ("--key-field", "a")], ids=["whole", "fields"])
def test_brackets_without_end_are_a_bad_line(stub: BrokerStub, fields: tuple[str, ...]) -> None:
    """A line whose brackets are nested more deeply than any Python can read is named like any other bad line, and the others are sent."""
    deep = b'{"a": 1, "b": ' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}"
    ran = produce(stub, "--format", "json", *fields, "-", given=b'{"a": 1}\n' + deep + b'\n{"a": 2}\n')
    assert ran.returncode == 1
    assert "2 records acknowledged, 1 failed" in ran.stderr
    assert "  line 2: brackets are nested too deeply (not in the log)" in ran.stderr
    assert values(stub) == [b'{"a": 1}', b'{"a": 2}']


@pytest.mark.parametrize("fields", [(), ("--key-field", "a")], ids=["whole", "fields"])
@pytest.mark.parametrize(
    ("escaped", "half", "byte"),
    [(rb"\ud800", "d800", 7), (rb"x\uDC00y", "DC00", 8), (rb"\ud83d\ude00\uD800\u0041", "D800", 19), (rb"\\\ud800", "d800", 9)],
)
def test_half_of_a_surrogate_pair_is_a_bad_line(stub: BrokerStub, fields: tuple[str, ...], escaped: bytes, half: str, byte: int) -> None:
    """The command names the escape and its place in the line, and sends the other lines, also those with a whole pair."""
    whole = rb'{"a": "\ud83d\ude00 \\ud800"}'
    ran = produce(stub, "--format", "json", *fields, "-", given=whole + b'\n{"a": "' + escaped + b'"}\n')
    assert ran.returncode == 1
    words = f"\\u{half} (byte {byte}) is one half of a surrogate pair: alone it is no character (not in the log)"
    assert f"  line 2: {words}" in ran.stderr
    assert values(stub) == [whole]


def test_fields_are_taken_of_lines_of_a_bounded_size(stub: BrokerStub) -> None:
    """A line of millions of fields would take many times its size; it is named, and the others are sent."""
    many = b"{" + b",".join(b'"%x":1' % number for number in range(1_000_000)) + b"}"
    ran = produce(stub, "--format", "json", "--key-field", "a", "-", given=b'{"a": 1}\n' + many + b"\n")
    assert ran.returncode == 1
    assert re.search(r"line 2: [\d,]+ bytes are more than 8 MiB, the limit for a line of which fields are taken", ran.stderr)


def test_a_csv_header_of_many_columns_is_read_once() -> None:
    """100,000 columns take no longer than reading them, and one that is there twice among them is found."""
    names = [b"c%d" % number for number in range(100_000)]
    assert len(header_of(b",".join(names) + b"\n")) == 100_000
    with pytest.raises(BadInput, match="the first line names the column 'c7' twice"):
        header_of(b",".join([*names, b"c7"]) + b"\n")
    with pytest.raises(BadInput, match=r"has no such column, but c0, c1, .* and 99,980 others$"):
        header_of(b",".join(names) + b"\n", Fields(key="nowhere"))


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (b'"a"b,c\n', "line 1: the names of the columns cannot be read: ',' expected after '\"'"),
        (b'a,"b\nc\n', "line 1: the names of the columns cannot be read: unexpected end of data"),
        (b"a" * 2_000_000 + b"\n", "line 1: the row that begins there is longer than 1 MiB"),
        (b'"a\n' + b"x\n" * 1_000_000, "line 1: the row that begins there is longer than 1 MiB: is a quote in it never closed?"),
    ],
)
def test_a_csv_header_that_cannot_be_read(first: bytes, words: str) -> None:
    """One line that says where and why; nothing was sent."""
    with pytest.raises(BadInput, match=re.escape(words)):
        header_of(first)


def test_a_csv_row_that_never_ends(stub: BrokerStub, tmp_path: Path) -> None:
    """The row with the quote that is never closed ends the reading at its limit; the report says where it begins, the rows before it are
    sent, and the process took no multiple of the file."""
    file = tmp_path / "in.csv"
    file.write_bytes(b'a,b\n1,"2\n2"\n3,4\n5,"' + b"x\n" * 10_000_000)
    peak, ran = peak_of("produce", "--bootstrap", stub.bootstrap, "--topic", "t", "--value-field", "b", file)
    assert ran.returncode == 1
    assert "2 records acknowledged, in " in ran.stderr
    assert (
        "stopped: line 5: the row that begins there is longer than 8 MiB: is a quote in it never closed?; nothing from line 5 on was read"
        in (ran.stderr)
    )
    assert values(stub) == [b"2\n2", b"4"]
    assert peak < 320 * 1024, f"{peak} KiB"


def test_a_line_that_never_ends(stub: BrokerStub) -> None:
    """It ends the reading at its limit; those before it are sent."""
    ran = produce(stub, "-", given=b"one\ntwo\n" + b"x" * (65 << 20))
    assert ran.returncode == 1
    assert "stopped: line 3 is longer than 64 MiB: is this a file of lines?; nothing from line 3 on was read" in ran.stderr
    assert values(stub) == [b"one", b"two"]


def test_long_names_and_short_rows() -> None:
    """A header whose names are repeated in every record makes chunks of a bounded size, however short the rows are."""
    header = b"a" * 1_000_000
    for chunk in chunks_of("csv", header + b"\n" + b"1\n" * 100):
        assert sum(len(row[1]) for row in chunk.rows) < 3_000_000


@pytest.mark.parametrize("kind", ["lines", "json", "fields", "csv", "columns"])
def test_random_damage_is_told_and_nothing_else(kind: str) -> None:
    """Bytes are flipped, cut out, doubled or inserted. Every line is a row or is named, in order, or the reading ends with a reason."""
    whole = b"\n".join(b'{"a": "k%d", "b": [%d, {"c": null}], "d": "\\u00e9\xc3\xa9"}' % (number, number) for number in range(40))
    if kind in ("csv", "columns"):
        whole = b"a,b,d\n" + b"\n".join(b'k%d,"x ""%d"", y",\xc3\xa9' % (number, number) for number in range(40))
    for seed in range(SEEDS):
        damaged = damage(whole, random.Random(seed))
        places: list[int] = []
        try:
            for chunk in chunks_of(kind, damaged):
                assert len(chunk.rows) == len(chunk.numbers) == len(chunk.raws)
                places += sorted([*chunk.numbers, *(number for number, _, _ in chunk.bad)])
                assert chunk.next > max(places, default=0)
        except (BadInput, InputBroken):
            pass
        assert places == sorted(set(places)), seed


def damage(data: bytes, chance: random.Random) -> bytes:
    """The data after one to four changes: bits flipped, bytes lost, bytes doubled, or others between them."""
    for _ in range(chance.randint(1, 4)):
        at, size = chance.randrange(len(data)), chance.choice([1, 1, 2, 8, 200])
        more = chance.choice([b'"', b"\n", b"\\", b"\x00", b",", b"[" * 3_000, b"{", b"\r", b"\xff", chance.randbytes(8)])
        data = (
            chance.choice(
                [
                    data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :],
                    data[:at] + data[at + size :],
                    data[:at] + data[at : at + size] + data[at:],
                    data[:at] + more + data[at:],
                ]
            )
            or b"\n"
        )
    return data


@contextmanager
def lines_of(data: bytes) -> Iterator[Lines]:
    with TemporaryFile() as file, Stop() as stop:
        file.write(data)
        file.flush()
        file.seek(0)
        yield Lines(block_reader("lines", file.fileno(), stop, lambda: None), stop)


def header_of(data: bytes, fields: Fields = ALL) -> list[str]:
    with lines_of(data) as lines:
        return csv_header(CsvLines(lines), fields)


def chunks_of(kind: str, data: bytes) -> Iterator[RowChunk]:
    """What the reader of that kind makes of it."""
    with lines_of(data) as lines:
        if kind == "lines":
            yield from line_chunks(lines)
        elif kind in ("json", "fields"):
            yield from json_chunks(lines, json_converter(Fields() if kind == "json" else Fields("a", "b", ("d",))))
        else:
            source, fields = CsvLines(lines), Fields() if kind == "csv" else Fields("a", "b", ("d",))
            yield from csv_chunks(lines, source, csv_converter(csv_header(source, fields), fields))


# -- Parquet -----------------------------------------------------------------------------------------------------------------


def test_a_page_that_claims_gigabytes(stub: BrokerStub, tmp_path: Path) -> None:
    """A page's header of a small file asks for 2 GiB: that much is never taken, and the report says which rows cannot be read."""
    file = tmp_path / "in.parquet"
    pq.write_table(pa.table({"value": ["abc" * 50] * 50}), file, compression="zstd", write_statistics=False, use_dictionary=False)
    size = pq.ParquetFile(file).metadata.row_group(0).column(0).total_compressed_size
    data = file.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    # Thrift's compact protocol: a zigzag varint behind the field's header, in the page the second field, in the footer the seventh.
    assert data[:7] == b"PAR1\x15\x00\x15"
    claimed = data[:7] + b"\xfe\xff\xff\xff\x0f" + data[9:footer]
    file.write_bytes(claimed + data[footer:].replace(b"\x16" + bytes([2 * size]), b"\x16" + bytes([2 * size + 6])))
    assert size < 60
    ran = produce(stub, file)
    assert ran.returncode == 1
    assert "0 records acknowledged, in " in ran.stderr
    assert (
        "stopped: the rows from 0 on cannot be read: more than 1024 MiB of memory would be needed; nothing from row 0 on was read"
        in ran.stderr
    )


def test_a_value_that_is_stored_once_and_meant_by_many_rows(stub: BrokerStub, tmp_path: Path) -> None:
    """400 MB of values in a file of a kilobyte are read in small batches; what no record may be as large as is named by its row."""
    file = tmp_path / "in.parquet"
    same = pa.DictionaryArray.from_arrays(pa.array([0] * 200, pa.int32()), ["x" * 2_000_000])
    pq.write_table(pa.table({"value": same}), file, compression="zstd", store_schema=False)
    assert file.stat().st_size < 10_000
    peak, ran = peak_of("produce", "--bootstrap", stub.bootstrap, "--topic", "t", file)
    assert ran.returncode == 1, ran.stderr
    assert "0 records acknowledged, 200 failed" in ran.stderr
    assert "  rows 0 to 199: a record of up to " in ran.stderr
    assert peak < 320 * 1024, f"{peak} KiB"


def test_a_damaged_row_group_loses_none_before_it(stub: BrokerStub, tmp_path: Path) -> None:
    """What stands before the damage is in the log, and the report says from which row on nothing was read."""
    file = tmp_path / "in.parquet"
    pq.write_table(pa.table({"value": list(map(str, range(3_000)))}), file, row_group_size=1_000, compression="zstd")
    data = bytearray(file.read_bytes())
    page = pq.ParquetFile(file).metadata.row_group(1).column(0).data_page_offset
    data[page : page + 40] = b"\xff" * 40
    file.write_bytes(data)
    ran = produce(stub, file)
    assert ran.returncode == 1
    assert "1,000 records acknowledged, in " in ran.stderr
    assert "stopped: the rows from 1000 on cannot be read: " in ran.stderr
    assert "; nothing from row 1000 on was read" in ran.stderr
    assert values(stub) == [b"%d" % number for number in range(1_000)]


def test_headers_that_are_none_are_bad_rows(stub: BrokerStub, tmp_path: Path) -> None:
    """A row whose headers cannot be sent is named, and kept, and the others are sent."""
    file, failed = tmp_path / "in.parquet", tmp_path / "failed.parquet"
    pair = pa.struct([("key", pa.string()), ("value", pa.binary())])
    headers = pa.array([[{"key": "h", "value": b"1"}], [{"key": None, "value": b"1"}], [None], None], pa.list_(pair))
    pq.write_table(pa.table({"value": ["a", "b", "c", "d"], "h": headers, "n": [1, 2, 3, 4]}), file)
    ran = produce(stub, file, "--header-field", "h", "--failed-to", failed)
    assert ran.returncode == 1
    assert "2 records acknowledged, 2 failed" in ran.stderr
    assert "  row 1: headers='h' must be (str, bytes or None) pairs, not (None, b'1') (not in the log)" in ran.stderr
    assert values(stub) == [b"a", b"d"]
    assert pq.read_table(failed).column("n").to_pylist() == [2, 3]
    assert "headers='n' must be a map or a list of pairs, not int64" in complaint(produce(stub, file, "--header-field", "n"))


@drawn(3)
@pytest.mark.parametrize("seed", range(6))
def test_random_damage_of_parquet(stub: BrokerStub, tmp_path: Path, seed: int) -> None:
    """Bytes are flipped, cut out or inserted. The output is one line that nothing was sent, or a report of how far it got."""
    file = tmp_path / "in.parquet"
    rows = pa.table({"value": [f"v{number % 50}" for number in range(500)], "n": list(range(500))})
    pq.write_table(rows, file, row_group_size=100, compression="zstd")
    file.write_bytes(damage(file.read_bytes(), random.Random(seed)))
    ran = produce(stub, file)
    assert "Traceback" not in ran.stderr
    if ran.returncode == 2:
        assert "cannot be read as a Parquet file: " in complaint(ran)
    else:
        assert " records acknowledged" in ran.stderr
        assert ran.returncode == 0 or "stopped: the rows from " in ran.stderr
        assert len(values(stub)) % 100 == 0
