"""The rules of the window, each broken on purpose, to see that the simulation would notice."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from producer import chunks, front
from producer.core import answers, scout
from producer.core.accumulator import Accumulator, PartitionQueue
from producer.core.batch import Batch
from producer.core.bulk import BulkFuture, Part
from producer.core.bulk_append import Target
from producer.core.errors import Persisted, ProducerForked
from producer.core.sequence import SEQUENCE_RING, distance
from producer.core.slot import Slot, State
from producer.core.verdict import Landed, Row, judge
from producer.core.window import Known, Window
from producer.lifecycle import Lease
from producer.producer import Producer
from producer.wire import Api, ErrorCode
from tests.simulation.flavours import simulate

RUNS_MAX = 200
Patch = tuple[object, str, object]


@dataclass(frozen=True)
class Caught:
    """Which run noticed, and what."""

    seed: int
    flavour: str
    what: str


def _after(method: Callable[..., Any], then: Callable[..., None]) -> Callable[..., Any]:
    def patched(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = method(self, *args, **kwargs)
        then(self, *args)
        return result

    return patched


def _forget_doubt(window: Window, slot: Slot, *rest: object) -> None:
    slot.doubt = False


def _introduced(window: Window, *rest: object) -> None:
    window.introduced = True


def _bump_without_asking(window: Window) -> bool:
    for slot in window.slots:
        slot.doubt = slot.doubt and slot.decided
    return False


def _wide_open(window: Window) -> bool:
    return window.identity is not None and not window.healing and len(window.slots) < 9


def _any_waiting(window: Window, now_ms: float) -> Slot | None:
    return next((s for s in reversed(window.slots) if s.state is State.WAITING and s.not_before_ms <= now_ms and not window.healing), None)


def _raw_distance(start: int, end: int) -> int:
    return end - start


def _all_found(window: Window, known: Known | None) -> None:
    for slot in window.slots:
        if slot.unresolved and slot.state is State.WAITING:
            slot.state, slot.appended, slot.asking = State.LOGGED, True, False
    window.healing = False


def _out_of_turn(window: Window) -> list[Slot]:
    over = [slot for slot in window.slots if not slot.published and (slot.decided or slot.state in (State.ACKED, State.LOGGED))]
    for slot in over:
        slot.published = True
    window.slots = [slot for slot in window.slots if not slot.published or slot.unresolved]
    return over


def _raw_advance(sequence: int, count: int) -> int:
    return min(sequence + count, SEQUENCE_RING - 1)


def _believed(window: Window) -> list[Slot]:
    """What the leader has counts as acknowledged when nothing after it is open."""
    for place, slot in enumerate(window.slots):
        if slot.state is State.LOGGED and not any(later.unresolved for later in window.slots[place + 1 :]):
            slot.state = State.ACKED
    return TAKE_FINISHED(window)


def _called_persisted(window: Window, known: Known | None) -> None:
    hint = window.hint
    if hint is None:
        return
    for slot in window.slots:
        if slot.unresolved and distance(slot.base_sequence, hint.last_sequence) >= 0:
            slot.appended = True


def _persisted_in_time(api: Api, code: int) -> Row:
    row = judge(api, code)
    return replace(row, landed=Landed.YES) if code == ErrorCode.REQUEST_TIMED_OUT else row


def _sure_of_it(window: Window, slot: Slot, row: Row, code: int, *rest: object) -> None:
    if code == ErrorCode.NOT_LEADER_OR_FOLLOWER and slot.batch not in LOST:
        slot.doubt = False


def _lost(window: Window, slot: Slot, *rest: object) -> None:
    LOST.add(slot.batch)


def _place_anywhere(window: Window) -> None:
    for place, slot in enumerate(window.slots):
        after = next((later.base_offset for later in window.slots[place + 1 :] if later.base_offset >= 0), -1)
        if slot.unplaced and after >= 0:
            slot.place(after - slot.count)


def _nothing(window: Window, *rest: object) -> None:
    return None


def _split_at_once(window: Window, slot: Slot) -> None:
    slot.state, slot.oversized, slot.doubt = State.WAITING, False, False
    window._fail(slot, "too large")


def _no_deadline(window: Window, now_ms: float) -> None:
    return None


def _eager(attempt: int, base_ms: float, cap_ms: float, draw: float) -> float:
    return 1.0


def _all_elders(window: Window) -> None:
    later = False
    for slot in reversed(window.slots):
        later = later or slot.state is State.ACKED
        if later and slot.unresolved:
            slot.state, slot.base_offset = State.ACKED, 0


def _its_word_is_enough(window: Window, known: Known | None) -> None:
    """What the leader has is not sent again."""
    hint = window.hint
    if hint is None:
        return
    for slot in window.slots:
        if slot.state is State.WAITING and distance(slot.base_sequence, hint.last_sequence) >= 0:
            slot.state = State.LOGGED


def _reserve_rows(target: Target, rows: list[object], start: int, *rest: int) -> int:
    """Bytes are reserved first, and put right after the append."""
    target.accumulator.used += 100
    reached = APPEND_ROWS(target, rows, start, *rest)
    target.accumulator.used -= 100
    return reached


def _line_up_empty(accumulator: Accumulator, queue: PartitionQueue, need: int) -> Batch:
    """A new batch comes into its queue before its first record does."""
    batch = BATCH_FOR(accumulator, queue, need)
    if queue.open is not batch:
        accumulator.line_up(queue, batch)
        accumulator.used += batch.size
        queue.queued_bytes += batch.size
    return batch


def _own_together(bulk: BulkFuture, batch: Batch, pairs: bytes) -> None:
    """A bulk's rows in a batch are taken to lie side by side."""
    first, count = int.from_bytes(pairs[4:8], "little"), len(pairs) // 8
    begun = int(batch.base_offset) + first
    bulk._spans.setdefault(int(batch.partition), []).append((begun, begun + count - 1))


