"""Findings from the logs: what readers wait for, batches without an answer, acknowledged records that are gone.

Pure functions of a snapshot and rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from fencepost.broker_stub.inspector.batch_facts import Facts, identity
from fencepost.broker_stub.inspector.exchange_findings import UNANSWERED, Repeat, client_of, of_repeats, where
from fencepost.broker_stub.inspector.finding import BAD, WARNING, Data, finding
from fencepost.broker_stub.inspector.rows import OK, Row
from fencepost.producer.foundations.counted import counted

LIVE_STATES: Final = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
LONG_OPEN_MS: Final = 10_000
"""A transaction is open for so long before that is a finding."""
QUIET_MS: Final = 2_000
"""A batch without an answer for that long is not about to be sent again. Nor is that of a client without a connection: it was closed."""

Place = tuple[str, int]


def partitions(snapshot: Data) -> dict[Place, Data]:
    """Every partition of the snapshot, by topic and index."""
    return {(topic["name"], each["index"]): each for topic in snapshot["topics"] for each in topic["partitions"]}


def held_back(snapshot: Data, long_open_ms: int) -> Iterator[Data]:
    """Transactions at which readers of committed records wait: those that are open for so long, and those that hang."""
    for (topic, index), part in partitions(snapshot).items():
        held = part.get("held")
        if held is None:
            continue
        open_ms = snapshot["now_ms"] - held["since_ms"] if held["since_ms"] >= 0 else 0
        known = held["state"] in LIVE_STATES
        if known and open_ms < long_open_ms:
            continue
        owner = f"transaction {held['txn']}" if held["txn"] else identity(held["pid"], held["epoch"])
        since = f" for {open_ms / 1000:.0f} s" if held["since_ms"] >= 0 else ""
        how = (
            f"Its coordinator aborts it after {held['timeout_ms'] / 1000:.0f} s."
            if known and held["timeout_ms"]
            else "No coordinator has it open, so none will end it: `fencepost txn find-hanging` and `abort-hanging` do."
        )
        yield finding(
            "open transaction" if known else "hanging transaction",
            WARNING if known else BAD,
            f"Readers of {topic}-{index} wait at offset {held['offset']}",
            f"{owner} ({identity(held['pid'], held['epoch'])}) is open{since} and holds the last stable offset at {part['lso']}; the high "
            f"watermark is {part['hw']}. {how}",
            topic=topic,
            partition=index,
        )


def unanswered(snapshot: Data, rows: Collection[Row]) -> Iterator[Data]:
    """Batches that were sent and never answered: an expired batch, or a producer that is gone."""
    parts = partitions(snapshot)
    connected = snapshot.get("open_connections")  # behind a proxy they are not known
    present = {row["client"] for row in rows if connected is None or row["conn"] in connected}
    tries: dict[tuple[object, ...], list[tuple[Row, Facts]]] = {}
    for row in rows:
        for batch in row["batches"]:
            place = (batch["topic"], batch["partition"])
            if batch.get("pid", -1) >= 0:
                tries.setdefault((*place, batch["pid"], batch["epoch"], batch["seq"]), []).append((row, batch))
            elif "crc" in batch:
                tries.setdefault((*place, row["client"], batch["crc"], batch["bytes"]), []).append((row, batch))
    for sent in tries.values():
        last, batch = sent[-1]
        if any("offset" in each for _, each in sent if _["outcome"] == OK) or last["outcome"] not in UNANSWERED:
            continue
        if last["client"] in present and snapshot["now_ms"] - last["at"] < QUIET_MS:
            continue
        named = (
            "A batch without a producer id"
            if "crc" in batch
            else f"{identity(batch['pid'], batch['epoch'])} seq {batch['seq']}-{batch['last']}"
        )
        yield finding(
            "expired batch",
            WARNING,
            f"{client_of(last)} got no answer for a batch of {where(batch)}",
            f"{named}, {counted(batch['count'], 'record')}, was sent in {counted(len(sent), 'exchange')} without an answer, the last at "
            f"exchange {last['n']}. {_fate(parts.get((batch['topic'], batch['partition'])), batch)}.",
            rows=(last["n"], *(row["n"] for row, _ in sent[:-1])),
            topic=batch["topic"],
            partition=batch["partition"],
        )


def _fate(part: Data | None, batch: Facts) -> str:
    """What became of a batch without an answer."""
    if part is None or not _is_whole(part):
        whole = "It is not among the newest batches of the log, and older ones are not shown"
    else:
        whole = "It is not in the log"
    if "crc" not in batch:
        offset = _offset_in(part, batch["pid"], batch["epoch"], batch["seq"])
        return whole if offset is None else f"It is in the log, at offset {offset}, though the client does not know"
    places = _like(part, batch)
    if places:
        return f"It is in the log, at {_offsets(places)}, though the client does not know"
    of_others = part is not None and any(each[3] < 0 and each[2] == batch["count"] for each in part["batches"])
    # Brokers may have changed its time or its compression.
    return "Whether it is in the log cannot be told without a producer id" if of_others else whole


def _like(part: Data | None, batch: Facts) -> list[int]:
    """The offsets at which the log has a batch like this one, which has no producer id."""
    like = [batch["count"], -1, batch["stamp"], batch["bytes"]]
    return [each[0] for each in part["batches"] if [each[2], each[3], each[7], each[9]] == like] if part is not None else []


def _offsets(places: list[int]) -> str:
    """Such as `offset 3`, or `offsets 3, 4`."""
    return f"offset{'' if len(places) == 1 else 's'} {', '.join(map(str, places))}"


def sent_twice(snapshot: Data, rows: Iterable[Row]) -> Iterator[Data]:
    """Batches without a producer id that came again because there was no reply; one finding for each client and partition."""
    parts = partitions(snapshot)
    by_number = {row["n"]: row for row in rows}
    found: dict[tuple[str, str], list[Repeat]] = {}
    for row in by_number.values():
        for batch in row["batches"]:
            first = by_number.get(batch.get("like", -1))
            if first is None or not first["doubt"] or "offset" not in batch:
                continue
            if _places_of(parts.get((batch["topic"], batch["partition"])), batch) != [batch["offset"]]:
                found.setdefault((client_of(row), where(batch)), []).append((first, row, batch))
    for (client, place), again in found.items():
        first, row, batch = again[0]
        places = _places_of(parts.get((batch["topic"], batch["partition"])), batch) or [batch["offset"]]
        offset, other = batch["offset"], next((each for each in places if each != batch["offset"]), None)
        reply = "no reply" if first["outcome"] in UNANSWERED else f"{', '.join(first['codes'])} as the reply"
        fate = f"offset {offset}, and once more if the first request arrived" if other is None else f"offset {other} and at offset {offset}"
        yield of_repeats(
            "sent twice",
            WARNING,
            f"{place} {'may have' if other is None else 'has'} a batch twice",
            f"{client} got {reply} to exchange {first['n']} and sent the same batch again in exchange {row['n']}. It is in the log at "
            f"{fate}, because the producer is not idempotent: brokers cannot tell a repeat.",
            again,
        )


def _places_of(part: Data | None, batch: Facts) -> list[int] | None:
    """The offsets at which the log has a batch like this one, which has no producer id. None if the snapshot does not tell: brokers may
    have changed its time or its compression, and older batches are not shown."""
    found = _like(part, batch)
    return found if part is not None and batch["offset"] in found and (len(found) > 1 or _is_whole(part)) else None


def _is_whole(part: Data) -> bool:
    """Whether the snapshot has every batch of the log."""
    return bool(part["batches"][0][0] <= part["start"]) if part["batches"] else bool(part["start"] == part["end"])


def _offset_in(part: Data | None, pid: int, epoch: int, seq: int) -> int | None:
    """Where a batch is in the log, as far as the snapshot has it."""
    if part is None:
        return None
    found = [each[0] for each in part["batches"] if each[3:6] == [pid, epoch, seq]]
    found += [
        first_offset
        for each in part["producers"]
        if each["pid"] == pid and each["epoch"] == epoch
        for first, _, first_offset, *_ in each["batches"]
        if first == seq
    ]
    return found[0] if found else None


def gone(snapshot: Data, rows: Iterable[Row]) -> Iterator[Data]:
    """Records that were acknowledged, and that the log of today's leader does not have."""
    parts = partitions(snapshot)
    for row in rows:
        for batch in row["batches"]:
            part = parts.get((batch["topic"], batch["partition"]))
            offset = batch.get("offset", -1)
            if part is None or offset < 0 or offset < part["start"] or row["outcome"] != OK:
                continue
            if row["n"] <= part["made_n"]:
                continue  # It was another topic of that name.
            if offset < part["end"] and not _is_another(part, offset, batch):
                continue
            yield finding(
                "acknowledged and gone",
                BAD,
                f"{where(batch)} lost records that it had acknowledged",
                f"Exchange {row['n']} of {client_of(row)} was answered with offset {offset} (acks={row['acks']}). The log of the leader, "
                f"broker {part['leader']}, ends at {part['end']} or has another batch there: {_cause(snapshot)}.",
                rows=(row["n"],),
                topic=batch["topic"],
                partition=batch["partition"],
            )


def _cause(snapshot: Data) -> str:
    took_over = "a leader without these records took over"
    return took_over if snapshot["kind"] == "stub" else f"{took_over}, or the topic was made anew"


def _is_another(part: Data, offset: int, batch: Facts) -> bool:
    """Whether the log has another batch at that offset."""
    there = next((each for each in part["batches"] if each[0] <= offset <= each[1]), None)
    return there is not None and batch.get("pid", -1) >= 0 and there[3] >= 0 and there[3:5] != [batch["pid"], batch["epoch"]]


def unavailable(snapshot: Data) -> Iterator[Data]:
    """Partitions without a leader, or with fewer in-sync replicas than writes need."""
    for (topic, index), part in partitions(snapshot).items():
        if part["leader"] < 0:
            yield finding(
                "no leader", BAD, f"{topic}-{index} has no leader", f"Its replicas are on {part['replicas']}.", topic=topic, partition=index
            )
        elif len(part["isr"]) < part["min_isr"]:
            yield finding(
                "too few replicas",
                WARNING,
                f"{topic}-{index} refuses acks=all",
                f"Its in-sync replicas are {part['isr']}, and min.insync.replicas is {part['min_isr']}.",
                topic=topic,
                partition=index,
            )
