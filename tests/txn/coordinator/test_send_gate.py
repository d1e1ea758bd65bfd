"""The sends that `begin` has to wait for before a transaction begins."""

from __future__ import annotations

import asyncio

import pytest

from fencepost.txn.coordinator.send_gate import SendGate

ME, OTHER = 1, 2


class Clique:
    """The caller that asks is `who`. Another caller is inside a send until it has been asked so many times."""

    def __init__(self, turns: int) -> None:
        self.who = OTHER
        self.writing = SendGate(self.ask)
        self._held = self.writing.note()
        self._held.acquire()
        self._turns = turns
        self.who = ME

    def ask(self) -> int:
        if self.who == ME:
            self._turns -= 1
            if self._turns == 0:
                self._held.release()
        return self.who

    def wait(self, timeout_s: float, *, tasks: bool) -> bool:
        return asyncio.run(self.writing.let_others_out(timeout_s)) if tasks else self.writing.wait_for_others(timeout_s)


@pytest.mark.parametrize("tasks", [False, True])
def test_others_are_waited_for(*, tasks: bool) -> None:
    """The gate waits until every other thread and task has left its send, or until the time has passed. The waiting caller does not wait
    for itself."""
    assert Clique(3).wait(60.0, tasks=tasks)
    assert not Clique(-1).wait(0.01, tasks=tasks)
    clique = Clique(1)
    with clique.writing.note():
        assert clique.wait(0.0, tasks=tasks)
