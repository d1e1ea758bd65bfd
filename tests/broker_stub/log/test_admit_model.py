"""`admit`, and the state around it, against a model that keeps the whole history.

A failing example is printed with the steps that lead to it and with the decorator that replays it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from msgspec import Struct

from fencepost.broker_stub.log.producer_append_info import BatchRefused, Candidate, Duplicate, Marker, Origin
from fencepost.broker_stub.log.producer_state_manager import ProducerStateManager
from tests.broker_stub.log.admit_model import Model
from tests.broker_stub.log.log_tools import NOW, Again, Answer

EXPIRATION_MS = 100
FIRST_SEQUENCES = (0, 2**31 - 1, 2**31 - 3, 2**31 - 12, 4711)


class Step(Struct, frozen=True):
    """What happens next, told relative to what has happened: the test works out the numbers."""

    kind: str
    pid: int
    back: int  # how many batches ago
    count: int
    transactional: bool
    origin: Origin
    tv: int
    first: int


DATA_KINDS = [
    *["next"] * 6,
    *["resend"] * 3,
    *["spanning", "shorter", "longer", "same_end", "gap", "lower", "anywhere"],
    *["new_epoch", "new_epoch_past_0", "old_epoch", "resend_old_epoch"],
]
MARKER_KINDS = ["commit", "commit", "abort", "abort", "abort_bumped", "commit_bumped", "stale_marker", "old_coordinator", "new_coordinator"]

steps = st.lists(
    st.builds(
        Step,
        kind=st.sampled_from([*DATA_KINDS * 2, *MARKER_KINDS, "expire", "time"]),
        pid=st.sampled_from([1, 1, 1, 2]),
        back=st.integers(0, 7),
        count=st.integers(1, 5),
        transactional=st.sampled_from([False, False, True]),
        origin=st.sampled_from([Origin.CLIENT, Origin.CLIENT, Origin.CLIENT, Origin.CLIENT, Origin.COORDINATOR]),
        tv=st.sampled_from([0, 1, 2]),
        first=st.sampled_from(FIRST_SEQUENCES),
    ),
    min_size=10,
    max_size=50,
)


class World:
    """The state under test and the model, led through the same steps."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.tell = tell
        self.state = ProducerStateManager()
        self.model = Model()
        self.end = 0
        self.now_ms = NOW
        self.seen: Counter[str] = Counter()

    def step(self, step: Step) -> None:
        if step.kind == "time":
            self.now_ms += EXPIRATION_MS // 2
        elif step.kind == "expire":
            gone = self.state.expire(self.now_ms, after_ms=EXPIRATION_MS)
            assert sorted(gone) == self.model.expire(self.now_ms, EXPIRATION_MS)
        else:
            origin = Origin.COORDINATOR if step.kind in MARKER_KINDS else step.origin
            batch = self.marker(step) if step.kind in MARKER_KINDS else self.data(step)
            self.tell(f"{step.kind}: {batch} from {origin.name}")
            expected = self.model.append(batch, origin)
            self.tell(f"  {expected!r}")
            assert self.append(batch, origin) == expected
            self.seen[f"{step.kind}:{type(expected).__name__}"] += 1
        self.check()

    def append(self, batch: Candidate, origin: Origin) -> Answer:
        verdict = self.state.judge([batch], origin=origin)
        if isinstance(verdict, Duplicate):
            return Again(verdict.batch.first_offset)
        if isinstance(verdict, BatchRefused):
            return verdict.code
        self.end = batch.base_offset + batch.offset_delta + 1
        self.state.apply([batch], verdict)
        self.state.unstable.committed(self.end)
        return batch.base_offset

    def check(self) -> None:
        """What is remembered is what the history says."""
        for pid, entry in self.state.entries.items():
            known = self.model.batches(pid)
            assert entry.epoch == self.model.epoch(pid)
            assert [(batch.first_offset, batch.last_sequence) for batch in entry.batches] == [
                (event.offset, event.sequences[-1]) for event in known[-5:]
            ]
            assert entry.txn_first_offset == self.model.open_since(pid)
            assert entry.coordinator_epoch == self.model.coordinator_epoch(pid)
        assert {pid for pid in (1, 2) if self.model.of(pid)} == set(self.state.entries)
        assert self.state.unstable.last_stable_offset(self.end) == self.model.last_stable_offset(self.end)

    def check_aborted(self) -> None:
        """The list of aborted transactions is the model's. It only grows, so a look at the end is enough."""
        aborted = [(txn.producer_id, txn.first_offset, txn.last_offset) for txn in self.state.txn_index.aborted]
        assert aborted == self.model.aborted()

    def data(self, step: Step) -> Candidate:
        pid, epoch, count = step.pid, max(self.model.epoch(step.pid), 0), step.count
        every = [event.sequences for event in self.model.of(pid) if event.commit is None]
        known = [event.sequences for event in self.model.batches(pid)]
        old = known[-1 - min(step.back, len(known) - 1)] if known else (step.first,)
        following = _after(known[-1][-1]) if known else (0 if self.model.of(pid) else step.first)
        first, count = {
            "resend": (old[0], len(old)),
            "resend_old_epoch": (every[0][0], len(every[0])) if every else (0, 1),
            "spanning": (known[-2][0], len(known[-2]) + len(known[-1])) if len(known) > 1 else (following, count),
            "shorter": (old[0], max(1, len(old) - 1)),
            "longer": (old[0], len(old) + 1),
            "same_end": (old[-1], 1),
            "gap": (_after(following), count),
            "lower": (old[0], count),
            "new_epoch": (0, count),
            "new_epoch_past_0": (1 + step.back, count),
            "anywhere": (step.first, count),
        }.get(step.kind, (following, count))
        epoch += {"new_epoch": 1, "new_epoch_past_0": 1, "old_epoch": -1, "resend_old_epoch": -1}.get(step.kind, 0)
        in_txn = self.model.open_since(pid) is not None and step.back < 6
        return Candidate(
            producer_id=pid,
            epoch=max(epoch, 0),
            base_sequence=first,
            base_offset=self.end,
            offset_delta=count - 1,
            timestamp=self.now_ms,
            transactional=step.transactional or in_txn,
        )

    def marker(self, step: Step) -> Candidate:
        epoch, coordinator = max(self.model.epoch(step.pid), 0), max(self.model.coordinator_epoch(step.pid), 0)
        epoch += {"abort_bumped": 1, "commit_bumped": 1, "stale_marker": -1}.get(step.kind, 0)
        coordinator += {"old_coordinator": -1, "new_coordinator": 1}.get(step.kind, 0)
        return Candidate(
            producer_id=step.pid,
            epoch=max(epoch, 0),
            base_sequence=-1,
            base_offset=self.end,
            offset_delta=0,
            timestamp=self.now_ms,
            transactional=True,
            marker=Marker(step.kind.startswith("commit"), coordinator, step.tv),
        )


