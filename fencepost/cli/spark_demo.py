"""`fencepost spark-demo`: writes the flights of 2013 with Spark, kills its executors and driver, and reports the result."""

from __future__ import annotations

import signal
import sys
import time
from typing import Annotated

import typer

from fencepost.cli.console import Screen
from fencepost.cli.error_lines import CommandError
from fencepost.demo import FLIGHTS_TOTAL, FlightsMissing, load_flights
from fencepost.producer import FencepostError

ROWS_MIN = 60_000  # Spark writes fewer rows too fast for a kill in the middle of a batch


def spark_demo(
    rows: Annotated[int, typer.Option(help=f"Write only this many flights; at least {ROWS_MIN}.")] = FLIGHTS_TOTAL,
) -> None:
    """Write every flight that left New York in 2013 with Spark while an executor and then the driver are killed; read back and count.

    Everything runs on this machine, the broker included. Exit code 1 if the guarded run lost or duplicated a row, or if no process was
    killed in it.
    """
    from confluent_kafka import KafkaException

    begun = time.monotonic()
    console, errors = Screen(), Screen(stderr=True)
    if not ROWS_MIN <= rows <= FLIGHTS_TOTAL:
        raise CommandError(f"--rows {rows} is out of range: give {ROWS_MIN} to {FLIGHTS_TOTAL}")
    # SIGTERM must end the processes that the demo started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        import fencepost.txn.spark  # noqa: F401  # its ImportError names what is missing
        from fencepost.spark_demo import as_table, problems, run_spark_demo

        report = run_spark_demo(load_flights(rows), errors.say)
    except (ImportError, FlightsMissing) as error:
        raise CommandError(str(error)) from None
    except (FencepostError, KafkaException, OSError, TimeoutError) as error:
        raise CommandError(str(error), code=1) from None
    console.print(as_table(report))
    console.say(f"{time.monotonic() - begun:.0f} s")
    found = problems(report)
    for problem in found:
        errors.say(f"fencepost spark-demo: {problem}", style="red")
    raise typer.Exit(1 if found else 0)