def _wake_unstruck(accumulator: Accumulator) -> None:
    """Whoever is struck does not wake the sender on his way out."""
    if sys.exception() is None:
        WAKE_IF_DUE(accumulator)


def _chunk_by_chunk(*args: Any, whole: bool, **kwargs: Any) -> Any:
    return LIST_CHUNKS(*args, whole=False, **kwargs)


def _finished_elsewhere(producer: Producer, *args: Any) -> BulkFuture:
    try:
        return SEND_BULK(producer, *args)
    except BaseException as error:
        vars(error).pop("sent", None)
        raise


def _open_ended(producer: Producer, *args: Any) -> BulkFuture:
    try:
        return SEND_BULK(producer, *args)
    except BaseException as error:
        if bulk := vars(error).get("sent"):
            bulk.whole = False
        raise


def _unburied(lease: Lease) -> None:
    """The child knows of the fork, and keeps the lock that it found."""
    lease._shared.forked = lease._accumulator.refusal = ProducerForked("forked")


APPEND_ROWS, BATCH_FOR, WAKE_IF_DUE = Target.append_rows, Accumulator.batch_for, Accumulator.wake_if_due
LIST_CHUNKS, SEND_BULK = chunks.list_chunks, Producer._send_bulk
LOST: set[object] = set()
TAKE_FINISHED = Window.take_finished

