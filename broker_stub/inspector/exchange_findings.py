"""Findings from exchanges: lost replies, fenced producers, refused records, stale leaders, quotas, acks, and offsets of an old generation.

Pure functions of rows; each yields its findings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from fencepost.broker_stub.faults.rules import Point
from fencepost.broker_stub.inspector.batch_facts import Facts, identity
from fencepost.broker_stub.inspector.finding import BAD, NOTE, WARNING, Data, finding
from fencepost.broker_stub.inspector.rows import LOST, OK, OPEN, UNHEARD, Row
from fencepost.producer.foundations.counted import counted

UNANSWERED: Final = (LOST, OPEN, UNHEARD)
FENCED: Final = ("INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED")
REFUSED_RECORDS: Final = ("INVALID_RECORD", "MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "CORRUPT_MESSAGE", "INVALID_TIMESTAMP")
STALE: Final = ("NOT_LEADER_OR_FOLLOWER", "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH")
OLD_GENERATION: Final = ("ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID", "STALE_MEMBER_EPOCH", "FENCED_MEMBER_EPOCH")
TOO_FEW: Final = ("NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND")
STUCK_READS: Final = 5
"""So many reads with records from the same offset, and the consumer does not get past it."""

Repeat = tuple[Row, Row, Facts]
"""The exchange without a reply, the one that had the batch again, and the batch."""


def client_of(row: Row) -> str:
    return row["client"] or f"a client without id (connection {row['conn']})"


def where(batch: Facts) -> str:
    return f"{batch['topic']}-{batch['partition']}"


def is_told_after(row: Row) -> bool:
    """Whether a fault rule made the error after the broker had done what was asked."""
    return any(": error(" in fault and f" {Point.BEFORE.value}: error(" not in fault for fault in row["faults"])


def of_repeats(kind: str, level: str, title: str, text: str, again: list[Repeat]) -> Data:
    """A finding about a client's batches of one partition that came again. `text` is about the first of them."""
    more = f" So did {counted(len(again) - 1, 'more batch', 'more batches')}." if len(again) > 1 else ""
    batch = again[0][2]
    numbers = [number for first, row, _ in again for number in (first["n"], row["n"])]
    return finding(kind, level, title, text + more, rows=numbers, topic=batch["topic"], partition=batch["partition"])


def lost_replies(rows: Iterable[Row]) -> Iterator[Data]:
    """Batches that came again because the first reply was lost, and were answered; one finding for each client and partition."""
    by_number = {row["n"]: row for row in rows}
    found: dict[tuple[str, str], list[Repeat]] = {}
    for row in by_number.values():
        for batch in row["batches"]:
            first = by_number.get(batch.get("again", -1))
            if first is not None and first["outcome"] in UNANSWERED and "offset" in batch:
                found.setdefault((client_of(row), where(batch)), []).append((first, row, batch))
    for (client, place), again in found.items():
        first, row, batch = again[0]
        yield of_repeats(
            "lost reply",
            NOTE,
            f"{counted(len(again), 'lost reply', 'lost replies')}: {place} has {'the batch' if len(again) == 1 else 'each batch'} once",
            f"{client} got no reply to exchange {first['n']} and sent the batch {identity(batch['pid'], batch['epoch'])} seq "
            f"{batch['seq']}-{batch['last']} again in exchange {row['n']}. It is in the log once, at offset {batch['offset']}.",
            again,
        )


def unanswered_commits(rows: Iterable[Row]) -> Iterator[Data]:
    """Commits whose reply was lost: answered when the client asked again, or never. One finding for each transaction."""
    waiting: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        name = ", ".join(row["txn"])
        key = (name, str(row["identity"]))  # An older broker keeps the epoch for the next transaction, which begins with partitions.
        if row["api"] == "ADD_PARTITIONS_TO_TXN" and key in waiting:
            yield _unknown_commit(name, waiting.pop(key))
        if row["api"] != "END_TXN" or not row["asked"].startswith("COMMIT"):
            continue
        if row["outcome"] in UNANSWERED:
            waiting.setdefault(key, []).append(row)
        elif row["outcome"] == OK and key in waiting:
            lost = waiting.pop(key)
            yield finding(
                "lost reply",
                NOTE,
                f"lost reply to a commit: transaction {name} is committed once",
                f"{client_of(row)} got no reply to exchange {lost[0]['n']} and asked again in exchange {row['n']}, which was answered.",
                rows=[*(each["n"] for each in lost), row["n"]],
                tab="transactions",
            )
    for (name, _), lost in waiting.items():
        if lost[-1]["outcome"] != OPEN:
            yield _unknown_commit(name, lost)


def _unknown_commit(name: str, lost: list[Row]) -> Data:
    return finding(
        "unanswered commit",
        WARNING,
        f"{client_of(lost[-1])} does not know whether transaction {name} is committed",
        f"It got no reply to exchange {lost[-1]['n']}. The lanes of the transaction's partitions show what became of it.",
        rows=[row["n"] for row in lost],
        tab="transactions",
    )


