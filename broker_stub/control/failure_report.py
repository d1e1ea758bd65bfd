"""A few lines about a stub for the report of a failed test: what went wrong, its last exchanges, and its fault rules with their hits.

It shows no records and no passwords. Of an exchange it shows the client, the node, the API and its version, and what matters: partitions,
record counts, producer id, epoch and sequence, offsets, commit or abort, and the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.broker_stub.inspector.findings import findings
from fencepost.broker_stub.inspector.rows import Rows, line
from fencepost.broker_stub.network.addresses import printable
from fencepost.producer.foundations.counted import counted

if TYPE_CHECKING:
    from fencepost.broker_stub.stub import BrokerStub

EXCHANGES_MAX = 12
FINDINGS_MAX = 8
LINE_MAX = 600


def seen_by(stub: BrokerStub, *, after: int = 0) -> str:
    """The findings, the last exchanges, oldest first, and every installed rule. `after`: the number of the last exchange before the test if
    tests share the stub."""
    rows = Rows(stub.cluster.topic_name)
    rows.update(stub.journal.requests())
    kept = [row for row in rows.every if row["n"] > after]
    last = [row for row in kept if not row["quiet"]][-EXCHANGES_MAX:]
    found = findings(stub.snapshot(), kept, at_end=True)
    if after:  # What the logs show may be of other tests.
        topics = {None}.union(*(row["topics"] for row in kept))
        found = [each for each in found if each["rows"] or each["topic"] in topics]
    lines = [printable(f"{each['kind']}: {each['title']}. {each['text']}", longest=LINE_MAX) for each in found[:FINDINGS_MAX]]
    whose = " of this test" if after else ""
    lines.append(f"{counted(len(kept), 'exchange')}{whose} in the journal{', the last of them' if len(kept) > len(last) else ''}:")
    if not stub.journal.enabled:
        lines[-1] = "no journal was kept (journal=0)"
    lines += [f"  {line(row, since_ms=kept[0]['at'])}" for row in last]
    faults = stub.faults.installed
    lines += [f"{counted(len(faults), 'fault rule')}:"] if faults else ["no fault rules"]
    lines += [f"  {fault}, {counted(fault.hits, 'hit')}" for fault in faults]
    return "\n".join(lines)
