"""Medians and ratios of measurements, as a table and as rows for JSON.

A ratio compares two measurements of one round, which are close in time. The table has the median of the ratios over the rounds. A machine
that is slower in one round is slower for both. It judges nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median

import msgspec
from rich.table import Table

from tests.bench.load import Contender, Figures, Measurement, Scenario, fewer


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One contender on one broker in one scenario: medians over the rounds, and ratios to confluent-kafka and to the ceiling.

    `burst_ratio`, `send_ratio`, `cpu_ratio`: below 1 is cheaper than confluent-kafka. `acked_ratio`: above 1 is more records per second.
    `ceiling_share`: acknowledged records per second as a share of the ceiling's.
    """

    broker: str
    scenario: Scenario
    contender: Contender
    partitions: int
    codec: str
    rounds: int
    acked_per_s: float
    cpu_ns: float
    burst_us: float | None
    send_us: float | None
    burner_share: float | None
    burst_ratio: float | None
    send_ratio: float | None
    acked_ratio: float | None
    cpu_ratio: float | None
    ceiling_share: float | None
    p50_us: float | None
    p99_us: float | None
    p50_ratio: float | None
    p99_ratio: float | None
    grown_bytes: float | None
    grown_share: float | None


Where = tuple[str, Scenario, int, str]
"""The key of a table: broker, scenario, partitions, codec."""


def summarize(measured: Sequence[Measurement]) -> list[Row]:
    """One row for every measured broker, scenario, number of partitions, codec and contender."""
    groups: dict[tuple[Where, Contender], dict[int, Figures]] = {}
    for one in measured:
        where = (one.broker, one.scenario, one.partitions, one.codec)
        groups.setdefault((where, one.contender), {})[one.round] = one.figures
    rows = []
    for where, contender in in_reading_order(groups):
        ours = groups[where, contender]
        theirs = groups.get((where, Contender.CONFLUENT), {})
        ceiling = groups.get((where, Contender.CEILING), {})
        broker, scenario, partitions, codec = where
        rows.append(
            Row(
                broker=broker,
                scenario=scenario,
                contender=contender,
                partitions=partitions,
                codec=codec,
                rounds=len(ours),
                acked_per_s=median(figures.acked_per_s for figures in ours.values()),
                cpu_ns=median(figures.cpu_ns for figures in ours.values()),
                burst_us=middle(figures.burst_us for figures in ours.values()),
                send_us=middle(figures.send_us for figures in ours.values()),
                burner_share=middle(figures.burner_share for figures in ours.values()),
                burst_ratio=ratio(ours, theirs, lambda figures: figures.burst_us),
                send_ratio=ratio(ours, theirs, lambda figures: figures.send_us),
                acked_ratio=ratio(ours, theirs, lambda figures: figures.acked_per_s),
                cpu_ratio=ratio(ours, theirs, lambda figures: figures.cpu_ns),
                ceiling_share=ratio(ours, ceiling, lambda figures: figures.acked_per_s),
                p50_us=middle(figures.p50_us for figures in ours.values()),
                p99_us=middle(figures.p99_us for figures in ours.values()),
                p50_ratio=ratio(ours, theirs, lambda figures: figures.p50_us),
                p99_ratio=ratio(ours, theirs, lambda figures: figures.p99_us),
                grown_bytes=middle(figures.grown_bytes for figures in ours.values()),
                grown_share=middle(figures.grown_share for figures in ours.values()),
            )
        )
    return rows


def in_reading_order(keys: Iterable[tuple[Where, Contender]]) -> list[tuple[Where, Contender]]:
    """Brokers, partitions and codecs in the order of measurement; scenarios and contenders as declared."""
    places = {where: place for place, where in enumerate(dict.fromkeys(where for where, _ in keys))}
    contenders = list(Contender)
    return sorted(keys, key=lambda key: (places[key[0]], contenders.index(key[1])))


def middle(values: Iterable[float | None]) -> float | None:
    """The median of the values that are not None; None if there are none."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


def ratio(ours: dict[int, Figures], theirs: dict[int, Figures], figure: Callable[[Figures], float | None]) -> float | None:
    """The median over the rounds of the ratio of two contenders' values."""
    ratios = []
    for number, mine in ours.items():
        above, below = figure(mine), figure(theirs[number]) if number in theirs else None
        if above is not None and below:
            ratios.append(above / below)
    return median(ratios) if ratios else None


def tables(rows: Sequence[Row]) -> Iterable[Table]:
    """One table for every broker, scenario, number of partitions and codec. The multiples compare with confluent-kafka."""
    for where in dict.fromkeys((row.broker, row.scenario, row.partitions, row.codec) for row in rows):
        shown = [row for row in rows if (row.broker, row.scenario, row.partitions, row.codec) == where]
        broker, scenario, partitions, codec = where
        many = f"{partitions} partition{'s' if partitions > 1 else ''}"
        title = f"{broker}: {scenario.value}; {many}, {'no codec' if codec == 'none' else codec}; medians of {shown[0].rounds}"
        table = Table(title=title, title_justify="left")
        table.add_column("")
        columns = COLUMNS.get(scenario, THROUGHPUT)
        for heading in columns:
            table.add_column(heading, justify="right")
        for row in shown:
            divisor = fewer(row.contender, scenario)
            name = row.contender.value if divisor == 1 else f"{row.contender.value} (1/{divisor} of the records)"
            table.add_row(name, *(show(row) for show in columns.values()))
        yield table


def with_ratio(value: float | None, share: float | None, unit: str) -> str:
    if value is None:
        return ""
    text = f"{value:.0f} {unit}" if value >= 10 else f"{value:.2f} {unit}"
    return text if share is None else f"{text}  ×{share:.2f}"


def percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


THROUGHPUT: Mapping[str, Callable[[Row], str]] = {
    "call, room left": lambda row: with_ratio(row.burst_us, row.burst_ratio, "µs"),
    "call, long run": lambda row: with_ratio(row.send_us, row.send_ratio, "µs"),
    "acked records/s": lambda row: with_ratio(row.acked_per_s / 1e6, row.acked_ratio, "M"),
    "of ceiling": lambda row: percent(row.ceiling_share),
    "CPU per record": lambda row: with_ratio(row.cpu_ns, row.cpu_ratio, "ns"),
}
COLUMNS: Mapping[Scenario, Mapping[str, Callable[[Row], str]]] = {
    Scenario.BESIDE_BURNER: {**THROUGHPUT, "burner's core": lambda row: percent(row.burner_share)},
    Scenario.LONE: {
        "p50": lambda row: with_ratio(row.p50_us, row.p50_ratio, "µs"),
        "p99": lambda row: with_ratio(row.p99_us, row.p99_ratio, "µs"),
        "CPU per record": lambda row: with_ratio(row.cpu_ns / 1e3, row.cpu_ratio, "µs"),
    },
    Scenario.MEMORY: {
        "acked records/s": lambda row: with_ratio(row.acked_per_s / 1e6, row.acked_ratio, "M"),
        "memory at most": lambda row: "" if row.grown_bytes is None else f"+{row.grown_bytes / 2**20:.1f} MiB",
        "of the buffer": lambda row: percent(row.grown_share),
    },
}
"""The columns of the tables after the name."""
