"""Breaks the rules of the in-flight window on purpose, one at a time, to check that the simulation notices."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from fencepost.producer import base_producer as front
from fencepost.producer.accumulator.accumulator import Accumulator, PartitionQueue
from fencepost.producer.accumulator.batch import Batch
from fencepost.producer.bulk import chunks
from fencepost.producer.bulk.append import Target
from fencepost.producer.bulk.bulk import BulkFuture, Part
from fencepost.producer.core import produce_responses as answers
from fencepost.producer.core.cluster import metadata_updater as metadata_updater
from fencepost.producer.core.error_table import Landed, Row, judge
from fencepost.producer.core.idempotence.in_flight_batch import InFlightBatch, State
from fencepost.producer.core.idempotence.in_flight_window import InFlightWindow, Known
from fencepost.producer.core.idempotence.sequence import SEQUENCE_RING, distance
from fencepost.producer.errors import Persisted, ProducerForked
from fencepost.producer.network.exit_and_fork import ExitGuard
from fencepost.producer.producer import Producer
from fencepost.producer.wire import Api, ErrorCode

RUNS_MAX = 200
Patch = tuple[object, str, object]


def _after(method: Callable[..., Any], then: Callable[..., None]) -> Callable[..., Any]:
    def patched(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = method(self, *args, **kwargs)
        then(self, *args)
        return result

    return patched


def _forget_doubt(window: InFlightWindow, in_flight: InFlightBatch, *rest: object) -> None:
    in_flight.doubt = False


def _introduced(window: InFlightWindow, *rest: object) -> None:
    window.introduced = True


def _bump_without_asking(window: InFlightWindow) -> bool:
    for in_flight in window.in_flight_batches:
        in_flight.doubt = in_flight.doubt and in_flight.decided
    return False


def _wide_open(window: InFlightWindow) -> bool:
    return window.identity is not None and not window.healing and len(window.in_flight_batches) < 9


def _any_waiting(window: InFlightWindow, now_ms: float) -> InFlightBatch | None:
    return next(
        (s for s in reversed(window.in_flight_batches) if s.state is State.WAITING and s.not_before_ms <= now_ms and not window.healing),
        None,
    )


def _all_found(window: InFlightWindow, known: Known | None) -> None:
    for in_flight in window.in_flight_batches:
        if in_flight.unresolved and in_flight.state is State.WAITING:
            in_flight.state, in_flight.appended, in_flight.asking = State.LOGGED, True, False
    window.healing = False


def _out_of_turn(window: InFlightWindow) -> list[InFlightBatch]:
    over = [
        in_flight
        for in_flight in window.in_flight_batches
        if not in_flight.published and (in_flight.decided or in_flight.state in (State.ACKED, State.LOGGED))
    ]
    for in_flight in over:
        in_flight.published = True
    window.in_flight_batches = [in_flight for in_flight in window.in_flight_batches if not in_flight.published or in_flight.unresolved]
    return over


def _raw_advance(sequence: int, count: int) -> int:
    return min(sequence + count, SEQUENCE_RING - 1)


def _believed(window: InFlightWindow) -> list[InFlightBatch]:
    """Broken: a batch that the leader has counts as acknowledged if no later batch is open."""
    for place, in_flight in enumerate(window.in_flight_batches):
        if in_flight.state is State.LOGGED and not any(later.unresolved for later in window.in_flight_batches[place + 1 :]):
            in_flight.state = State.ACKED
    return TAKE_FINISHED(window)


def _called_persisted(window: InFlightWindow, known: Known | None) -> None:
    hint = window.hint
    if hint is None:
        return
    for in_flight in window.in_flight_batches:
        if in_flight.unresolved and distance(in_flight.base_sequence, hint.last_sequence) >= 0:
            in_flight.appended = True


def _persisted_in_time(api: Api, code: int) -> Row:
    row = judge(api, code)
    return replace(row, landed=Landed.YES) if code == ErrorCode.REQUEST_TIMED_OUT else row


def _sure_of_it(window: InFlightWindow, in_flight: InFlightBatch, row: Row, code: int, *rest: object) -> None:
    if code == ErrorCode.NOT_LEADER_OR_FOLLOWER and in_flight.batch not in LOST:
        in_flight.doubt = False


def _lost(window: InFlightWindow, in_flight: InFlightBatch, *rest: object) -> None:
    LOST.add(in_flight.batch)


def _place_anywhere(window: InFlightWindow) -> None:
    for place, in_flight in enumerate(window.in_flight_batches):
        after = next((later.base_offset for later in window.in_flight_batches[place + 1 :] if later.base_offset >= 0), -1)
        if in_flight.unplaced and after >= 0:
            in_flight.place(after - in_flight.count)


def _nothing(window: InFlightWindow, *rest: object) -> None:
    return None


def _split_at_once(window: InFlightWindow, in_flight: InFlightBatch) -> None:
    in_flight.state, in_flight.oversized, in_flight.doubt = State.WAITING, False, False
    window._fail(in_flight, "too large")


def _no_deadline(window: InFlightWindow, now_ms: float) -> None:
    return None


def _eager(attempt: int, base_ms: float, cap_ms: float, draw: float) -> float:
    return 1.0


def _all_elders(window: InFlightWindow) -> None:
    later = False
    for in_flight in reversed(window.in_flight_batches):
        later = later or in_flight.state is State.ACKED
        if later and in_flight.unresolved:
            in_flight.state, in_flight.base_offset = State.ACKED, 0


def _its_word_is_enough(window: InFlightWindow, known: Known | None) -> None:
    """Broken: a batch that the leader has is not sent again."""
    hint = window.hint
    if hint is None:
        return
    for in_flight in window.in_flight_batches:
        if in_flight.state is State.WAITING and distance(in_flight.base_sequence, hint.last_sequence) >= 0:
            in_flight.state = State.LOGGED


def _reserve_rows(target: Target, rows: list[object], start: int, *rest: int) -> int:
    """Broken: bytes are reserved first, and corrected after the append."""
    target.accumulator.used += 100
    reached = APPEND_ROWS(target, rows, start, *rest)
    target.accumulator.used -= 100
    return reached


def _line_up_empty(accumulator: Accumulator, queue: PartitionQueue, need: int) -> Batch:
    """Broken: a new batch goes into its queue before its first record is in it."""
    batch = BEGIN_RECORD(accumulator, queue, need)
    if queue.open is not batch:
        accumulator.line_up(queue, batch)
        accumulator.used += batch.size
        queue.queued_bytes += batch.size
    return batch


def _own_together(bulk: BulkFuture, batch: Batch, pairs: bytes) -> None:
    """Broken: a bulk's rows in a batch are assumed to be adjacent."""
    first, count = int.from_bytes(pairs[4:8], "little"), len(pairs) // 8
    begun = int(batch.base_offset) + first
    bulk._spans.setdefault(int(batch.partition), []).append((begun, begun + count - 1))