def fenced(rows: Iterable[Row]) -> Iterator[Data]:
    """A zombie: requests with an epoch that another producer has replaced."""
    given: dict[int, Row] = {}
    found: dict[tuple[str, str], Data] = {}
    for row in rows:
        if row["api"] == "INIT_PRODUCER_ID" and not row["codes"] and row["response"] is not None:
            given[row["response"].get("producer_id", -1)] = row
        if not any(code in FENCED for code in row["codes"]):
            continue
        identities = [[batch["pid"], batch["epoch"]] for batch in row["batches"] if batch.get("pid", -1) >= 0] or [
            row["identity"] or [-1, -1]
        ]
        pid, epoch = identities[0]
        key = (client_of(row), identity(pid, epoch))
        newer = given.get(pid)
        if newer is not None and newer["response"].get("producer_epoch", -1) <= epoch:
            newer = None  # Nothing replaced it: a fault rule says so, or the coordinator did it without a client.
            replaced = ""
        else:
            replaced = ", which is replaced,"
        now = f" Exchange {newer['n']} gave {newer['told']} to {client_of(newer)}." if newer is not None else ""
        if key in found:
            found[key]["rows"].append(row["n"])
            continue
        found[key] = finding(
            "fenced zombie",
            WARNING,
            f"{client_of(row)} is fenced",
            f"It uses {key[1]}{replaced} and {row['api']} in exchange {row['n']} was refused: {', '.join(row['codes'])}.{now}"
            + ("" if is_told_after(row) else " These records are not in the log." if row["batches"] else " The request changed nothing."),
            rows=(row["n"], *((newer["n"],) if newer is not None else ())),
            topic=row["topics"][0] if row["topics"] else None,
        )
    yield from found.values()


def refused_records(rows: Iterable[Row]) -> Iterator[Data]:
    """A batch that the broker refuses because of a record in it."""
    for row in rows:
        for batch in row["batches"]:
            if batch.get("code") not in REFUSED_RECORDS:
                continue
            bad = "; ".join(f"record {index}: {why or 'no reason given'}" for index, why in batch.get("records", ()))
            yield finding(
                "poison record",
                WARNING,
                f"{where(batch)} refuses a record of {client_of(row)}",
                f"{batch['code']}: {bad or batch.get('why') or 'the broker gives no reason'}."
                + ("" if is_told_after(row) else f" The whole batch of {counted(batch['count'], 'record')} is not in the log."),
                rows=(row["n"],),
                topic=batch["topic"],
                partition=batch["partition"],
            )


def stuck_readers(rows: Iterable[Row]) -> Iterator[Data]:
    """A consumer that reads the same record again and again."""
    reads: dict[tuple[str, str, int, int], list[int]] = {}
    for row in rows:
        if row["api"] != "FETCH" or row["quiet"] or row["response"] is None:
            continue
        for topic, partition, offset in _asked(row):
            reads.setdefault((client_of(row), topic, partition, offset), []).append(row["n"])
    for (client, topic, partition, offset), numbers in reads.items():
        if len(numbers) >= STUCK_READS:
            yield finding(
                "poison record",
                WARNING,
                f"{client} read from offset {offset} of {topic}-{partition} {len(numbers)} times",
                "Its program may fail at a record there and read it again, or several consumers have that client id.",
                rows=(numbers[-1], *numbers[:-1]),
                topic=topic,
                partition=partition,
            )


def _asked(row: Row) -> Iterator[tuple[str, int, int]]:
    for topic in row["request"].get("topics", ()):
        if isinstance(topic, dict):
            name = topic.get("topic") or topic.get("topic_id") or "?"
            for part in topic.get("partitions", ()):
                if isinstance(part, dict):
                    yield name, part.get("partition", 0), part.get("fetch_offset", 0)


def stale_leaders(rows: Iterable[Row], changes: Iterable[Data]) -> Iterator[Data]:
    """A request to a broker that does not lead any more."""
    moved = {(each["topic"], each["partition"]): each for each in changes if each["what"] == "leader"}
    found: dict[tuple[str, int, str], Data] = {}
    for row in rows:
        code = next((code for code in row["codes"] if code in STALE), None)
        if code is None:
            continue
        topic = row["topics"][0] if row["topics"] else "a partition"
        refused = next((each for each in row["batches"] if each.get("code") in STALE), None)
        partition = refused["partition"] if refused is not None else None
        change = moved.get((topic, partition)) if partition is not None else next((e for (t, _), e in moved.items() if t == topic), None)
        key = (topic, row["node"], client_of(row))
        if key in found:
            found[key]["rows"].append(row["n"])
            continue
        moved_on = change is not None and change["after"][0] != row["node"]
        effect = "" if is_told_after(row) else ", so nothing was written"
        led = f" Broker {change['after'][0]} leads in epoch {change['epoch']}." if change is not None and moved_on else ""
        found[key] = finding(
            "stale leader",
            NOTE,
            f"{client_of(row)} asked broker {row['node']}, which does not lead {topic}",
            f"{row['api']} in exchange {row['n']} got {code}{effect}.{led} The client asks for metadata and goes there.",
            rows=(row["n"],),
            topic=topic,
            partition=partition,
        )
    yield from found.values()


