"""`fencepost produce`: sends a file or a pipe to a topic, and reports the records that failed.

It takes the format from the file's suffix. It guesses no types from the content: a value that is no string or binary is sent as its JSON
text.
"""

from __future__ import annotations

import enum
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from fencepost.cli.error_lines import CommandError, reporting_errors
from fencepost.cli.options import Bootstrap, bootstrap_from, client_settings
from fencepost.cli.waiting import waiting
from fencepost.producer.foundations.counted import counted

if TYPE_CHECKING:
    from fencepost.cli.console import Screen
    from fencepost.cli.failed_records_file import FailedRecords
    from fencepost.cli.inputs import Fields
    from fencepost.cli.sending import Failure, Outcome, Sending
    from fencepost.cli.stopping import Stop
    from fencepost.producer import Producer

TOPIC_WAIT_S: Final = 15.0
FULL_WAIT_S: Final = 60.0
ACCEPT_MS: Final = 500
SHOWN_MAX: Final = 20


class Format(enum.StrEnum):
    """The format of the input."""

    LINES = "lines"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


SUFFIXES: Final = {
    ".json": Format.JSON,
    ".jsonl": Format.JSON,
    ".ndjson": Format.JSON,
    ".csv": Format.CSV,
    ".parquet": Format.PARQUET,
    ".pq": Format.PARQUET,
}


def produce(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="The file to send; - is standard input.")],
    topic: Annotated[str, typer.Option(help="Where to.")],
    bootstrap: Bootstrap = None,
    format: Annotated[Format | None, typer.Option(help="The format; default: by the file's suffix, lines for other suffixes.")] = None,
    key_field: Annotated[str | None, typer.Option(metavar="NAME", help="The field or column that is the key.")] = None,
    value_field: Annotated[
        str | None, typer.Option(metavar="NAME", help="The field or column that is the value; default: the whole record.")
    ] = None,
    header_field: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A field or column that becomes the header of that name; repeatable.")
    ] = None,
    config: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A setting of the producer; repeatable.")] = None,
    failed_to: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the failed records here unchanged, and the reasons to FILE.reasons.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress bar, and report only failures.")] = False,
) -> None:
    """Send lines, JSON lines, CSV or Parquet to a topic, exactly once each.

    Exit code 0: all records were acknowledged. 1: some were not. 2: nothing was sent, because of the options, the input or the address.
    130: Ctrl-C.
    """
    with reporting_errors("produce"):
        raise typer.Exit(
            _run(file, topic, bootstrap_from(bootstrap), format, (key_field, value_field, header_field), config, failed_to, quiet)
        )


def _run(
    name: str,
    topic: str,
    bootstrap: str,
    format: Format | None,
    named: tuple[str | None, str | None, list[str] | None],
    config: list[str] | None,
    failed_to: Path | None,
    quiet: bool,
) -> int:
    from fencepost.cli.console import Screen
    from fencepost.cli.failed_records_file import FailedRecords
    from fencepost.cli.inputs import Fields
    from fencepost.cli.sending import Sending
    from fencepost.cli.stopping import Stop

    fields = Fields(named[0], named[1], tuple(named[2] or ()))
    kind = format or SUFFIXES.get(Path(name).suffix.lower(), Format.LINES)
    if kind is Format.LINES and not fields.none:
        raise CommandError("--key-field, --value-field and --header-field are for records with fields: add --format json or csv")
    console = Screen(stderr=True)
    with ExitStack() as stack:
        fd = _opened(name, stack)
        producer, read = _producer(bootstrap, topic, client_settings("--config", config))
        stack.callback(_closed, producer)
        begun = time.monotonic()
        with Stop() as stop:
            failed = FailedRecords(failed_to)
            sending = Sending(
                producer,
                topic,
                stop=stop,
                patience_s=read.patience_s,
                leave_s=read.leave_s,
                deliver_s=read.deliver_s,
                place=f"topic {topic!r} at {bootstrap}",
                told=failed.note,
            )
            stack.callback(failed.close)
            sending.notice = console.say
            total = os.fstat(fd).st_size if name != "-" else 0
            with _bar(console, sending, total=total, quiet=quiet) as tick:
                outcome = _sent(sending, failed, kind, fd, name, fields, stop, tick)
        _report(console, name, outcome, time.monotonic() - begun, unit="row" if kind is Format.PARQUET else "line", quiet=quiet)
        if outcome.failed and failed_to is not None:
            console.say(f"the failed records are in {failed_to}, the reasons in {failed.reasons}")
    if stop.signal:
        return 128 + stop.signal
    return 1 if outcome.failed or outcome.stopped else 0


