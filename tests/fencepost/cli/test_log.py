"""`fencepost log` on files made by hand: what it prints, its exit codes, and damaged files."""

from __future__ import annotations

import random
from pathlib import Path

from fencepost.producer.wire.records import ControlType, encode_batch, encode_marker
from tests.fencepost.cli.shell import invoke

NAME = "00000000000000000000"


def _log(producer_id: int = 7) -> bytes:
    """Two records of a transaction, and its marker."""
    data = bytearray(
        encode_batch([(5, b"k\x1b", b"v"), (6, None, None)], producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)
    )
    marker = bytearray(encode_marker(ControlType.ABORT, producer_id=producer_id, producer_epoch=0, coordinator_epoch=3, timestamp=8))
    marker[:8] = (2).to_bytes(8)
    return bytes(data + marker)


def test_json(tmp_path: Path) -> None:
    """Each batch, record and marker is one object."""
    path = tmp_path / f"{NAME}.log"
    path.write_bytes(_log())
    first, one, two, second, marker = invoke("log", "dump", "--records", "--json", path).objects
    assert (first["baseOffset"], first["lastOffset"], first["isvalid"], first["deleteHorizonMs"]) == (0, 1, True, None)
    assert (one["key"], one["payload"], one["CreateTime"], one["sequence"]) == ("k\x1b", "v", 5, 0)
    assert (two["keySize"], two["valueSize"]) == (-1, -1)
    assert (second["position"], second["isControl"]) == (first["size"], True)
    assert (marker["endTxnMarker"], marker["coordinatorEpoch"]) == ("ABORT", 3)


def test_exit_codes(tmp_path: Path) -> None:
    """A torn tail is named after the whole batches (1). A missing file and an unknown name are the caller's mistakes (2)."""
    path = tmp_path / f"{NAME}.log"
    path.write_bytes(_log()[:-1])
    torn = invoke("log", "dump", path)
    assert torn.code == 1
    assert torn.out.count("baseOffset") == 1
    assert "bytes, 77 are left in the file" in torn.err
    assert invoke("log", "dump", tmp_path / "1.log").code == 2
    assert invoke("log", "dump", tmp_path / "notes.txt").code == 2
    assert invoke("log", "verify", tmp_path / "no").code == 2
    empty = tmp_path / "empty"
    empty.mkdir()
    assert invoke("log", "verify", empty).code == 2


def test_random_damage(tmp_path: Path) -> None:
    """A damaged log ends `dump` and `verify` with an exit code, never with a traceback."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    path = tmp_path / f"{NAME}.log"
    for _ in range(30):
        data = bytearray(_log())
        for _ in range(dice.randrange(1, 4)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        path.write_bytes(data[: dice.randrange(len(data) + 1)])
        assert invoke("log", "dump", "--records", path).code in (0, 1)
        assert invoke("log", "verify", tmp_path).code in (0, 1)


def test_segments_overlap(tmp_path: Path) -> None:
    """Two segments with the same offsets, and transactions of two producers that begin at one offset, are findings."""
    (tmp_path / f"{NAME}.log").write_bytes(_log())
    (tmp_path / f"{1:020}.log").write_bytes(_log(8))
    ran = invoke("log", "verify", tmp_path)
    assert ran.code == 1
    assert "position 0: the segment begins at offset 1, and the one before it ends at 2" in ran.out
    assert "segments overlap, so producer snapshots" in ran.out


def test_an_index_without_its_log(tmp_path: Path) -> None:
    """The first or the last segment is missing, and its index files are there."""
    (tmp_path / f"{NAME}.log").write_bytes(_log())
    (tmp_path / f"{100:020}.timeindex").write_bytes(b"")
    ran = invoke("log", "verify", tmp_path)
    assert ran.code == 1
    assert f"{100:020}.timeindex, position 0: there is no {100:020}.log for it. Kafka deletes the file" in ran.out
