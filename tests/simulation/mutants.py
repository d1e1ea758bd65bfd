"""The rules of the window, each broken on purpose, to see that the simulation would notice."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from producer.core.errors import Persisted
from producer.core.sequence import SEQUENCE_RING
from producer.core.slot import Slot, State
from producer.core.window import Known, Window
from tests.simulation.flavours import simulate

RUNS_MAX = 40
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
}


def hunt(mutant: str) -> Caught | int:
    """Run seeds until the broken rule is noticed; the number of runs when it is not."""
    flavour, patches = MUTANTS[mutant]
    with ExitStack() as stack:
        for target, name, broken in patches:
            stack.enter_context(patch.object(target, name, broken))
        for seed in range(RUNS_MAX):
            try:
                simulate(seed, flavour)
            except (AssertionError, ValueError, IndexError) as error:
                return Caught(seed, flavour, f"{type(error).__name__}: {error}"[:80])
    return RUNS_MAX
