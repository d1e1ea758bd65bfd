"""What holds after a simulated run, whatever the trouble was: every outcome is true, nothing is doubled, order is kept."""

from __future__ import annotations

from producer.core.errors import Persisted
from tests.simulation.chaos import TOPIC, Chaos, Sent

Log = list[tuple[int, bytes]]


def check(chaos: Chaos) -> dict[str, int]:
    """Compare every outcome with the logs. Returns how many records ended how."""
    now = [(partition, chaos.world.log(TOPIC, partition)) for partition in range(chaos.partitions)]
    if chaos.exactly_once:
        for partition, log in chaos.deleted + now:
            check_log(chaos, partition, [value for _, value in log])
    places = [dict[bytes, int]() for _ in range(chaos.partitions)]
    for partition, log in chaos.deleted:
        places[partition] |= {value: -1 for _, value in log}  # offsets begin anew with each topic of the name
    for partition, log in now:
        places[partition] |= {value: offset for offset, value in log}
    tally: dict[str, int] = {}
    for sent in chaos.sent:
        outcome = check_outcome(sent, places[sent.partition].get(sent.value), exact=chaos.exactly_once and not chaos.deleted)
        tally[outcome] = tally.get(outcome, 0) + 1
    if not chaos.topic_config:  # a split batch is settled through its halves, which nobody outside can place
        check_order_of_outcomes(chaos)
        limit = chaos.world.settings.max_in_flight
        assert chaos.world.widest <= limit, f"{chaos.world.widest} unresolved batches of one partition, more than {limit}"
    return tally


def check_log(chaos: Chaos, partition: int, values: list[bytes]) -> None:
    """Nothing twice, and everything in the order in which it was sent."""
    twice = sorted({value for value in values if values.count(value) > 1}) if len(values) != len(set(values)) else []
    assert not twice, f"partition {partition}: doubled {twice[:3]}"
    if chaos.first_epoch:
        # A new producer id does not fence requests of the old one that are still under way; what they carry was reported as MAYBE.
        unsure = {sent.value for sent in chaos.sent if _persisted(sent) is Persisted.MAYBE}
        values = [value for value in values if value not in unsure]
    assert values == sorted(values), f"partition {partition}: out of order"


def check_outcome(sent: Sent, offset: int | None, *, exact: bool) -> str:
    """What the caller was told is what the log says. Returns a name for the outcome."""
    batch = sent.future.batch
    persisted = _persisted(sent)
    if persisted is None:
        assert offset is not None, f"lost: {sent.value!r} was acknowledged"
        assert batch.base_offset < 0 or not exact or sent.future.result().offset == offset
        return "acked" if batch.base_offset >= 0 else "acked without offset"
    assert persisted is not Persisted.NO or offset is None, f"{sent.value!r} is in the log: {batch.failure}"
    assert persisted is not Persisted.YES or offset is not None, f"{sent.value!r} is not in the log: {batch.failure}"
    return persisted.name


def check_order_of_outcomes(chaos: Chaos) -> None:
    """A partition's outcomes are published in the order of its records."""
    order = {id(sent.future.batch): place for place, sent in reversed(list(enumerate(chaos.sent)))}
    last = [-1] * chaos.partitions
    for _, settle in chaos.world.settled:
        place = order.get(id(settle.batch), -1)
        partition = int(settle.batch.partition)
        assert place > last[partition], f"partition {partition}: outcomes out of order"
        last[partition] = place


def _persisted(sent: Sent) -> Persisted | None:
    failure = sent.future.batch.failure
    return failure.persisted if failure is not None else None
