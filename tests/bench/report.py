"""Medians and ratios of what was measured, as a table and as rows for JSON.

A ratio is taken inside a round, between neighbours in time, and then its median over the rounds: a machine that is slower in one round
is slower for both. It judges nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import median

import msgspec
from rich.table import Table

from tests.bench.load import Contender, Figures, Measurement, Scenario


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One contender on one broker in one scenario: medians over the rounds, and ratios to confluent-kafka's and the ceiling's.

    `burst_ratio`, `send_ratio`, `cpu_ratio`: below 1 is cheaper than confluent-kafka. `acked_ratio`: above 1 is more records per second.
    `ceiling_share`: acknowledged records per second as a share of the ceiling's.
    """

    broker: str
    scenario: Scenario
    contender: Contender
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


def summarize(measured: Sequence[Measurement]) -> list[Row]:
    """A row for every broker, scenario and contender that was measured."""
    groups: dict[tuple[str, Scenario, Contender], dict[int, Figures]] = {}
    for one in measured:
        groups.setdefault((one.broker, one.scenario, one.contender), {})[one.round] = one.figures
    rows = []
    for broker, scenario, contender in in_reading_order(groups):
        ours = groups[broker, scenario, contender]
        theirs = groups.get((broker, scenario, Contender.CONFLUENT), {})
        ceiling = groups.get((broker, scenario, Contender.CEILING), {})
        rows.append(
            Row(
                broker=broker,
                scenario=scenario,
                contender=contender,
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
            )
        )
    return rows


def in_reading_order(keys: Iterable[tuple[str, Scenario, Contender]]) -> list[tuple[str, Scenario, Contender]]:
    """Brokers as they were measured, the rest as it is declared."""
    brokers = list(dict.fromkeys(broker for broker, _, _ in keys))
    scenarios, contenders = list(Scenario), list(Contender)
    return sorted(keys, key=lambda key: (brokers.index(key[0]), scenarios.index(key[1]), contenders.index(key[2])))


def middle(values: Iterable[float | None]) -> float | None:
    """The median of what there is, None when there is nothing."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


def ratio(ours: dict[int, Figures], theirs: dict[int, Figures], figure: Callable[[Figures], float | None]) -> float | None:
    """The median over the rounds of ours / theirs."""
    ratios = []
    for number, mine in ours.items():
        above, below = figure(mine), figure(theirs[number]) if number in theirs else None
        if above is not None and below:
            ratios.append(above / below)
    return median(ratios) if ratios else None


def tables(rows: Sequence[Row]) -> Iterable[Table]:
    """One table for every broker and scenario. The multiples are those of confluent-kafka's figure."""
    for broker, scenario in dict.fromkeys((row.broker, row.scenario) for row in rows):
        shown = [row for row in rows if (row.broker, row.scenario) == (broker, scenario)]
        beside = any(row.burner_share is not None for row in shown)
        table = Table(title=f"{broker}: {scenario.value}; medians of {shown[0].rounds}", title_justify="left")
        table.add_column("")
        for heading in ("call, room left", "call, long run", "acked records/s", "of ceiling", "CPU per record"):
            table.add_column(heading, justify="right")
        if beside:
            table.add_column("burner's core", justify="right")
        for row in shown:
            cells = [
                row.contender.value,
                with_ratio(row.burst_us, row.burst_ratio, "µs"),
                with_ratio(row.send_us, row.send_ratio, "µs"),
                with_ratio(row.acked_per_s / 1e6, row.acked_ratio, "M"),
                percent(row.ceiling_share),
                with_ratio(row.cpu_ns, row.cpu_ratio, "ns"),
            ]
            table.add_row(*cells, *([percent(row.burner_share)] if beside else []))
        yield table


def with_ratio(value: float | None, share: float | None, unit: str) -> str:
    if value is None:
        return ""
    text = f"{value:.0f} {unit}" if value >= 10 else f"{value:.2f} {unit}"
    return text if share is None else f"{text}  ×{share:.2f}"


def percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"
