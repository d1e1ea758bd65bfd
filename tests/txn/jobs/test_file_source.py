"""Files as a source of a job: each record once through growth, added files, damage and replaced files."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer.config.reader import read_settings
from fencepost.producer.errors import ConfigError
from fencepost.txn import BadRecord, FileSource, JobFailed, SourceChanged
from fencepost.txn.jobs.positions import Positions, entry_of
from tests.reading import read_messages
from tests.txn.jobs.helpers import DEAD, LIMIT_S, TOPIC, dead_letters, numbers, quick, stub, values

__all__ = ["stub"]

pytestmark = pytest.mark.timeout(120)


def lines(records: list[bytes]) -> bytes:
    return b"".join(each + b"\n" for each in records)


def test_a_file_is_sent_once(stub: BrokerStub, tmp_path: Path) -> None:
    """A second run sends nothing, and says how many records were committed before."""
    file = tmp_path / "in.txt"
    file.write_bytes(lines(numbers(1_000)))
    stats = quick(stub, FileSource(file), batch_size=300).run()
    assert (stats.records_in, stats.records_out, stats.before, stats.batches) == (1_000, 1_000, 0, 4)
    again = quick(stub, FileSource(file)).run()
    assert (again.records_in, again.before, again.batches) == (0, 1_000, 0)
    assert values(stub) == numbers(1_000)


def test_a_file_that_grows(stub: BrokerStub, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The next run continues it. A last line without a newline is left until it has one, and a warning names it."""
    file = tmp_path / "in.txt"
    file.write_bytes(lines(numbers(3)) + b"record")
    source = FileSource(file)
    assert quick(stub, source).run().records_in == 3
    assert source.progress[str(file)].unfinished == 6
    assert f"{file}: the record from line 4 on (6 bytes so far) is not finished" in caplog.text
    with file.open("ab") as more:
        more.write(b" 3\n" + lines(numbers(6)[4:]))
    assert quick(stub, FileSource(file)).run().records_in == 3
    assert values(stub) == numbers(6)


def test_a_finished_file(stub: BrokerStub, tmp_path: Path) -> None:
    """With complete=True the last line needs no newline. If the file grows in this line after that, it is no record again."""
    file = tmp_path / "in.txt"
    file.write_bytes(b"one\ntwo")
    assert quick(stub, FileSource(file, complete=True)).run().records_in == 2
    assert quick(stub, FileSource(file, complete=True)).run().records_in == 0
    assert values(stub) == [b"one", b"two"]


def test_several_files_and_more_of_them(stub: BrokerStub, tmp_path: Path) -> None:
    """They are sent in the given order. A file that is added later is sent then, wherever it is named, and one that grew is continued."""
    for name in "abc":
        (tmp_path / name).write_bytes(lines([b"%s %d" % (name.encode(), number) for number in range(3)]))
    a, b, c = (tmp_path / name for name in "abc")
    assert quick(stub, FileSource(c, a)).run().records_in == 6
    with c.open("ab") as more:
        more.write(b"c 3\n")
    assert quick(stub, FileSource(b, a, c)).run().records_in == 4
    assert quick(stub, FileSource(a, c)).run().records_in == 0
    assert values(stub) == [b"c 0", b"c 1", b"c 2", b"a 0", b"a 1", b"a 2", b"b 0", b"b 1", b"b 2", b"c 3"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "has 0 bytes, and the job has read 33: the file was truncated or replaced"),
        (lines(numbers(2)), "has 18 bytes, and the job has read"),
        (lines([b"another %d" % number for number in range(3)]), "the bytes before that are others. Give a new file a new name"),
    ],
)
def test_a_file_that_was_replaced(stub: BrokerStub, tmp_path: Path, content: bytes, reason: str) -> None:
    """The run refuses it by name, with what to do, before anything of another file is sent."""
    file, other = tmp_path / "in.txt", tmp_path / "a new one.txt"
    file.write_bytes(lines(numbers(3)) + b"more\n")
    quick(stub, FileSource(file)).run()
    file.write_bytes(content if reason.startswith("has 18") or not content else content + b"and more than before\n")
    other.write_bytes(b"x\n")
    with pytest.raises(SourceChanged, match="jobs reset JOB --to-start") as raised:
        quick(stub, FileSource(other, file)).run()
    assert reason.replace("33", str(len(lines(numbers(3)) + b"more\n"))) in str(raised.value)
    assert str(file) in str(raised.value)
    assert values(stub) == [*numbers(3), b"more"]


