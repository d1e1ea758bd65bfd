"""`fencepost log` beside Kafka's kafka-dump-log, on files that Kafka wrote: the same fields, and findings only for damaged files."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from fencepost.producer import Producer
from fencepost.txn.producer import TransactionalProducer
from tests.conformance.fixtures import require_kafka
from tests.conformance.java_tools import JavaTools, OneByOne
from tests.conformance.kafka import KafkaCluster
from tests.conformance.survival.reader import Admin
from tests.fencepost.cli.shell import invoke
from tests.once import once_is_enough

pytestmark = [pytest.mark.timeout(300), once_is_enough("asks Kafka itself")]

TOPIC: Final = "t"
RECORDS: Final = 400
SEGMENT_BYTES: Final = 1 << 20


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    """Kafka, stopped cleanly, with some segments: plain, compressed and transactional batches, COMMIT and ABORT markers."""
    require_kafka()
    with KafkaCluster() as kafka:
        Admin(kafka.bootstrap).create(TOPIC, config={"segment.bytes": str(SEGMENT_BYTES)})
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            with Producer(bootstrap_servers=kafka.bootstrap, compression_type=codec) as plain:
                for number in range(RECORDS):
                    value = b"%d" % number * (700 if codec == "none" else 1)
                    plain.send(TOPIC, value, key=b"k\x1b", headers=[("h", b"1")], partition=0)
                    if number % 10 == 9:
                        plain.flush()
        with TransactionalProducer(bootstrap_servers=kafka.bootstrap, transactional_id="x") as transactional:
            for number in range(6):
                tx = transactional.begin()
                for _ in range(20):
                    tx.send(TOPIC, bytes(20_000), partition=0)
                tx.abort() if number % 2 else tx.commit()
        kafka.stop_broker(1)
        yield kafka


@pytest.fixture(scope="module")
def data(cluster: KafkaCluster) -> Path:
    return cluster.brokers[1].directory / "data" / f"{TOPIC}-0"


SUFFIXES: Final = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


def _dumped(tools: JavaTools | OneByOne, files: list[Path], *options: str) -> dict[Path, list[str]]:
    """What Kafka's tool prints of each file."""
    names = ",".join(map(str, files))
    _, *parts = tools.run("org.apache.kafka.tools.DumpLogSegments", *options, "--files", names).split("Dumping ")
    shown = {Path(name): lines for name, *lines in map(str.splitlines, parts)}
    assert list(shown) == files
    return shown


@pytest.fixture(scope="module")
def theirs(java_tools: JavaTools | OneByOne, data: Path) -> dict[Path, list[str]]:
    """Every file of the partition, as Kafka's tool shows it."""
    return _dumped(java_tools, sorted(path for path in data.iterdir() if path.suffix in SUFFIXES))


FIELD: Final = re.compile(r"(\w+): (\[[^\]]*\]|\S+)")


def _fields(line: str) -> dict[str, str]:
    """The fields of a line of kafka-dump-log, as `log dump` spells them."""
    line = re.sub(r"OptionalLong\[(\d+)\]", r"\1", line.replace("OptionalLong.empty", "null"))
    return dict(FIELD.findall(line))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_dump(theirs: dict[Path, list[str]], suffix: str) -> None:
    """The entries of every file have the values that Kafka's tool prints."""
    files = [path for path in theirs if path.suffix == suffix]
    assert files
    for path in files:
        ran = invoke("log", "dump", path)
        assert (ran.code, ran.err) == (0, "")
        wanted = [_fields(line) for line in theirs[path] if re.match(r"(baseOffset|offset|timestamp|version|producerId):", line)]
        empty = {"offset": str(int(path.stem)), "position": "0"}, {"timestamp": "0", "offset": str(int(path.stem))}
        wanted = [each for each in wanted if path.stat().st_size or each not in empty]
        assert [_fields(line) for line in ran.out.splitlines()[1:]] == wanted


def test_records(java_tools: JavaTools | OneByOne, data: Path) -> None:
    """Records and markers are those of Kafka's tool; control characters are escaped."""
    for path, theirs in _dumped(java_tools, sorted(data.glob("*.log")), "--print-data-log").items():
        ran = invoke("log", "dump", "--records", path)
        compared = ("offset", "CreateTime", "keySize", "valueSize", "sequence", "endTxnMarker", "coordinatorEpoch")
        both = [
            [{name: fields[name] for name in compared if name in fields} for fields in map(_fields, found)]
            for found in ([line for line in text if line.startswith("| ")] for text in (ran.out.splitlines(), theirs))
        ]
        for line in both[1]:
            if "endTxnMarker" in line:
                line["endTxnMarker"] = line["endTxnMarker"].strip(",")
                line.pop("sequence", None)
        assert both[0] == both[1]
        assert "\x1b" not in ran.out


def test_verify_finds_nothing(data: Path) -> None:
    """Kafka's own files hold together, those of its internal topics too."""
    ran = invoke("log", "verify", data.parent)
    assert (ran.code, ran.err) == (0, ""), ran.out


def _flip(path: Path, position: int) -> None:
    damaged = bytearray(path.read_bytes())
    damaged[position] ^= 1
    path.write_bytes(damaged)


DAMAGES: Final[dict[str, tuple[str, Callable[[Path], object], str]]] = {
    "a flipped byte in a record": (".log", lambda path: _flip(path, 200), "position 0: the checksum of the batch at offset 0"),
    "a torn tail": (".log", lambda path: path.write_bytes(path.read_bytes()[:-5]), "are left in the file"),
    "a wrong offset index entry": (".index", lambda path: _flip(path, 7), "position 0: the entry says that the batch at"),
    "a wrong time index entry": (".timeindex", lambda path: _flip(path, 7), "position 0: the entry says that"),
    "a torn index": (".index", lambda path: path.write_bytes(path.read_bytes()[:-1]), "7 bytes where an entry has 8"),
    "a wrong marker": (".txnindex", lambda path: _flip(path, 9), "position 0: entry 0 is"),
    "a missing snapshot": (".snapshot", Path.unlink, "position 0: the file is missing"),
    "a damaged snapshot": (".snapshot", lambda path: _flip(path, 20), "position 0: the checksum does not match"),
    "wrong leader epochs": ("checkpoint", lambda path: path.write_bytes(b"0\n1\n5 0\n"), "leader-epoch-checkpoint says 5"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_verify_names_damage(data: Path, tmp_path: Path, name: str) -> None:
    """Each damage is a finding with its file and position."""
    pattern, damage, words = DAMAGES[name]
    copy = shutil.copytree(data, tmp_path / data.name)
    path = next(each for each in sorted(copy.glob(f"*{pattern}")) if each.stat().st_size)
    damage(path)
    ran = invoke("log", "verify", copy)
    assert ran.code == 1
    assert words in ran.out
