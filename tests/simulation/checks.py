"""What must be true after a simulated run with any faults: every outcome is correct, no record is duplicated, and the order is kept."""

from __future__ import annotations

from fencepost.producer.accumulator.accumulator import Accumulator
from fencepost.producer.errors import Persisted
from tests.simulation.callers import NEVER, Callers
from tests.simulation.chaos import TOPIC, Chaos, Sent

Log = list[tuple[int, bytes]]

GONE = "not in the log any more"
HARDLY_MS = 500.0
METADATA_MAX = 150
"""The most Metadata requests in a run: faults last for 20 s, and after an answer without news the pauses grow to half a second."""


def check(chaos: Chaos) -> dict[str, int]:
    """Compare every outcome with the logs. Return how many records ended in each way."""
    now = [(partition, chaos.world.log(TOPIC, partition)) for partition in range(chaos.partitions)]
    if chaos.exactly_once:
        for partition, log in chaos.deleted + now:
            check_log(chaos, partition, [value for _, value in log])
    places = [dict[bytes, list[int]]() for _ in range(chaos.partitions)]
    for partition, log in chaos.deleted + now:
        for offset, value in log:
            places[partition].setdefault(value, []).append(offset)
    tally: dict[str, int] = {}
    for sent in chaos.sent:
        outcome = check_outcome(sent, places[sent.partition].get(sent.value, []), exact=chaos.exactly_once)
        if GONE in str(sent.future.batch.failure):
            assert sent.value not in {value for _, value in now[sent.partition][1]}, f"{sent.value[:6]!r} is in the log: {GONE}"
        tally[outcome] = tally.get(outcome, 0) + 1
    if not chaos.topic_config:  # only the core knows the offsets of a split batch's halves
        check_order_of_outcomes(chaos)
        limit = chaos.world.settings.max_in_flight
        assert chaos.world.widest <= limit, f"{chaos.world.widest} unresolved batches of one partition, more than {limit}"
    check_ends(chaos)
    check_memory(chaos.world.accumulator)
    if chaos.callers:
        tally["claimed"] = check_bulks(chaos.callers, dict(now))
    asked = chaos.world.counts.get("METADATA", 0)
    assert asked <= METADATA_MAX, f"metadata was asked for {asked} times"
    return tally


def check_log(chaos: Chaos, partition: int, values: list[bytes]) -> None:
    """Every record is there at most once, in the order of the sends."""
    twice = sorted({value for value in values if values.count(value) > 1}) if len(values) != len(set(values)) else []
    assert not twice, f"partition {partition}: doubled {twice[:3]}"
    if chaos.first_epoch:
        # A new producer id does not fence late requests of the old one. Their records were reported as MAYBE.
        unsure = {sent.value for sent in chaos.sent if _persisted(sent) is Persisted.MAYBE}
        values = [value for value in values if value not in unsure]
    assert sorted(values, key=caller) == sorted(values, key=lambda value: (caller(value), value)), f"partition {partition}: out of order"


def check_outcome(sent: Sent, offsets: list[int], *, exact: bool) -> str:
    """The caller's outcome agrees with the log: an acknowledged record is at its offset.

    `offsets`: where the value is, in this topic or in a deleted topic of that name. Returns a name for the outcome.
    """
    batch = sent.future.batch
    persisted = _persisted(sent)
    if persisted is None:
        assert offsets, f"lost: {sent.value[:6]!r} was acknowledged"
        told = sent.future.result().offset
        assert not exact or told in offsets, f"{sent.value[:6]!r} was acknowledged at {told} and is at {offsets}"
        return "acked"
    assert persisted is not Persisted.NO or not offsets, f"{sent.value[:6]!r} is in the log: {batch.failure}"
    assert persisted is not Persisted.YES or offsets, f"{sent.value[:6]!r} is not in the log: {batch.failure}"
    return persisted.name


def check_memory(accumulator: Accumulator) -> None:
    """The producer holds no memory, no batches and no waiting callers."""
    queues = [queue for topic in accumulator.topics.values() for queue in topic.queues]
    left = accumulator.used, accumulator.waiting, len(accumulator._incomplete), sum(queue.queued_bytes for queue in queues)
    assert left == (0, 0, 0, 0), f"left over: {left} bytes, waiting, batches, bytes in queues"


def check_bulks(callers: Callers, logs: dict[int, Log]) -> int:
    """Every row that a bulk claims is at that offset, in order. Each other row failed as the bulk says, or is in no log.

    Returns how many rows were claimed.
    """
    there = {(partition, offset): value for partition, log in logs.items() for offset, value in log}
    written = set(there.values())
    assert NEVER not in written
    claimed = 0
    for called in callers.called:
        rows = {value: row for row, value in enumerate(called.values)}
        if called.bulk is None:
            assert not rows.keys() & written, "rows were accepted, and the caller has no future for them"
            continue
        assert called.bulk.done(), "a bulk has no outcome"
        deliveries = called.bulk.result(0)
        assert deliveries.acknowledged + len(deliveries.failures) == called.bulk.accepted
        assert not (called.whole and called.poisoned and called.bulk.accepted), "accepted with a row that cannot be sent"
        found = set()
        for partition, spans in deliveries.offsets.items():
            values = [there.get((partition, offset), b"") for span in spans for offset in span]
            assert set(values) <= rows.keys(), f"partition {partition}: {set(values) - rows.keys()} is claimed"
            assert values == sorted(values)
            found |= set(values)
        assert len(found) == deliveries.acknowledged, f"{deliveries.acknowledged} acknowledged, and {len(found)} claimed"
        for row, failure in deliveries.failures.items():
            assert failure.persisted is not Persisted.NO or called.values[row] not in written
            assert failure.persisted is not Persisted.YES or called.values[row] in written
        failed = {called.values[row] for row in deliveries.failures}
        assert not found & failed
        assert rows.keys() & written <= found | failed, "rows were accepted, and the bulk reports no outcome for them"
        claimed += len(found)
    return claimed


def check_ends(chaos: Chaos) -> None:
    """Every record has its outcome at most a little after its deadline and `resolve_grace_ms`."""
    settings = chaos.world.settings
    patience_ms = settings.delivery_timeout_ms + settings.resolve_grace_ms + HARDLY_MS
    late = [at - settle.batch.created_ms for at, settle in chaos.world.settled if at - settle.batch.created_ms > patience_ms]
    assert not late, f"{len(late)} batches had their outcome after {max(late):.0f} ms"


def check_order_of_outcomes(chaos: Chaos) -> None:
    """A partition's outcomes come in the order of its records."""
    order = {id(sent.future.batch): place for place, sent in reversed(list(enumerate(chaos.sent)))}
    last = [-1] * chaos.partitions
    for _, settle in chaos.world.settled:
        place = order.get(id(settle.batch), -1)
        if place < 0 and chaos.callers:
            continue  # a bulk's record
        partition = int(settle.batch.partition)
        assert place > last[partition], f"partition {partition}: outcomes out of order"
        last[partition] = place


def caller(value: bytes) -> bytes:
    """The caller of the record: a bulk's name, or an empty string for single records."""
    name, _, row = value.partition(b" ")
    return name if row else b""


def _persisted(sent: Sent) -> Persisted | None:
    failure = sent.future.batch.failure
    return failure.persisted if failure is not None else None
