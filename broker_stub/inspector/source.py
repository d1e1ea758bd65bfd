"""What the inspector looks at: a stub, or a proxy in front of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from fencepost.broker_stub.faults.rules import Faults
from fencepost.broker_stub.inspector.message_tree import NameOf
from fencepost.broker_stub.journal.journal import Journal

Data = dict[str, Any]


class Source(NamedTuple):
    """`snapshot` takes a snapshot, and `records(topic, partition, offset)` gives some records, both from any thread. KeyError: no such
    partition. `records` is None where there are none to see."""

    journal: Journal
    faults: Faults
    name_of: NameOf
    snapshot: Callable[[], Data]
    records: Callable[[str, int, int], list[Data]] | None = None