@pytest.mark.parametrize("suffix", [".txt", ".txt.gz"])
def test_a_file_that_was_renamed(stub: BrokerStub, tmp_path: Path, suffix: str) -> None:
    """Its records are not sent again: the run refuses it, with both names. Back under its old name it is continued. Beside its copy, and
    with other content, a file is a new one."""
    file, renamed = tmp_path / f"in{suffix}", tmp_path / f"in.1{suffix}"
    packed = gzip.compress if suffix.endswith(".gz") else bytes
    file.write_bytes(packed(lines(numbers(3))))
    quick(stub, FileSource(file)).run()
    file.rename(renamed)
    with pytest.raises(
        SourceChanged, match=r"begins as .* up to line \d+ and which is not there any more.*jobs reset JOB --to-start"
    ) as raised:
        quick(stub, FileSource(renamed)).run()
    assert str(file) in str(raised.value)
    assert str(renamed) in str(raised.value)
    assert values(stub) == numbers(3)
    file.write_bytes(packed(b"a new one\n"))
    with pytest.raises(SourceChanged, match="begins as"):
        quick(stub, FileSource(renamed)).run()
    renamed.rename(file)
    renamed.write_bytes(packed(b"another\n" * 20))
    quick(stub, FileSource(renamed, file)).run()
    assert values(stub) == [*numbers(3), *[b"another"] * 20]


def test_a_position_that_was_set(stub: BrokerStub, tmp_path: Path) -> None:
    """A place without a checksum is not checked. What is no position in files is refused."""
    file = tmp_path / "in.txt"
    file.write_bytes(lines(numbers(5)))
    positions = Positions(read_settings({"bootstrap_servers": stub.bootstrap}))

    def set_to(position: Any) -> None:
        entry = entry_of("job", position, source="files", records=0, topic=TOPIC, transactional_id="fencepost-job.job")
        positions.replace("job", entry, "fencepost-job.job", LIMIT_S)

    set_to({"files": {str(file): [18, 2, ""]}})
    assert quick(stub, FileSource(file)).run().records_in == 3
    assert values(stub) == numbers(5)[2:]
    for wrong in (7, {"files": {str(file): [18]}}, {"files": {str(file): [-1, 0, ""]}}, {"after": 5}, {"files": {"in.txt": [18, 2, ""]}}):
        set_to(wrong)
        with pytest.raises(JobFailed, match="is no position in files"):
            quick(stub, FileSource(file)).run()


@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)])
def test_compressed_files(stub: BrokerStub, tmp_path: Path, suffix: str, compress: Callable[[bytes], bytes]) -> None:
    """They are read again from their start up to the place. They may not change, and damage ends the job after what came before it."""
    file = tmp_path / f"in.jsonl{suffix}"
    records = [b'{"number": %d, "more": "%s"}' % (number, os.urandom(8).hex().encode()) for number in range(50_000)]
    whole = compress(b"\n".join(records))
    file.write_bytes(whole)
    first = quick(stub, FileSource(file), batch_size=700).run(max_batches=2)
    assert first.records_in == 1_400
    assert quick(stub, FileSource(file)).run().records_in == 48_600
    assert values(stub) == records
    file.write_bytes(whole + whole)
    with pytest.raises(SourceChanged, match="may not change: put new records into a new file"):
        quick(stub, FileSource(file)).run()
    damaged = tmp_path / f"damaged.txt{suffix}"
    damaged.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(JobFailed, match=r"damaged.*: the compressed file is damaged or cut short: .*\. Everything before is committed"):
        quick(stub, FileSource(damaged)).run()


def test_csv(stub: BrokerStub, tmp_path: Path) -> None:
    """Cells with newlines, a byte order mark and blank lines: a run may stop after any row, and the next one continues with the columns'
    names."""
    file = tmp_path / "in.csv"
    rows = [f'{number},"a ""{number}"",\r\n\nc"\r\n\r\n'.encode() for number in range(30)]
    file.write_bytes(b"\xef\xbb\xbfid,name\r\n" + b"".join(rows))
    with quick(stub, FileSource(file, key_field="id"), batch_size=7) as job:
        for _ in range(5):
            job.run(max_batches=1)
    messages = read_messages(stub.bootstrap, TOPIC)
    assert [(each.key(), json.loads(each.value() or b"")) for each in messages] == [
        (b"%d" % number, {"id": str(number), "name": f'a "{number}",\r\n\nc'}) for number in range(30)
    ]
    with file.open("ab") as more:
        more.write(b'30,"half')
    for part in (b"\nof", b" it", b'"'):
        source = FileSource(file, key_field="id")
        assert quick(stub, source).run().records_in == 0
        assert source.progress[str(file)].unfinished == file.stat().st_size - file.read_bytes().index(b"30,")
        with file.open("ab") as more:
            more.write(part)
    with file.open("ab") as more:
        more.write(b"\n")
    assert quick(stub, FileSource(file, key_field="id", value_field="name")).run().records_in == 1
    assert values(stub)[30:] == [b"half\nof it"]