# -- the input ---------------------------------------------------------------------------------------------------------------


def _opened(name: str, stack: ExitStack) -> int:
    if name == "-":
        return sys.stdin.fileno()
    try:
        fd = os.open(name, os.O_RDONLY)
    except OSError as error:
        raise CommandError(f"{name} cannot be read: {error.strerror}") from None
    stack.callback(os.close, fd)
    if os.path.isdir(name):
        raise CommandError(f"{name} is a directory")
    return fd


def _sent(
    sending: Sending, failed: FailedRecords, kind: Format, fd: int, name: str, fields: Fields, stop: Stop, tick: Callable[[int], None]
) -> Outcome:
    """Read the input in its format, and send it."""
    if kind is Format.PARQUET:
        return _sent_parquet(sending, failed, name, fields, stop, tick)
    from fencepost.cli.inputs import CsvLines, Lines, csv_chunks, csv_header, json_chunks, line_chunks

    lines = Lines(fd, stop, lambda: sending.tick())
    sending.tick = lambda: tick(lines.bytes_read)
    if kind is Format.LINES:
        sending.keep_in(failed.lines())
        return sending.run(line_chunks(lines))
    if kind is Format.JSON:
        sending.keep_in(failed.lines())
        return sending.run(json_chunks(lines, fields))
    source = CsvLines(lines)
    header = csv_header(source, fields)
    sending.keep_in(failed.lines(source.taken))
    return sending.run(csv_chunks(lines, source, header, fields))


