"""The states of a classic group, and the events that lead from one to the other.

The table is the machine: an event must not happen in a state whose row lacks it.
`python -m fencepost.broker_stub.groups.state.classic_states` prints the table as a Mermaid diagram.
"""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """The values are the names in ListGroups and DescribeGroups."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Event(Enum):
    """What happens to a group."""

    REBALANCED = "a member joined, left, failed or changed"
    JOINED = "the members have joined, or their time is over"
    DESERTED = "no member has joined"
    ASSIGNED = "the leader sent the assignment"
    UNLOADED = "the group was deleted, or its coordinator moved"


TABLE: dict[State, dict[Event, State]] = {
    State.EMPTY: {
        Event.REBALANCED: State.PREPARING_REBALANCE,
        Event.UNLOADED: State.DEAD,
    },
    State.PREPARING_REBALANCE: {
        Event.JOINED: State.COMPLETING_REBALANCE,
        Event.DESERTED: State.EMPTY,
        Event.UNLOADED: State.DEAD,
    },
    State.COMPLETING_REBALANCE: {
        Event.REBALANCED: State.PREPARING_REBALANCE,
        Event.ASSIGNED: State.STABLE,
        Event.UNLOADED: State.DEAD,
    },
    State.STABLE: {
        Event.REBALANCED: State.PREPARING_REBALANCE,
        Event.UNLOADED: State.DEAD,
    },
    State.DEAD: {},
}


def diagram() -> str:
    """The table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {State.EMPTY.value}"]
    for state, events in TABLE.items():
        lines += [f"    {state.value} --> {target.value}: {event.value}" for event, target in events.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    print(diagram())
