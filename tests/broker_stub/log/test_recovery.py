"""A log that is read again: after a clean shutdown, after a kill, and after a loss of power at any write."""

from __future__ import annotations

import copy
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.broker_stub.log import LogConfig, PartitionLog
from fencepost.broker_stub.log.errors import CorruptFile
from fencepost.broker_stub.storage.directory import Directory
from fencepost.broker_stub.storage.disk import DiskDirectory
from fencepost.broker_stub.storage.memory import MemoryDirectory
from fencepost.broker_stub.storage.volatile import PowerLost, VolatileDirectory
from fencepost.producer.wire.codes import ErrorCode
from tests.broker_stub.log.log_tools import Again, SetClock, coordinate, data, marker, produce
from tests.broker_stub.log.random_history import History
from tests.drawn import drawn

SEEDS = int(os.environ.get("FENCEPOST_POWER_LOSSES", "400")) // 4
"""Of each kind; `make power-losses` takes more."""


def state(log: PartitionLog) -> dict[str, object]:
    """What a restart must not change."""
    return {
        "batches": [(header.base_offset, bytes(batch)) for header, batch in log.batches()],
        "segments": [segment.base_offset for segment in log.segments],
        "start": log.log_start_offset,
        "end": log.log_end_offset,
        "epochs": [(epoch, start) for epoch, start in log.epochs if start < log.log_end_offset],  # as Kafka, it forgets one without records
        "aborted": log.aborted_transactions,
        "producers": {each.producer_id: each for each in log.active_producers()},
    }


def directory_in(path: Path, kind: str) -> Directory:
    return MemoryDirectory() if kind == "memory" else DiskDirectory(path, later=lambda _, run: run())


@drawn(4)
@pytest.mark.parametrize("clean_shutdown", [True, False], ids=["clean", "killed"])
@pytest.mark.parametrize("kind", ["memory", "disk"])
@pytest.mark.parametrize("compacted", [False, True], ids=["deleted", "compacted"])
def test_a_restart_changes_nothing(tmp_path: Path, kind: str, clean_shutdown: bool, compacted: bool) -> None:
    """In memory and on disk, with truncations, retention or compaction before."""
    for seed in range(12):
        directory = directory_in(tmp_path / str(seed), kind)
        try:
            history = History(random.Random(f"restart {seed}"), directory, compacted=compacted)
            for _ in range(6):
                for _ in range(25):
                    history.act()
                history.checkpoint()
                before = state(history.log)
                history.load(clean_shutdown=clean_shutdown)
                assert state(history.log) == before, f"seed {seed}"
                history.check()
                history.go_on()
        finally:
            directory.close()


@pytest.mark.parametrize("compacted", [False, True], ids=["deleted", "compacted"])
@pytest.mark.parametrize("flush_messages", [1, 1 << 40], ids=["every record flushed", "never flushed"])
def test_a_loss_of_power_at_any_write(flush_messages: int, compacted: bool) -> None:
    """What was flushed is there, what is there was written, and nothing is half there: also if the power fails during the recovery."""
    base = random.SystemRandom().randrange(1 << 32)
    for seed in range(base, base + SEEDS):
        try:
            lose_power_often(seed, flush_messages=flush_messages, compacted=compacted)
        except Exception as error:
            raise AssertionError(f"seed {seed}, flush_messages={flush_messages}, compacted={compacted}") from error


def lose_power_often(seed: int, *, flush_messages: int, compacted: bool) -> None:
    rng = random.Random(f"power {seed}")
    directory = VolatileDirectory()
    history = History(rng, directory, compacted=compacted, flush_messages=flush_messages)
    directory.sync()
    for _ in range(4):
        directory.power.trip_at = directory.power.steps + rng.randrange(1, 150)
        try:
            while True:
                history.act()
        except PowerLost:
            pass
        while True:
            directory.power.trip_at = None
            directory.lose_power(rng)
            if rng.random() < 0.3:
                directory.power.trip_at = directory.power.steps + rng.randrange(1, 10)
            try:
                history.load(clean_shutdown=False)
                break
            except PowerLost:
                pass
        directory.power.trip_at = None
        history.check()
        history.go_on()