def _wake_unstruck(accumulator: Accumulator) -> None:
    """Broken: an interrupted caller does not wake the sender thread."""
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
            bulk._whole = False
        raise


def _unburied(exit_guard: ExitGuard) -> None:
    """Broken: the child notices the fork, and keeps the lock that it found."""
    exit_guard._shared.forked = exit_guard._accumulator.refusal = ProducerForked("forked")


APPEND_ROWS, BEGIN_RECORD, WAKE_IF_DUE = Target.append_rows, Accumulator.begin_record, Accumulator.wake_if_due
LIST_CHUNKS, SEND_BULK = chunks.list_chunks, Producer._send_bulk
LOST: set[object] = set()
TAKE_FINISHED = InFlightWindow.take_finished

MUTANTS: dict[str, tuple[str, list[Patch]]] = {
    "a lost reply leaves no doubt": ("plain", [(InFlightWindow, "lost", _after(InFlightWindow.lost, _forget_doubt))]),
    "the epoch is bumped without asking": ("plain", [(InFlightWindow, "wants_answer", _bump_without_asking)]),
    "nine batches in flight": ("plain", [(InFlightWindow, "has_room", _wide_open)]),
    "retries go out in any order": ("plain", [(InFlightWindow, "sendable", _any_waiting)]),
    "five batches before the first acknowledgement": (
        "epochs run out",
        [(InFlightWindow, "adopt", _after(InFlightWindow.adopt, _introduced))],
    ),
    "the broker's answer is taken for yes": ("plain", [(InFlightWindow, "described", _all_found)]),
    "outcomes are published as they come": ("plain", [(InFlightWindow, "take_finished", _out_of_turn)]),
    "sequences do not wrap": (
        "sequences wrap",
        [(InFlightBatch, "next_sequence", property(lambda s: _raw_advance(s.base_sequence, s.count)))],
    ),
    "expired batches are reported as not sent": ("plain", [(InFlightBatch, "persisted", property(lambda s: Persisted.NO))]),
    "a leader's word is an acknowledgement": (
        "plain",
        [
            (InFlightWindow, "take_finished", _believed),
            (InFlightWindow, "described", _after(InFlightWindow.described, _its_word_is_enough)),
        ],
    ),
    "a leader's word is published at once": (
        "plain",
        [(InFlightBatch, "placed", property(lambda s: s.state in (State.ACKED, State.LOGGED)))],
    ),
    "what a leader has is called persisted": (
        "plain",
        [(InFlightWindow, "described", _after(InFlightWindow.described, _called_persisted))],
    ),
    "REQUEST_TIMED_OUT is called persisted": ("plain", [(answers, "judge", _persisted_in_time)]),
    "NOT_LEADER_OR_FOLLOWER is called not sent": (
        "topics come and go",
        [
            (InFlightWindow, "refused", _after(InFlightWindow.refused, _sure_of_it)),
            (InFlightWindow, "lost", _after(InFlightWindow.lost, _lost)),
        ],
    ),
    "offsets of the forgotten are guessed": ("plain", [(InFlightWindow, "_place_between", _place_anywhere)]),
    "every elder is acknowledged with a later batch": ("topics come and go", [(InFlightWindow, "_confirm", _all_elders)]),
    "an acknowledgement in another log counts": ("topics come and go by name", [(InFlightWindow, "_look_for_another_log", _nothing)]),
    "a doubtful batch that is too large is refused for certain": ("batches too large", [(InFlightWindow, "too_large", _split_at_once)]),
    "no deadline is kept": ("plain", [(InFlightWindow, "expire", _no_deadline)]),
    "metadata does not back off": ("plain", [(metadata_updater, "backoff_ms", _eager)]),
    "an append that is interrupted leaves its bytes reserved": ("callers", [(Target, "append_rows", _reserve_rows)]),
    "a batch is lined up before its first record is in it": ("callers", [(Accumulator, "begin_record", _line_up_empty)]),
    "a row that did not come into its batch is still counted": ("callers", [(Part, "take_back", _nothing)]),
    "an interrupted caller does not wake the sender": ("callers", [(Accumulator, "wake_if_due", _wake_unstruck)]),
    "a bulk's rows are taken to lie side by side": ("callers", [(BulkFuture, "_note_offsets", _own_together)]),
    "rows before one that cannot be sent are accepted": ("callers", [(front, "list_chunks", _chunk_by_chunk)]),
    "a bulk that is interrupted is forgotten": ("callers", [(Producer, "_send_bulk", _finished_elsewhere)]),
    "a bulk that is interrupted has no end": ("callers", [(Producer, "_send_bulk", _open_ended)]),
    "a child does not know that it was forked": ("callers", [(ExitGuard, "after_fork_in_child", _nothing)]),
    "a child keeps the lock that it found": ("callers", [(ExitGuard, "after_fork_in_child", _unburied)]),
}


BEGIN_AT = {
    "an acknowledgement in another log counts": 540,
    "a doubtful batch that is too large is refused for certain": 55,
    "NOT_LEADER_OR_FOLLOWER is called not sent": 60,
    "offsets of the forgotten are guessed": 35,
    "a batch is lined up before its first record is in it": 50,
    "five batches before the first acknowledgement": 25,
}
"""The first seed to try, for mutants that otherwise need more than a few seeds."""
