"""`fencepost demo`: sends the flights of 2013 through a cluster with faults, and reports the result."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from fencepost.cli.console import Screen
from fencepost.cli.error_lines import CommandError
from fencepost.cli.output import say
from fencepost.cli.waiting import waiting
from fencepost.demo import FLIGHTS_TOTAL, FlightsMissing, load_flights
from fencepost.producer import FencepostError
from fencepost.producer.foundations.counted import counted

if TYPE_CHECKING:
    from fencepost.demo import Report

OPEN_S = 30  # for the brokers to answer and to create a topic
ROWS_MIN = 2_000  # with fewer rows there are not enough batches for every fault


def demo(
    rows: Annotated[int, typer.Option(help=f"Send only this many flights; at least {ROWS_MIN}.")] = FLIGHTS_TOTAL,
    bootstrap: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Use this Kafka, through a fault proxy, instead of the stub.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the table.")] = False,
    share: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the end of the idempotent run as a page to this HTML file."),
    ] = None,
) -> None:
    """Send every flight that left New York in 2013 while replies, connections, leaders and brokers fail; then read back and count.

    Exit code 0 only if the demo shows all of this: no record was lost, duplicated or reordered; every kind of fault happened; the brokers
    refused duplicate batches; and the same run without idempotence duplicated records.
    """
    from confluent_kafka import KafkaException

    from fencepost.demo import as_json, as_table, problems, run_demo

    begun = time.monotonic()
    errors = Screen(stderr=True)
    if not ROWS_MIN <= rows <= FLIGHTS_TOTAL:
        raise CommandError(f"--rows {rows} is out of range: give {ROWS_MIN} to {FLIGHTS_TOTAL}")
    try:
        with Bars(errors) as bars, ExitStack() as opening:
            if bootstrap is not None:
                opening.enter_context(waiting(f"the brokers at {bootstrap}, for at most {OPEN_S} s"))
                bars.begun = opening.close
            report = run_demo(load_flights(rows), upstream=bootstrap, audience=bars, share=share)
    except FlightsMissing as error:
        raise CommandError(str(error)) from None
    except (FencepostError, KafkaException, OSError, ValueError) as error:
        raise CommandError(str(error), code=1) from None
    found = problems(report)
    if json:
        say(as_json(report))
    else:
        Screen().print(as_table(report), Text.from_markup(_verdict(report, found, time.monotonic() - begun)), sep="\n")
    if share is not None:
        errors.say(f"what happened, as a page: {share.resolve()}")
    for problem in found:
        errors.say(f"fencepost demo: {problem}", style="red")
    raise typer.Exit(1 if found else 0)


class Bars:
    """One progress bar for each part of the demo."""

    def __init__(self, console: Screen) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self.begun: Callable[[], None] = lambda: None
        self._progress = Progress(*columns, console=console)

    def act(self, title: str, total: int) -> Callable[[int], None]:
        self.begun()
        task = self._progress.add_task(title, total=total)
        return lambda done: self._progress.update(task, completed=done)

    def __enter__(self) -> Bars:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()


def _verdict(report: Report, found: list[str], seconds: float) -> str:
    if found:
        return f"[bold red]not shown[/] ({seconds:.0f} s)"
    ours, other = report.idempotent, report.without_idempotence
    return (
        f"[bold green]{ours.sent:,} flights sent, {ours.in_log:,} in the log, each once and in order[/]; "
        f"without idempotence the same faults left {counted(other.doubled, 'duplicate', spec=',')} ({seconds:.0f} s)"
    )