# What is damaged


class Site:
    """A log of three segments on disk: (0..3), (4..7), (8..9)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = LogConfig(segment_bytes=300)
        self.directory = DiskDirectory(path, later=lambda _, run: run())
        self.log = PartitionLog(clock_ms=SetClock(), config=self.config, directory=self.directory)
        self.log.lead(0)
        for sequence in range(10):
            assert produce(self.log, data(7, 0, sequence)) == sequence
        assert [segment.base_offset for segment in self.log.segments] == [0, 4, 8]

    def load(self, *, recovery_point: int | None = 8) -> PartitionLog:
        if recovery_point is None:
            self.log.close()
        self.directory.close()
        self.directory = DiskDirectory(self.path, later=lambda _, run: run())
        return PartitionLog.load(self.directory, clock_ms=SetClock(), config=self.config, high_watermark=10, recovery_point=recovery_point)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path / "t-0")
    yield made
    made.directory.close()


def test_a_torn_tail_is_cut(site: Site) -> None:
    """After an unclean stop the log ends before the batch that is there in part."""
    file = site.path / f"{8:020}.log"
    file.write_bytes(file.read_bytes()[:-1])
    log = site.load()
    assert (log.log_end_offset, log.high_watermark) == (9, 9)
    assert produce(log, data(7, 0, 9)) == 9
    assert produce(log, data(7, 0, 8)) == Again(8)


def test_a_damaged_batch_ends_the_log(site: Site) -> None:
    """Later segments are deleted, as in Kafka: the recovery point says from where on to look."""
    file = site.path / f"{4:020}.log"
    damaged = bytearray(file.read_bytes())
    damaged[len(damaged) // 2 + 30] ^= 1
    file.write_bytes(damaged)
    log = site.load(recovery_point=3)
    assert log.log_end_offset == 6
    assert [segment.base_offset for segment in log.segments] == [0, 4]
    assert not (site.path / f"{8:020}.log").exists()


@pytest.mark.parametrize("recovery_point", [8, None], ids=["killed", "clean"])
@pytest.mark.parametrize("batch", [0, 1], ids=["the last but one", "the last"])
def test_an_offset_that_no_segment_can_have_ends_the_log(site: Site, batch: int, recovery_point: int | None) -> None:
    """The checksum of a batch does not cover its offset, and an index has four bytes for it. A start used to fail with an OverflowError."""
    site.config = LogConfig(segment_bytes=300, index_interval_bytes=0)
    site.log.close()
    (site.path / f"{8:020}.index").unlink()
    file = site.path / f"{8:020}.log"
    damaged = bytearray(file.read_bytes())
    damaged[len(damaged) // 2 * batch] ^= 1  # 2^56 more
    file.write_bytes(damaged)
    log = site.load(recovery_point=recovery_point)
    assert log.log_end_offset == 8 + batch
    assert file.stat().st_size == len(damaged) // 2 * batch
    assert produce(log, data(7, 0, 8 + batch)) == 8 + batch


def test_what_the_recovery_point_passed_is_not_read_again(site: Site) -> None:
    """Kafka trusts what was flushed, also after an unclean stop."""
    file = site.path / f"{4:020}.log"
    damaged = bytearray(file.read_bytes())
    damaged[-1] ^= 1
    file.write_bytes(damaged)
    assert site.load(recovery_point=8).log_end_offset == 10


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
@pytest.mark.parametrize("damage", [None, b"\0\0\0", b"\xff" * 24], ids=["missing", "torn", "nonsense"])
@pytest.mark.parametrize("base", [0, 8], ids=["closed", "active"])
def test_an_index_is_made_anew(site: Site, suffix: str, damage: bytes | None, base: int) -> None:
    """Also after a clean stop: lookups find what they found before."""
    site.log.close()
    file = site.path / f"{base:020}.{suffix}"
    before = file.read_bytes()
    if damage is None:
        file.unlink()
    else:
        file.write_bytes(damage)
    log = site.load(recovery_point=None)
    assert [bytes(log.read(offset, max_bytes=1).records)[7] for offset in range(10)] == [*range(10)]
    log.close()
    assert file.read_bytes() == before


def test_an_index_of_another_log_is_made_anew(site: Site) -> None:
    """Its positions lie beyond the segment."""
    site.log.close()
    (site.path / f"{8:020}.index").write_bytes((5).to_bytes(4, "big") + (100_000).to_bytes(4, "big"))
    assert bytes(site.load(recovery_point=None).read(9, max_bytes=1).records)[7] == 9


@pytest.mark.parametrize("damage", [None, b"", b"nonsense, but long enough to be a snapshot"], ids=["missing", "empty", "nonsense"])
def test_an_older_snapshot_does(site: Site, damage: bytes | None) -> None:
    """Producers follow from an older snapshot, or from the batches alone."""
    site.log.close()
    for file in site.path.glob("*.snapshot"):
        if damage is None:
            file.unlink()
        else:
            file.write_bytes(damage)
    log = site.load(recovery_point=None)
    assert produce(log, data(7, 0, 9)) == Again(9)
    assert produce(log, data(7, 0, 11)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_without_leader_epochs_they_follow_from_the_batches(site: Site) -> None:
    """A damaged checkpoint is written again."""
    (site.path / "leader-epoch-checkpoint").write_text("0\n1\nnonsense\n")
    log = site.load()
    assert log.epochs == [(0, 0)]


def test_producers_outlive_the_segments_before_one_that_lost_its_batches() -> None:
    """A loss of power leaves a segment without batches and its snapshot behind. Later retention deletes the segments before it, and the
    broker is killed: it still knows the producers that wrote to these."""
    directory, config = MemoryDirectory(), LogConfig(segment_bytes=100, retention_bytes=1)
    log = PartitionLog(clock_ms=SetClock(), directory=directory, config=config)
    for sequence in range(2):
        produce(log, data(7, 0, sequence))
    assert [segment.base_offset for segment in log.segments] == [0, 1]
    directory.open("00000000000000000001.log").truncate(0)
    directory.remove("00000000000000000001.snapshot")
    log = PartitionLog.load(directory, clock_ms=SetClock(), config=config, recovery_point=0)
    produce(log, data(8, 0, 0))
    assert log.delete_old_segments() == 1
    log = PartitionLog.load(directory, clock_ms=SetClock(), config=config, recovery_point=0, log_start_offset=1)
    assert produce(log, data(7, 0, 0)) == Again(0)
    assert log.log_end_offset == 2


@pytest.mark.parametrize("gone", [(), ("00000000000000000000.index",)], ids=["alone", "with an index"])
def test_leader_epochs_follow_from_every_segment(gone: tuple[str, ...]) -> None:
    """Also where only some segments are scanned: those without an index, and the active one."""
    directory, config = MemoryDirectory(), LogConfig(segment_bytes=100)
    log = PartitionLog(clock_ms=SetClock(), directory=directory, config=config)
    for epoch in range(4):
        produce(log, data(-1, -1, -1), leader_epoch=epoch)
    assert len(log.segments) == 4
    before = log.epochs
    for name in ("leader-epoch-checkpoint", *gone):
        directory.remove(name)
    log = PartitionLog.load(directory, clock_ms=SetClock(), config=config, recovery_point=3)
    assert log.epochs == before == [(0, 0), (1, 1), (2, 2), (3, 3)]


@pytest.mark.parametrize("checkpoint", [0, 2])
def test_leader_epochs_before_a_log_start_that_was_forgotten(checkpoint: int) -> None:
    """The log's start rose, and the epochs before it were removed. The broker is killed before it writes the log's start to its checkpoint:
    the log begins where it began before, and knows where each epoch ended."""
    directory = MemoryDirectory()
    log = PartitionLog(clock_ms=SetClock(), directory=directory)
    for epoch, count in ((0, 1), (1, 3), (4, 1)):
        produce(log, data(-1, -1, -1, count), leader_epoch=epoch)
    before = log.epochs
    assert before == [(0, 0), (1, 1), (4, 4)]
    log.advance_log_start(2)
    assert log.epochs == [(1, 2), (4, 4)]
    for _ in range(2):
        log = PartitionLog.load(
            directory, clock_ms=SetClock(), config=LogConfig(), log_start_offset=checkpoint, recovery_point=0 if checkpoint else 5
        )
        assert log.epochs == (before if checkpoint == 0 else [(1, 2), (4, 4)])
        assert log.end_offset_for(0) == ((0, 1) if checkpoint == 0 else (0, 2))


def test_what_is_flushed_is_not_lost() -> None:
    """flush.messages=2: at most one record is lost with the power."""
    directory = VolatileDirectory()
    config = LogConfig(flush_messages=2)
    log = PartitionLog(clock_ms=SetClock(), config=config, directory=directory)
    log.lead(0)
    for sequence in range(5):
        produce(log, data(7, 0, sequence))
    assert log.recovery_point == 4
    ends = set()
    for seed in range(50):
        found = copy.deepcopy(directory)
        found.lose_power(random.Random(seed))
        ends.add(PartitionLog.load(found, clock_ms=SetClock(), config=config, recovery_point=0).log_end_offset)
    assert ends == {4, 5}


def test_a_deletion_and_a_compaction_that_were_interrupted(site: Site) -> None:
    """Files that Kafka leaves behind: what was to be deleted goes, what was not finished goes, and what was finished takes its place."""
    site.log.close()
    first = site.path / f"{0:020}.log"
    (site.path / f"{99:020}.log.deleted").write_bytes(b"x")
    (site.path / f"{4:020}.log.cleaned").write_bytes(b"x")
    (site.path / f"{0:020}.log.swap").write_bytes(first.read_bytes())
    assert site.load().log_end_offset == 10
    assert not [name for name in site.directory.names() if name.endswith((".deleted", ".cleaned", ".swap"))]


def test_a_directory_without_segments_is_an_empty_log(site: Site) -> None:
    """A process that was killed before its first segment, or between two."""
    for file in site.path.glob("*.log"):
        file.unlink()
    log = site.load()
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    assert produce(log, data(7, 0, 0)) == 0


@pytest.mark.parametrize(
    "tail",
    [b"", b"\0" * 100, b"\xff" * 100, bytes(8) + (-12).to_bytes(4, "big", signed=True) + bytes(100)],
    ids=["half a batch", "zeros", "nonsense", "a negative length"],
)
def test_a_clean_log_that_ends_badly_is_scanned(site: Site, tail: bytes) -> None:
    """The mark of a clean shutdown may be older than a loss of power."""
    site.log.close()
    file = site.path / f"{8:020}.log"
    whole = file.read_bytes()
    file.write_bytes(whole + (tail or whole[: len(whole) // 4]))
    assert site.load(recovery_point=None).log_end_offset == 10
    assert file.read_bytes() == whole


def test_other_files_are_left_alone(site: Site) -> None:
    """Loading a log changes only the files that have a segment's names."""
    for name in ("notes.log", "x.snapshot", f"{1:030}.log", "README"):
        (site.path / name).write_bytes(b"mine")
    assert site.load().log_end_offset == 10
    assert (site.path / "notes.log").read_bytes() == b"mine"


def test_a_name_beyond_the_last_offset_is_named(site: Site) -> None:
    """The log is not loaded: an append would follow an offset that no record can have."""
    (site.path / "99999999999999999999.log").write_bytes(b"")
    with pytest.raises(CorruptFile, match=r"'99999999999999999999\.log' does not start with an offset: 9223372036854775807 is the largest"):
        site.load()


def test_a_start_leaves_the_time_of_the_last_change(site: Site) -> None:
    """Retention of records without timestamps goes by it."""
    site.log.close()
    file = site.path / f"{0:020}.log"
    os.utime(file, ns=(10**18, 10**18))
    assert site.load(recovery_point=None).segments[0].modified_ms == 10**12


def test_aborted_transactions_are_read_from_their_index(site: Site) -> None:
    """After a recovery they are as before."""
    assert produce(site.log, data(8, 0, 0, transactional=True)) == 10
    assert coordinate(site.log, marker(8, 0, commit=False)) == 11
    before = site.log.aborted_transactions
    assert [(txn.first_offset, txn.last_offset) for txn in before] == [(10, 11)]
    assert site.load(recovery_point=None).aborted_transactions == before
