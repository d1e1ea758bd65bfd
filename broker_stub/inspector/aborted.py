"""Findings of aborted transactions, and which exchange aborted each.

The log does not tell that. A client's request ended a transaction if it came after the transaction's last batch, and before its marker and
before any refusal of its epoch: a client may also ask after its coordinator has aborted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from fencepost.broker_stub.inspector.batch_facts import identity
from fencepost.broker_stub.inspector.exchange_findings import FENCED, client_of
from fencepost.broker_stub.inspector.finding import NOTE, Data, finding
from fencepost.broker_stub.inspector.lanes import CONTROL, Batch
from fencepost.broker_stub.inspector.log_findings import partitions
from fencepost.broker_stub.inspector.rows import OK, Row
from fencepost.producer.foundations.counted import counted

AGAIN: Final = "CONCURRENT_TRANSACTIONS"

Identity = tuple[int, int]


class Ends:
    """What the rows tell of the ends of transactions."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._asked: dict[Identity, list[Row]] = {}
        self._wrote: dict[tuple[str, int, int, int, int], int] = {}  # a batch, and the newest exchange with it
        self._registered: dict[int, list[tuple[int, Row]]] = {}  # the epoch that was given, and the first of the requests for it
        self._fenced: dict[Identity, int] = {}  # the first exchange in which the identity was refused
        self.oldest = 0
        waiting: dict[str, Row] = {}
        for row in rows:
            self.oldest = self.oldest or row["n"]
            for batch in row["batches"]:
                if "pid" not in batch:
                    continue
                self._wrote[batch["topic"], batch["partition"], batch["pid"], batch["epoch"], batch["seq"]] = row["n"]
                if batch.get("code") in FENCED:
                    self._fenced.setdefault((batch["pid"], batch["epoch"]), row["n"])
            if row["api"] == "END_TXN" and row["asked"].startswith("ABORT") and row["identity"] is not None and not row["codes"]:
                self._asked.setdefault(tuple(row["identity"]), []).append(row)
            if row["api"] == "INIT_PRODUCER_ID" and row["response"] is not None and row["txn"]:
                # The coordinator aborts what is open first, and answers with CONCURRENT_TRANSACTIONS until that is done.
                first = waiting.setdefault(row["txn"][0], row)
                if row["outcome"] == OK:
                    given = self._registered.setdefault(row["response"].get("producer_id", -1), [])
                    given.append((row["response"].get("producer_epoch", -1), first))
                if AGAIN not in row["codes"]:
                    del waiting[row["txn"][0]]

    def written(self, place: tuple[str, int], batch: Batch) -> int | None:
        """The exchange that wrote the batch; None if it is not known."""
        return self._wrote.get((*place, batch[3], batch[4], batch[5]))

    def of(self, owner: Identity, *, after: int, ended_ms: int) -> Row | None:
        """The request that aborted the transaction whose last batch came in exchange `after`, and whose marker has that time."""
        refused = self._fenced.get(owner)
        end = next((row for row in self._asked.get(owner, ()) if row["n"] > after), None)
        if end is None or end["at"] > ended_ms or (refused is not None and refused < end["n"]):
            return None
        return end

    def replaced(self, owner: Identity, *, after: int, ended_ms: int) -> Row | None:
        """The registration of the transactional id that may have aborted it."""
        pid, epoch = owner
        later = ((given, row) for given, row in self._registered.get(pid, ()) if row["n"] > after and row["at"] <= ended_ms)
        return next((row for given, row in later if given > epoch), None)


def aborted(snapshot: Data, rows: Iterable[Row]) -> Iterator[Data]:
    """Transactions that were aborted, with records that readers of committed records skip."""
    ends = Ends(rows)
    for place, part in partitions(snapshot).items():
        (topic, index), last = place, _last_batches(part["batches"])
        for bar in part["bars"]:
            if bar["state"] != "aborted" or not bar["records"]:
                continue
            owner = (bar["pid"], bar["epoch"])
            batch, marker = last.get(bar["last"], (None, None))
            after = ends.written(place, batch) if batch is not None else None
            end = newer = None
            if after is not None and marker is not None:
                end = ends.of(owner, after=after, ended_ms=marker[7])
                newer = ends.replaced(owner, after=after, ended_ms=marker[7])
            if end is not None:
                by = f"{client_of(end)} aborted it in exchange {end['n']}."
            elif newer is not None:
                end = newer
                by = (
                    f"Its coordinator aborted it: {client_of(end)} registered the transactional id in exchange {end['n']}, or its "
                    "timeout had passed before."
                )
            elif after is not None and ends.oldest == 1 and snapshot["kind"] == "stub":
                by = "No client asked for it: its coordinator did, after its timeout."
            else:
                by = "No kept exchange asked for it: an older one, another way to the brokers, or its coordinator did."
            yield finding(
                "aborted batch",
                NOTE,
                f"Aborted: {counted(bar['records'], 'record')} of {topic}-{index} from offset {bar['first']} on",
                f"The transaction of {identity(bar['pid'], bar['epoch'])} ends with an abort marker at offset {bar['last']}. {by} "
                "Consumers with read_committed skip its records.",
                rows=() if end is None else (end["n"],),
                topic=topic,
                partition=index,
                tab="topics",
            )


def _last_batches(batches: Iterable[Batch]) -> dict[int, tuple[Batch | None, Batch]]:
    """For the offset of each marker: the newest batch of its transaction, and the marker."""
    newest: dict[int, Batch] = {}
    found: dict[int, tuple[Batch | None, Batch]] = {}
    for batch in batches:
        if batch[6] & CONTROL:
            found[batch[0]] = (newest.pop(batch[3], None), batch)
        else:
            newest[batch[3]] = batch
    return found
