"""What the inspector looks at: a stub, or a proxy in front of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from fencepost.broker_stub.faults.rules import Faults
from fencepost.broker_stub.inspector.message_tree import NameOf
from fencepost.broker_stub.journal.journal import Journal

Data = dict[str, Any]


class Source(NamedTuple):
    """`snapshot(topics)` takes a snapshot, in which these topics have room before others. `records(topic, partition, offset)` gives some
    records; KeyError: no such partition; it is None where there are none to see. Any thread may call both."""

    journal: Journal
    faults: Faults
    name_of: NameOf
    snapshot: Callable[[Collection[str]], Data]
    records: Callable[[str, int, int], list[Data]] | None = None
