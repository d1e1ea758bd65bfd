"""SharePartition against a plain list with one entry for each record, with random fetches, acknowledgements, failures and leader moves."""

from __future__ import annotations

import random
from typing import Any

import pytest
from msgspec import Struct

from fencepost.broker_stub.share_partitions.acquisition import Wanted
from fencepost.broker_stub.share_partitions.coordinator.state_batches import combined
from fencepost.broker_stub.share_partitions.share_partition import SharePartition, Write
from fencepost.broker_stub.share_partitions.states import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    STATE_AFTER,
    Acknowledgement,
    Limits,
    RecordState,
    ShareRefused,
    StateBatch,
)
from tests.broker_stub.share.partition_calls import log

STEPS = 400
MEMBERS = ("a", "b", "c")
FREE, HELD = RecordState.AVAILABLE, RecordState.ACQUIRED


class Entry(Struct):
    """One record of the list. `is_new`: it was never delivered, as far as the leader knows."""

    state: RecordState = FREE
    member: str = ""
    count: int = 0
    until_ms: int = 0
    is_new: bool = True
    is_pending: bool = False


class World:
    """The list and the share partition, which get the same calls."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.limits = Limits(lock_ms=100, deliveries_max=self.random.choice((2, 3, 5)), locks_max=self.random.choice((8, 30, 1000)))
        self.log = log(*(self.random.randint(1, 6) for _ in range(30)))
        self.entries = [Entry() for _ in range(self.log[-1].last + 1)]
        self.now_ms = 0
        self.kept: tuple[StateBatch, ...] = ()
        self.kept_start = 0
        self.core = SharePartition(0)
        self.open: list[tuple[Write, list[tuple[int, Entry]]]] = []

    @property
    def start(self) -> int:
        return self.core.window.start_offset

    def step(self) -> None:
        acts = [self.fetch] * 5 + [self.acknowledge] * 6 + [self.settle] * 4 + [self.wait] * 2 + [self.release, self.move]
        self.random.choice(acts)()
        self.check()

    # What happens

    def fetch(self) -> None:
        window = self.core.window
        if not window.can_acquire(self.limits.locks_max):
            return
        offset = window.next_fetch_offset
        found = [batch for batch in self.log if batch.last >= offset][: self.random.randint(1, 5)]
        wanted = Wanted(
            self.random.choice(MEMBERS), self.random.randint(1, 12), self.random.randint(1, 8), exact=self.random.random() < 0.3
        )
        acquired = self.core.acquire(wanted, found, offset, limits=self.limits, now_ms=self.now_ms)
        if wanted.exact:
            assert sum(each.size for each in acquired) <= wanted.records_max
        for first, last, count in acquired:
            for at in range(first, last + 1):
                entry = self.entries[at]
                assert (entry.state, entry.is_pending) == (FREE, False), f"{at} is delivered twice"
                assert count == (1 if entry.is_new else entry.count + 1), f"{at} was delivered {entry.count} times"
                assert count <= self.limits.deliveries_max
                self.entries[at] = Entry(HELD, wanted.member, count, self.now_ms + self.limits.lock_ms, is_new=False)

    def acknowledge(self) -> None:
        end = self.core.window.end_offset
        first = self.random.randint(max(0, self.start - 2), end + 1)
        last = min(first + self.random.randint(0, 6), end + 1)
        if last < first:
            return
        each = self.random.random() < 0.5
        kinds = tuple(self.random.choice((GAP, ACCEPT, RELEASE, REJECT, RENEW)) for _ in range(last - first + 1 if each else 1))
        member = self.random.choice(MEMBERS)
        asked = Acknowledgement(first, last, kinds)
        about = list(range(max(first, self.start), last + 1))
        allowed = all(
            at < len(self.entries)
            and self.entries[at].state is HELD
            and self.entries[at].member == member
            and not self.entries[at].is_pending
            for at in about
        )
        if last < self.start:
            allowed = True
        try:
            write = self.core.acknowledge(member, [asked], limits=self.limits, now_ms=self.now_ms)
        except ShareRefused:
            assert not allowed, f"{asked} of {member} is refused"
            for at in about:  # renewals count in spite of a later fault
                if at < len(self.entries) and self.entries[at].state is HELD:
                    self.entries[at].until_ms = self.until(at)
            return
        assert allowed, f"{asked} of {member} is taken"
        before = []
        for at in about:
            kind = asked.type_of(at)
            if kind == RENEW:
                self.entries[at].until_ms = self.now_ms + self.limits.lock_ms
            else:
                before.append((at, self.entries[at]))
                self.entries[at] = self.after(self.entries[at], STATE_AFTER[kind])
        self.begun(write, before)

    def until(self, offset: int) -> int:
        batch = self.core.window.floor(offset)
        assert batch is not None
        found = next(part.locked_until_ms for part in batch.parts if part.first <= offset <= part.last)
        assert found is not None
        return found

    def release(self) -> None:
        member = self.random.choice(MEMBERS)
        write = self.core.release(member, limits=self.limits)
        before = []
        for at, entry in enumerate(self.entries):
            if entry.state is HELD and entry.member == member and not entry.is_pending:
                before.append((at, entry))
                self.entries[at] = self.after(entry, FREE)
        self.begun(write, before)

    def begun(self, write: Write, before: list[tuple[int, Entry]]) -> None:
        told = {at: (state, count) for first, last, state, count in write.batches for at in range(first, last + 1)}
        assert told == {at: (self.entries[at].state, self.entries[at].count) for at, _ in before}
        if before:
            self.open.append((write, before))

    def after(self, entry: Entry, state: RecordState) -> Entry:
        if state is FREE and entry.count >= self.limits.deliveries_max:
            state = RecordState.ARCHIVED
        return Entry(state, "", entry.count, entry.until_ms, is_new=False, is_pending=True)

    def settle(self) -> None:
        """The share coordinator keeps a change, or fails."""
        if not self.open:
            return
        write, before = self.open.pop(self.random.randrange(len(self.open)))
        committed = self.random.random() < 0.8
        if committed:
            self.keep(write)
        self.core.complete(write, committed=committed, now_ms=self.now_ms)
        for at, entry in before:
            if committed:
                self.entries[at].is_pending = False
            elif entry.until_ms <= self.now_ms:
                state = RecordState.ARCHIVED if entry.count >= self.limits.deliveries_max else FREE
                self.entries[at] = Entry(state, "", entry.count, is_new=False)
            else:
                self.entries[at] = entry

    def keep(self, write: Write) -> None:
        self.kept_start = max(self.kept_start, write.start_offset)
        self.kept = combined(self.kept, write.batches, self.kept_start)

    def wait(self) -> None:
        self.now_ms += self.random.randint(1, 80)
        write = self.core.expire(limits=self.limits, now_ms=self.now_ms)
        told = {at for first, last, _, _ in write.batches for at in range(first, last + 1)}
        over = {at for at, each in enumerate(self.entries) if each.state is HELD and not each.is_pending and each.until_ms <= self.now_ms}
        assert told == over
        self.keep(write)
        for at in over:
            entry = self.entries[at]
            state = RecordState.ARCHIVED if entry.count >= self.limits.deliveries_max else FREE
            self.entries[at] = Entry(state, "", entry.count, is_new=False)
        self.core.complete(write, committed=True, now_ms=self.now_ms)

    def move(self) -> None:
        """Another broker leads, and knows only what was kept."""
        if self.random.random() < 0.5:
            return
        self.open = []
        self.core = SharePartition(self.kept_start, self.kept)
        known = {at: (RecordState(state), count) for first, last, state, count in self.kept for at in range(first, last + 1)}
        for at in range(len(self.entries)):
            if at < self.kept_start:
                self.entries[at] = Entry(RecordState.ARCHIVED, is_new=False)
            elif at in known:
                state, count = known[at]
                self.entries[at] = Entry(state, "", count, is_new=False)
            else:
                self.entries[at] = Entry()

    # What holds

    def check(self) -> None:
        window = self.core.window
        done = [each.state.is_terminal and not each.is_pending for each in self.entries]
        first = next((at for at, each in enumerate(done) if not each), len(done))
        assert window.start_offset <= first
        free = next((at for at, each in enumerate(self.entries) if each.state is FREE and not each.is_pending), len(self.entries))
        if free < len(self.entries):
            assert window.next_fetch_offset <= free
            if not window.has_gap:
                assert window.next_fetch_offset == free
        assert window.count <= max(self.limits.locks_max + 12, len(self.kept) and 10**6)
        held = {at: (part.member, part.locked_until_ms) for at, part in self.parts() if part.state is HELD}
        assert held == {at: (each.member, each.until_ms) for at, each in enumerate(self.entries) if each.state is HELD}

    def parts(self) -> list[tuple[int, Any]]:
        return [(at, part) for batch in self.core.window.batches for part in batch.parts for at in range(part.first, part.last + 1)]


@pytest.mark.parametrize("seed", range(60))
def test_it_is_a_plain_list(seed: int) -> None:
    """No record is delivered to two members at once, and every one until it is done. The seed is the test's parameter."""
    world = World(seed)
    for number in range(STEPS):
        try:
            world.step()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, step {number}: {error}") from error