def test_parquet(stub: BrokerStub, tmp_path: Path) -> None:
    """A run may stop inside a row group. The file may not change."""
    file = tmp_path / "in.parquet"
    table = pa.table({"id": [str(number) for number in range(1_000)], "value": [f"v{number}" for number in range(1_000)]})
    pq.write_table(table, file, row_group_size=64)
    with quick(stub, FileSource(file, key_field="id"), batch_size=150) as job:
        for count in range(1, 8):
            assert job.run(max_batches=1).records_in == min(1_000, 150 * count)
    messages = read_messages(stub.bootstrap, TOPIC)
    assert [(each.key(), each.value()) for each in messages] == [(b"%d" % number, b"v%d" % number) for number in range(1_000)]
    assert quick(stub, FileSource(file)).run().records_in == 0
    pq.write_table(table.slice(0, 990), file, row_group_size=64)
    with pytest.raises(SourceChanged, match="a Parquet file may not change"):
        quick(stub, FileSource(file)).run()


def test_what_a_transform_gets(stub: BrokerStub, tmp_path: Path) -> None:
    """Bytes of a line, the value of a JSON line, and dictionaries of CSV and Parquet rows."""
    for name, content in (("a.txt", b"x\n"), ("b.json", b'{"n": [1]}\n7\n'), ("c.csv", b"n,m\n1,2\n")):
        (tmp_path / name).write_bytes(content)
    pq.write_table(pa.table({"n": [1, None]}), tmp_path / "d.parquet")
    seen: list[Any] = []
    quick(stub, FileSource(*sorted(tmp_path.iterdir())), transform=lambda each: seen.append(each)).run()
    assert seen == [b"x", {"n": [1]}, 7, {"n": "1", "m": "2"}, {"n": 1}, {"n": None}]
    assert values(stub) == []
    assert quick(stub, FileSource(*sorted(tmp_path.iterdir()))).run().before == 6


def test_a_bad_line_stops_the_job(stub: BrokerStub, tmp_path: Path) -> None:
    """Everything before it is committed, and the error names file and line. Corrected, the file is continued."""
    file = tmp_path / "in.json"
    file.write_bytes(b'{"id": 1}\n{"id": 2}\n{"id": \n{"id": 4}\n')
    for _ in range(2):
        with pytest.raises(BadRecord, match=r"in\.json, line 3: no JSON: .*Everything before this record is committed") as raised:
            quick(stub, FileSource(file)).run()
        assert raised.value.place == f"{file}, line 3"
        assert values(stub) == [b'{"id": 1}', b'{"id": 2}']
    file.write_bytes(b'{"id": 1}\n{"id": 2}\n{"id": 3}\n{"id": 4}\n')
    assert quick(stub, FileSource(file)).run().records_in == 2
    assert values(stub) == [b'{"id": %d}' % number for number in (1, 2, 3, 4)]


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_bad_lines_as_dead_letters(stub: BrokerStub, tmp_path: Path, size: int) -> None:
    """Each is in the topic of dead letters once, with file, line and reason, wherever transactions end."""
    file = tmp_path / "in.csv"
    file.write_bytes(b'a,b\n1,2,3\n4,5\n6\n7\n8,"9\n9"\n10\n')
    with quick(stub, FileSource(file, value_field="a"), batch_size=size, dead_letters=DEAD) as job:
        for _ in range(6):
            job.run(max_batches=1)
        stats = job.run()
    assert (stats.records_in, stats.records_out, stats.dead_letters) == (6, 2, 4)
    assert values(stub) == [b"4", b"8"]
    letters = dead_letters(stub)
    assert [(value, headers["fencepost.place"]) for value, headers in letters] == [
        (b"1,2,3", f"{file}, line 2"),
        (b"6", f"{file}, line 4"),
        (b"7", f"{file}, line 5"),
        (b"10", f"{file}, line 8"),
    ]
    assert letters[0][1]["fencepost.reason"] == "3 cells where the first line names 2 columns"


