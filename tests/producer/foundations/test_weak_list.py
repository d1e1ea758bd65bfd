"""The list of what the program still has."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from fencepost.compat.confluent import held_messages
from fencepost.producer.foundations.weak_list import WeakList
from fencepost.producer.network import exit_and_fork
from fencepost.txn.pool import base_pool


class Item:
    """What such a list may have. It is also a guard, held messages and a pool."""

    def __init__(self) -> None:
        self.told = 0

    def begin_to_leave(self) -> Callable[[], None]:
        """A guard's."""
        return self.tell

    def leave(self, deadline: float) -> None:
        """That of held messages."""
        self.tell()

    def _after_fork_in_child(self) -> None:
        """A pool's."""
        self.tell()

    def tell(self) -> None:
        """It was told."""
        self.told += 1


def test_it_keeps_nothing() -> None:
    """What the program drops is not in it any more, and what was discarded is not either."""
    live: WeakList[Item] = WeakList()
    one, two, three = Item(), Item(), Item()
    for each in (one, two, three, two):
        live.add(each)
    assert live.all() == [one, two, three]
    live.discard(one)
    live.discard(one)
    del two, each
    gc.collect()
    assert live.all() == [three]


@pytest.mark.parametrize(
    ("module", "tell"),
    [
        (exit_and_fork, exit_and_fork.leave_all),
        (held_messages, held_messages.leave_all),
        (base_pool, base_pool.renew_all),
    ],
    ids=["producers", "held messages", "pools"],
)
def test_another_thread_makes_one_meanwhile(module: Any, tell: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """At each line of the end of the process, as a daemon thread may. All that were there before are told. One that is dropped meanwhile
    does no harm either."""
    live = type(module.LIVE)()
    monkeypatch.setattr(module, "LIVE", live)
    monkeypatch.setattr(exit_and_fork, "BEFORE_LEAVING", [])
    before, made = [Item() for _ in range(3)], [Item() for _ in range(3)]
    for each in (*before, *made):
        live.add(each)
    del each

    def meanwhile(frame: FrameType, event: str, argument: object) -> Any:
        made.append(Item())
        maker = threading.Thread(target=live.add, args=(made[-1],))
        maker.start()
        maker.join()
        del made[0]
        return meanwhile

    traced = sys.gettrace()
    sys.settrace(meanwhile)
    try:
        tell()
    finally:
        sys.settrace(traced)
    assert [each.told for each in before] == [1, 1, 1]
