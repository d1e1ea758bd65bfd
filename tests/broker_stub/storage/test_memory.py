"""Memory storage: bytes in, the same bytes out, and not many more than that in memory."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.broker_stub.storage.memory import TAIL_BYTES_MAX, WHOLE_BYTES_MIN, MemoryDirectory, MemoryFile

sizes = st.sampled_from([1, 70, 5000, WHOLE_BYTES_MIN - 1, WHOLE_BYTES_MIN, 3 * WHOLE_BYTES_MIN, TAIL_BYTES_MAX + 1])
reads = st.tuples(st.integers(0, 300_000), st.integers(0, 200_000))


@given(st.lists(st.one_of(sizes, st.tuples(st.just("truncate"), st.integers(0, 300_000)), reads), max_size=20))
def test_it_is_one_run_of_bytes(plan: list[int | tuple[str, int] | tuple[int, int]]) -> None:
    """Appends, reads anywhere and truncations give what one bytearray gives, at every boundary between its pieces."""
    storage, model = MemoryFile(), bytearray()
    for number, action in enumerate(plan):
        if isinstance(action, int):
            data = bytes([number + 1]) * action
            storage.append(data)
            model += data
        elif action[0] == "truncate":
            storage.truncate(action[1])
            del model[action[1] :]
        else:
            position, size = action
            assert bytes(storage.read(int(position), size)) == bytes(model[int(position) : int(position) + size])
        assert storage.size == len(model)
    assert bytes(storage.read(0, len(model) + 1)) == bytes(model)
    assert len(storage.read(len(model), 10)) == 0


def test_a_large_append_is_kept_and_read_without_a_copy() -> None:
    """One large batch costs its own bytes once: it is stored as the object it was, read whole as that object, in part as a view of it."""
    storage = MemoryFile()
    batch = bytes(WHOLE_BYTES_MIN)
    storage.append(b"small")
    storage.append(batch)
    assert storage.read(5, len(batch)) is batch
    part = storage.read(6, 100)
    assert isinstance(part, memoryview)
    assert part.obj is batch
    assert part.readonly


@pytest.mark.parametrize(("appends", "size", "copied"), [(1, 16_383, True), (1, 16_384, False), (63, 1024, True), (64, 1024, False)])
def test_a_read_copies_less_than_64_kib(appends: int, size: int, copied: bool) -> None:
    """A batch of a producer's default batch_bytes is read without a copy, and small batches are once there are 64 KiB of them."""
    storage = MemoryFile()
    for _ in range(appends):
        storage.append(bytes(size))
    read = storage.read(0, size - 1)
    assert isinstance(read, bytes) == copied


def test_what_was_read_outlives_what_comes_after() -> None:
    """A reader keeps its bytes, also after later appends and truncations."""
    storage = MemoryFile()
    storage.append(b"a" * 100)
    storage.append(b"b" * WHOLE_BYTES_MIN)
    storage.append(b"c" * 100)
    parts = [storage.read(0, 100), storage.read(90, 20), storage.read(200, 50), storage.read(WHOLE_BYTES_MIN + 100, 50)]
    before = [bytes(part) for part in parts]
    storage.append(b"d" * 100)
    storage.truncate(50)
    storage.append(b"e" * 100_000)
    assert [bytes(part) for part in parts] == before


@pytest.mark.parametrize("size", [180, 1300, 17_000, 70_000, 1_000_000])
def test_a_stored_byte_costs_about_a_byte(size: int) -> None:
    """For all sizes of batches, memory exceeds the stored bytes by at most a tenth."""
    storage = MemoryFile()
    tracemalloc.start()
    try:
        for _ in range(4_000_000 // size):
            storage.append(b"x" * size)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used < storage.size * 1.1


def test_replicas_of_many_logs_share_what_no_longer_changes() -> None:
    """Three replicas of 200 logs get small batches; each follower gets them much later than its leader. A stored byte costs at most 1.5
    bytes, and a log that is removed frees its own."""
    root, partitions, size = MemoryDirectory(), range(200), 4_000
    tracemalloc.start()
    try:
        for node in (1, 2, 3):
            for turn in range(100):
                for number in partitions:
                    batch = (b"%d %d " % (turn, number)).ljust(size, b"x")
                    root.directory(f"broker-{node}").directory(f"t-{number}").open("log").append(batch)
        used, _ = tracemalloc.get_traced_memory()
        assert used < len(partitions) * 100 * size * 1.5
        for node in (1, 2, 3):
            for number in partitions[:100]:
                root.directory(f"broker-{node}").remove_directory(f"t-{number}")
        left, _ = tracemalloc.get_traced_memory()
        assert left < used * 0.55
    finally:
        tracemalloc.stop()