def _after(sequence: int) -> int:
    return 0 if sequence == 2**31 - 1 else sequence + 1


@settings(max_examples=500, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(steps)
def test_admit_does_what_the_whole_history_says(plan: list[Step]) -> None:
    """For all actions of a producer and its coordinator, answer and state are those of a model that forgets nothing and has no limits."""
    world = World(note)
    for step in plan:
        world.step(step)
    world.check_aborted()


def test_plans_by_seed_agree_and_reach_the_cases_they_are_for() -> None:
    """Answer and state are those of the model for plans drawn from seeds 0 to 399; a failure names the seed. Each kind of case occurs with
    the answer that makes it interesting, so that neither property is empty."""
    seen: Counter[str] = Counter()
    for seed in range(400):
        transcript: list[str] = []
        world = World(transcript.append)
        try:
            for step in _plan(random.Random(seed)):
                world.step(step)
            world.check_aborted()
        except AssertionError as error:
            error.add_note("\n".join([f"seed {seed}:", *transcript]))
            raise
        seen += world.seen
    assert [case for case in WANTED if seen[case] < 5] == []


WANTED = [
    *["next:int", "resend:Again", "resend:ErrorCode", "spanning:ErrorCode", "shorter:ErrorCode", "longer:ErrorCode", "gap:ErrorCode"],
    *["lower:ErrorCode", "same_end:ErrorCode", "anywhere:int", "new_epoch:int", "new_epoch_past_0:ErrorCode", "old_epoch:ErrorCode"],
    *["resend_old_epoch:ErrorCode", "commit:int", "commit:ErrorCode", "abort_bumped:int", "stale_marker:ErrorCode"],
    *["old_coordinator:ErrorCode", "new_coordinator:int"],
]


def _plan(rng: random.Random) -> list[Step]:
    return [
        Step(
            kind=rng.choice([*DATA_KINDS * 2, *MARKER_KINDS, "expire", "time"]),
            pid=rng.choice([1, 1, 1, 2]),
            back=rng.randrange(8),
            count=rng.randrange(1, 6),
            transactional=rng.random() < 0.3,
            origin=Origin.CLIENT,
            tv=rng.randrange(3),
            first=rng.choice(FIRST_SEQUENCES),
        )
        for _ in range(50)
    ]