def test_a_record_that_is_too_large(stub: BrokerStub, tmp_path: Path) -> None:
    """The producer refuses it: it alone is a dead letter, or the job stops at it, by its line."""
    file = tmp_path / "in.txt"
    file.write_bytes(lines([b"a", b"b", b"x" * 3_000, b"c"]))
    with pytest.raises(BadRecord, match=r"in\.txt, line 3: RecordTooLarge: .*max_request_size=2000"):
        quick(stub, FileSource(file), producer={"max_request_size": 2_000}).run()
    assert values(stub) == [b"a", b"b"]
    stats = quick(stub, FileSource(file), producer={"max_request_size": 2_000}, dead_letters=DEAD).run()
    assert (stats.records_in, stats.records_out, stats.dead_letters) == (2, 1, 1)
    assert values(stub) == [b"a", b"b", b"c"]
    assert dead_letters(stub)[0][1]["fencepost.cut"] == "True"


def test_random_stops(stub: BrokerStub, tmp_path: Path) -> None:
    """Random files of every format with bad lines: runs stop after random numbers of transactions. Every record is sent once, in the order
    of its file, and every bad line is one dead letter."""
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    drawn = random.Random(seed)
    expected: dict[str, list[bytes]] = {}
    bad = 0
    files = [tmp_path / f"f{number}.{drawn.choice(['txt', 'json', 'csv', 'parquet', 'json.gz'])}" for number in range(6)]
    for file in files:
        name = file.name.split(".")[0]
        made = [b"%s-%d" % (name.encode(), number) for number in range(drawn.randrange(1, 400))]
        expected[name] = made
        if file.suffix == ".parquet":
            pq.write_table(pa.table({"value": [each.decode() for each in made]}), file, row_group_size=drawn.randrange(1, 100))
            continue
        if "json" in file.name:
            parts = [b'{"value": "%s"}' % each for each in made]
        else:
            parts = [each if file.suffix == ".txt" else drawn.choice([b"%s", b'"%s"', b"\n%s"]) % each for each in made]
        if file.suffix != ".txt":
            for _ in range(drawn.randrange(4)):
                bad += 1
                parts.insert(drawn.randrange(len(parts) + 1), b'{"value": ' if "json" in file.name else b"a,b")
        content = lines([b"value", *parts] if file.suffix == ".csv" else parts)
        file.write_bytes(gzip.compress(content) if file.suffix == ".gz" else content)

    def value_of(item: Any) -> bytes:
        found = item["value"] if isinstance(item, dict) else item
        return found if isinstance(found, bytes) else str(found).encode()

    done = 0
    runs = 0
    while runs < 500:
        runs += 1
        source = FileSource(*files)
        given: dict[str, Any] = {"transform": value_of, "dead_letters": DEAD, "batch_size": drawn.randrange(1, 200)}
        stats = quick(stub, source, batch_ms=20_000, **given).run(max_batches=drawn.randrange(1, 4))
        done += stats.records_in
        if stats.records_in == 0:
            break
    assert 1 < runs < 500
    found = values(stub)
    for name, made in expected.items():
        assert [each for each in found if each.startswith(name.encode() + b"-")] == made, (seed, name)
    assert len(found) == sum(map(len, expected.values()))
    assert (len(dead_letters(stub)), done) == (bad, len(found) + bad)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: FileSource(), "name at least one file"),
        (lambda: FileSource("a", "./a"), "a' is named twice"),
        (lambda: FileSource("a", format="xml"), "format='xml': one of 'lines', 'json', 'csv', 'parquet', or None"),
        (lambda: FileSource("a", key_field="k"), "key_field, value_field and header_fields are for records with fields"),
        (lambda: FileSource("a.csv", header_fields="k"), r"header_fields='k': a single name: write \[name\]"),
    ],
)
def test_mistakes(make: Callable[[], FileSource], reason: str) -> None:
    """They are refused by name when the source is made."""
    with pytest.raises(ConfigError, match=reason):
        make()


def test_files_that_cannot_be_read(stub: BrokerStub, tmp_path: Path) -> None:
    """Missing files, directories, pipes and missing columns are refused before anything is sent."""
    good, pipe, table = tmp_path / "a.txt", tmp_path / "pipe", tmp_path / "b.csv"
    good.write_bytes(b"x\n")
    table.write_bytes(b"a,b\n1,2\n")
    os.mkfifo(pipe)
    for bad, reason in ((tmp_path / "none", "cannot be read: No such file"), (tmp_path, "is no regular file")):
        with pytest.raises(JobFailed, match=reason):
            quick(stub, FileSource(good, bad)).run(timeout=5)
    assert values(stub) == []
    with pytest.raises(JobFailed, match=r"b\.csv: key_field='c': the first line has no such column, but a, b"):
        quick(stub, FileSource(table, key_field="c")).run()