def _sent_parquet(sending: Sending, failed: FailedRecords, name: str, fields: Fields, stop: Stop, tick: Callable[[int], None]) -> Outcome:
    if name == "-":
        raise CommandError("Parquet cannot be read from standard input, because reading begins at the file's end: name a file")
    try:
        from fencepost.cli.parquet import ParquetRows, ParquetSink, arrow_chunks, columns_of
    except ImportError:
        raise CommandError("Parquet needs pyarrow: install fencepost's extra `arrow`, in a checkout with pip install '.[arrow]'") from None
    with ParquetRows(Path(name), stop, lambda: sending.tick()) as rows:
        columns = columns_of(rows.schema, fields)
        size = os.stat(name).st_size
        sending.tick = lambda: tick(size * sending.outcome.read // max(1, rows.count))
        sending.outcome.next = 0
        sink = failed.make(lambda path: ParquetSink(path, rows.schema))
        sending.keep_in(sink)
        return sending.run(arrow_chunks(rows, columns, whole=sink is not None))


# -- the producer ------------------------------------------------------------------------------------------------------------


class Limits(NamedTuple):
    """How long to wait for room, for deliveries after a signal, and for a delivery."""

    patience_s: float
    leave_s: float
    deliver_s: float


def _producer(bootstrap: str, topic: str, settings: dict[str, str]) -> tuple[Producer, Limits]:
    """A producer that has the topic's metadata."""
    from fencepost.producer import ConfigError, FencepostError, Misuse, Producer
    from fencepost.producer.config.reader import read_settings

    given: dict[str, Any] = {"client_id": "fencepost-produce", **settings}
    for name in ("bootstrap.servers", "bootstrap_servers"):
        if name in settings:
            raise CommandError(f"--config {name}: give --bootstrap instead")
    for name in ("client.id",):
        if name in settings:
            del given["client_id"]
    try:
        read = read_settings({"bootstrap_servers": bootstrap, **given})
        chosen = given.keys() & {"max_block_ms", "max.block.ms"}
        given = {name: value for name, value in given.items() if name not in chosen}
        # The producer waits for room in short steps. Between them, the command checks for a signal.
        producer = Producer(bootstrap_servers=bootstrap, **given, max_block_ms=ACCEPT_MS)
    except ConfigError as error:
        raise CommandError(str(error)) from None
    wait_s = read.max_block_ms / 1000 if chosen else TOPIC_WAIT_S
    try:
        with waiting(f"topic {topic!r} at {bootstrap}", wait_s):
            producer.partitions_for(topic, wait_s)
    except (FencepostError, Misuse, ValueError) as error:
        _closed(producer)
        raise CommandError(str(error)) from None
    except BaseException:
        _closed(producer)
        raise
    return producer, Limits(
        patience_s=read.max_block_ms / 1000 if chosen else FULL_WAIT_S,
        leave_s=read.exit_flush_ms / 1000,
        deliver_s=read.delivery_timeout_ms / 1000,
    )


def _closed(producer: Producer) -> None:
    from fencepost.producer import UndeliveredRecords

    try:
        producer.close(0)
    except UndeliveredRecords:
        return  # another error is already being raised


# -- what is shown -----------------------------------------------------------------------------------------------------------


@contextmanager
def _bar(console: Screen, sending: Sending, *, total: int, quiet: bool) -> Iterator[Callable[[int], None]]:
    """A bar: how much of the input is read, how many records are acknowledged, and how fast. None if standard error is no terminal."""
    if quiet or not console.is_terminal:
        yield lambda done: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), TextColumn("{task.fields[acknowledged]:,} acknowledged"), TextColumn("{task.fields[speed]:,.0f} records/s"))
    begun = time.monotonic()
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as progress:
        task = progress.add_task("", total=total or None, acknowledged=0, speed=0.0)

        def tick(done: int) -> None:
            acknowledged = sending.outcome.acknowledged
            speed = acknowledged / max(0.001, time.monotonic() - begun)
            progress.update(task, completed=done, acknowledged=acknowledged, speed=speed)

        yield tick


def _report(console: Screen, name: str, outcome: Outcome, seconds: float, *, unit: str, quiet: bool) -> None:
    say = console.say
    source = "standard input" if name == "-" else name
    if not quiet or outcome.failed or outcome.stopped:
        speed = outcome.acknowledged / max(0.001, seconds)
        failed = f", {outcome.failed:,} failed" if outcome.failed else ""
        acknowledged = counted(outcome.acknowledged, "record", spec=",")
        say(f"{source}: {acknowledged} acknowledged{failed}, in {seconds:.1f} s ({speed:,.0f} records/s)")
    runs = _runs(outcome.failures)
    for first, last, failure in runs[:SHOWN_MAX]:
        where = f"{unit} {first}" if first == last else f"{unit}s {first} to {last}"
        may = {"NO": "not in the log", "MAYBE": "may be in the log", "YES": "in the log"}[failure.persisted.name]
        say(f"  {where}: {failure.reason} ({may})")
    if len(runs) > SHOWN_MAX or len(outcome.failures) < outcome.failed:
        say("  and others; --failed-to FILE names them all")
    if outcome.maybe:
        say(f"  {outcome.maybe:,} of the failed records may be in the log: sending them again may double them")
    if outcome.stopped:
        say(f"stopped: {outcome.stopped}; nothing from {unit} {outcome.next} on was read")


def _runs(failures: list[Failure]) -> list[tuple[int, int, Failure]]:
    """Consecutive failures with the same reason, as one."""
    runs: list[tuple[int, int, Failure]] = []
    for failure in sorted(failures, key=lambda each: each.number):
        if runs and runs[-1][1] + 1 == failure.number and runs[-1][2].reason == failure.reason:
            runs[-1] = (runs[-1][0], failure.number, failure)
        else:
            runs.append((failure.number, failure.number, failure))
    return runs