def throttled(rows: Iterable[Row]) -> Iterator[Data]:
    """Clients over their quota."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row["throttle"]:
            found.setdefault(client_of(row), []).append(row)
    for client, late in found.items():
        worst = max(late, key=lambda each: int(each["throttle"]))
        yield finding(
            "quota",
            WARNING,
            f"{client} is throttled",
            f"{counted(len(late), 'response')} told it to wait, up to {worst['throttle']} ms (exchange {worst['n']}). It is over a quota "
            "of bytes, requests or connections, or a fault rule says so.",
            rows=(worst["n"], *(each["n"] for each in late if each is not worst)),
        )


def weak_acks(rows: Iterable[Row], replicas: dict[tuple[str, int], int]) -> Iterator[Data]:
    """Writes that are acknowledged before the followers have them, and writes that too few replicas refuse."""
    weak: dict[tuple[str, int], tuple[list[int], Facts]] = {}
    few: dict[tuple[str, str], tuple[list[int], Facts, str]] = {}
    for row in rows:
        for batch in row["batches"]:
            if row["acks"] in (0, 1) and replicas.get((batch["topic"], batch["partition"]), 1) > 1:
                weak.setdefault((client_of(row), row["acks"]), ([], batch))[0].append(row["n"])
            if batch.get("code") in TOO_FEW:
                few.setdefault((client_of(row), where(batch)), ([], batch, batch["code"]))[0].append(row["n"])
    for (client, acks), (numbers, batch) in weak.items():
        what = "no response at all" if acks == 0 else "a response before a follower has the records"
        yield finding(
            "wrong acks",
            WARNING,
            f"{client} writes with acks={acks}",
            f"It asks for {what}, in {counted(len(numbers), 'exchange')}. If the leader fails then, they are lost. acks=all prevents that.",
            rows=numbers,
            topic=batch["topic"],
            partition=batch["partition"],
        )
    for (client, place), (numbers, batch, code) in few.items():
        yield finding(
            "wrong acks",
            WARNING,
            f"{place} has too few in-sync replicas for {client}",
            f"{code} in {counted(len(numbers), 'exchange')}: the partition's in-sync replicas are fewer than min.insync.replicas.",
            rows=numbers,
            topic=batch["topic"],
            partition=batch["partition"],
            tab="topics",
        )


def old_generations(rows: Iterable[Row]) -> Iterator[Data]:
    """Offsets that a member sent in a transaction after its group had rebalanced."""
    for row in rows:
        code = next((code for code in row["codes"] if code in OLD_GENERATION), None)
        if code is None or row["api"] not in ("TXN_OFFSET_COMMIT", "OFFSET_COMMIT"):
            continue
        group = row["groups"][0] if row["groups"] else "?"
        inside = row["api"] == "TXN_OFFSET_COMMIT"
        end = (
            f"Transaction {', '.join(row['txn']) or '?'} can only be aborted."
            if inside
            else "The next member reads from the offset before."
        )
        yield finding(
            "rebalance in a transaction" if inside else "rebalance before a commit",
            WARNING,
            f"Group {group} rebalanced before {client_of(row)} committed its offsets",
            f"{code} in exchange {row['n']}: {row['asked']}. The partitions belong to another member or generation. {end}",
            rows=(row["n"],),
            tab="",
        )


def sequence_gaps(rows: Iterable[Row]) -> Iterator[Data]:
    """A batch whose predecessor the log does not have."""
    for row in rows:
        for batch in row["batches"]:
            if batch.get("code") == "OUT_OF_ORDER_SEQUENCE_NUMBER":
                yield finding(
                    "sequence gap",
                    BAD,
                    f"{where(batch)} refuses a batch of {client_of(row)}: an earlier one is missing",
                    f"Exchange {row['n']} has {identity(batch['pid'], batch['epoch'])} seq {batch['seq']}. The log lacks the one before.",
                    rows=(row["n"],),
                    topic=batch["topic"],
                    partition=batch["partition"],
                    tab="producers",
                )


def every(rows: list[Row], changes: list[Data], replicas: dict[tuple[str, int], int]) -> list[Any]:
    """All of them."""
    return [
        *sequence_gaps(rows),
        *fenced(rows),
        *old_generations(rows),
        *refused_records(rows),
        *stuck_readers(rows),
        *weak_acks(rows, replicas),
        *throttled(rows),
        *stale_leaders(rows, changes),
        *lost_replies(rows),
        *unanswered_commits(rows),
    ]
