"""The table of a transactional producer's states."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from fencepost.txn.coordinator.state_machine import CALLS, TABLE, Action, Event, Machine, State, legal_calls, mermaid
from fencepost.txn.errors import IllegalCall


def walk(*events: Event) -> Machine:
    """A machine to which these happened."""
    machine = Machine()
    for event in events:
        machine.step(event)
    return machine


OPENED = (Event.INIT, Event.REGISTERED, Event.BEGIN)


def test_a_transaction_from_beginning_to_end() -> None:
    """Init, begin, commit, and the next one begins where the first one did."""
    committed = (*OPENED, Event.COMMIT, Event.FLUSHED, Event.ENDED)
    assert walk(*committed).state is State.READY
    assert walk(*committed, Event.BEGIN).state is State.OPEN


def test_begin_registers_by_itself() -> None:
    """`init` is optional: `begin` waits for the identity."""
    machine = Machine()
    assert machine.step(Event.BEGIN) is Action.ASK_IDENTITY
    assert machine.state is State.REGISTERING


@pytest.mark.parametrize("state", [State.OPEN, State.SPOILED, State.FLUSHING])
def test_what_the_coordinator_was_not_asked_to_commit_can_be_aborted(state: State) -> None:
    """Until EndTxn is written there is a way back."""
    assert TABLE[state, Event.ABORT] == (State.ABORTING, Action.DROP)


def test_what_may_be_committed_cannot_be_aborted() -> None:
    """Once EndTxn(commit) is written, an abort is refused: it could only be a lie."""
    machine = walk(*OPENED, Event.COMMIT, Event.FLUSHED)
    with pytest.raises(IllegalCall, match=r"abort: the producer is committing: the coordinator has been asked to; .* now: commit$"):
        machine.step(Event.ABORT)


def test_a_spoiled_transaction_has_no_way_to_a_commit() -> None:
    """From SPOILED no events that leave out an abort reach a commit."""
    reached, frontier = {State.SPOILED}, [State.SPOILED]
    while frontier:
        state = frontier.pop()
        for (start, event), (target, _) in TABLE.items():
            if start is state and event is not Event.ABORT and target not in reached:
                reached.add(target)
                frontier.append(target)
    assert reached == {State.SPOILED, State.DEAD}


def test_an_identity_is_never_asked_for_inside_a_transaction() -> None:
    """InitProducerId is asked for where no transaction is open or ending, and nowhere else (librdkafka#3575)."""
    asking = {target for (_, _), (target, action) in TABLE.items() if action in (Action.ASK_IDENTITY, Action.FINISH_AND_ASK)}
    assert asking == {State.REGISTERING, State.RENEWING}
    assert {start for (start, _), (_, action) in TABLE.items() if action is Action.FINISH_AND_ASK} == {State.COMMITTING, State.ABORTING}
    assert all(event is Event.ENDED_WORN for (_, event), (_, action) in TABLE.items() if action is Action.FINISH_AND_ASK)


def test_every_state_is_reached_and_every_state_can_die() -> None:
    """No row is there for nothing, and a fatal error has somewhere to go from everywhere."""
    assert {target for target, _ in TABLE.values()} | {State.NEW} == set(State)
    assert all(TABLE[state, Event.DIED][0] is State.DEAD for state in State)


@pytest.mark.parametrize(("state", "call"), list(itertools.product(State, CALLS)))
def test_a_call_is_carried_out_or_refused_with_those_that_are_not(state: State, call: Event) -> None:
    """Every call in every state has a row, or an error that names the state and the calls that have one."""
    machine = Machine()
    machine.state = state
    if (state, call) in TABLE:
        machine.step(call)
        return
    with pytest.raises(IllegalCall) as refused:
        machine.step(call)
    assert state.value in str(refused.value)
    assert legal_calls(state)
    more = "; concurrent transactions need a TransactionalPool, or an AsyncTransactionalPool with asyncio" if call is Event.BEGIN else ""
    assert str(refused.value).endswith(f": {legal_calls(state)}{more}")
    assert machine.state is state


def test_what_cannot_happen_is_a_bug_and_no_users_error() -> None:
    """An event that is no call and has no row is an assertion."""
    with pytest.raises(AssertionError):
        Machine().step(Event.ENDED)


def test_the_diagram_has_every_way() -> None:
    """Each change of state in the table is in the drawing, and nothing else."""
    drawn = mermaid().splitlines()
    assert drawn[0] == "stateDiagram-v2"
    for (state, event), (target, _) in TABLE.items():
        if state is not target and event is not Event.DIED:
            assert any(line.startswith(f"    {state.name} --> {target.name}:") and event.name.lower() in line for line in drawn)
    assert "    OPEN --> FLUSHING: commit" in drawn


def test_the_documentation_has_this_diagram() -> None:
    """docs/transactions.md shows the table as it is."""
    page = (Path(__file__).resolve().parents[3] / "docs" / "transactions.md").read_text(encoding="utf-8")
    assert f"```mermaid\n{mermaid()}```" in page