MUTANTS: dict[str, tuple[str, list[Patch]]] = {
    "a lost reply leaves no doubt": ("plain", [(Window, "lost", _after(Window.lost, _forget_doubt))]),
    "the epoch is bumped without asking": ("plain", [(Window, "wants_answer", _bump_without_asking)]),
    "nine batches in flight": ("plain", [(Window, "has_room", _wide_open)]),
    "retries go out in any order": ("plain", [(Window, "sendable", _any_waiting)]),
    "five batches before the first acknowledgement": ("epochs run out", [(Window, "adopt", _after(Window.adopt, _introduced))]),
    "the broker's answer is taken for yes": ("plain", [(Window, "described", _all_found)]),
    "outcomes are published as they come": ("plain", [(Window, "take_finished", _out_of_turn)]),
    "sequences do not wrap": ("sequences wrap", [(Slot, "next_sequence", property(lambda s: _raw_advance(s.base_sequence, s.count)))]),
    "expired batches are reported as not sent": ("plain", [(Slot, "persisted", property(lambda s: Persisted.NO))]),
    "a leader's word is an acknowledgement": (
        "plain",
        [(Window, "take_finished", _believed), (Window, "described", _after(Window.described, _its_word_is_enough))],
    ),
    "a leader's word is published at once": ("plain", [(Slot, "placed", property(lambda s: s.state in (State.ACKED, State.LOGGED)))]),
    "what a leader has is called persisted": ("plain", [(Window, "described", _after(Window.described, _called_persisted))]),
    "REQUEST_TIMED_OUT is called persisted": ("plain", [(answers, "judge", _persisted_in_time)]),
    "NOT_LEADER_OR_FOLLOWER is called not sent": (
        "topics come and go",
        [(Window, "refused", _after(Window.refused, _sure_of_it)), (Window, "lost", _after(Window.lost, _lost))],
    ),
    "offsets of the forgotten are guessed": ("plain", [(Window, "_place_between", _place_anywhere)]),
    "every elder is acknowledged with a later batch": ("topics come and go", [(Window, "_confirm", _all_elders)]),
    "an acknowledgement in another log counts": ("topics come and go by name", [(Window, "_look_for_another_log", _nothing)]),
    "a doubtful batch that is too large is refused for certain": ("batches too large", [(Window, "too_large", _split_at_once)]),
    "no deadline is kept": ("plain", [(Window, "expire", _no_deadline)]),
    "metadata does not back off": ("plain", [(scout, "backoff_ms", _eager)]),
    "an append that is interrupted leaves its bytes reserved": ("callers", [(Target, "append_rows", _reserve_rows)]),
    "a batch is lined up before its first record is in it": ("callers", [(Accumulator, "batch_for", _line_up_empty)]),
    "a row that did not come into its batch is still counted": ("callers", [(Part, "take_back", _nothing)]),
    "the sender is not woken by who is interrupted": ("callers", [(Accumulator, "wake_if_due", _wake_unstruck)]),
    "a bulk's rows are taken to lie side by side": ("callers", [(BulkFuture, "_note_offsets", _own_together)]),
    "rows before one that cannot be sent are accepted": ("callers", [(front, "list_chunks", _chunk_by_chunk)]),
    "a bulk that is interrupted is forgotten": ("callers", [(Producer, "_send_bulk", _finished_elsewhere)]),
    "a bulk that is interrupted has no end": ("callers", [(Producer, "_send_bulk", _open_ended)]),
    "a child does not know that it was forked": ("callers", [(Lease, "after_fork_in_child", _nothing)]),
    "a child keeps the lock that it found": ("callers", [(Lease, "after_fork_in_child", _unburied)]),
}


BEGIN_AT = {
    "an acknowledgement in another log counts": 460,
    "a doubtful batch that is too large is refused for certain": 40,
    "NOT_LEADER_OR_FOLLOWER is called not sent": 10,
    "offsets of the forgotten are guessed": 10,
}
"""Seeds that come shortly before the one that notices, where that takes more than a few."""


def hunt(mutant: str) -> Caught | int:
    """Run seeds until the broken rule is noticed; the number of runs when it is not."""
    flavour, patches = MUTANTS[mutant]
    with ExitStack() as stack:
        for target, name, broken in patches:
            stack.enter_context(patch.object(target, name, broken))
        first = BEGIN_AT.get(mutant, 0)
        for seed in range(first, first + RUNS_MAX):
            try:
                simulate(seed, flavour)
            except (AssertionError, ValueError, LookupError, ArithmeticError) as error:
                return Caught(seed, flavour, f"{type(error).__name__}: {error}"[:80])
    return RUNS_MAX
