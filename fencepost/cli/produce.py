"""`fencepost produce`: sends a file or a pipe to a topic, and reports the records that failed.

It takes the format from the file's suffix. It guesses no types from the content: a value that is no string or binary is sent as its JSON
text.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from fencepost.cli.error_lines import CommandError
from fencepost.cli.options import Bootstrap, connection
from fencepost.cli.producing import bar, closed, producer_for
from fencepost.producer.foundations.counted import counted
from fencepost.txn.files.formats import PARQUET_NEEDS, Format, format_of, is_compressed

if TYPE_CHECKING:
    from fencepost.cli.console import Screen
    from fencepost.cli.failed_records_file import FailedRecords
    from fencepost.cli.sending import Failure, Outcome, Sending
    from fencepost.cli.stopping import Stop
    from fencepost.txn.files.fields import Fields

SHOWN_MAX: Final = 20


def produce(
    files: Annotated[list[str], typer.Argument(metavar="FILE...|-", help="The file to send; - is standard input. Several with --job.")],
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
    job: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Commit the files' position with the records: killed and run again, it continues there."),
    ] = None,
    dead_letters: Annotated[
        str | None,
        typer.Option(metavar="TOPIC", help="With --job: the topic for records that cannot be sent. Without it the job stops there."),
    ] = None,
    complete: Annotated[
        bool, typer.Option("--complete", help="With --job: the files are finished, so a last line without a newline is a record.")
    ] = False,
) -> None:
    """Send lines, JSON lines, CSV or Parquet to a topic, exactly once each.

    With --job, each record is sent once however often the command is killed and run again; files may grow, and others may be added.

    Exit code 0: all records were acknowledged. 1: some were not. 2: nothing was sent, because of the options, the input or the address.
    130: Ctrl-C.
    """
    named = (key_field, value_field, header_field)
    if job is not None:
        from fencepost.cli.produce_job import run_job

        if failed_to is not None:
            raise CommandError("--failed-to is no part of a transaction, so it cannot be used with --job: give --dead-letters TOPIC")
        raise typer.Exit(
            run_job(
                job,
                files,
                topic,
                connection(bootstrap, "--config", config),
                format,
                named,
                dead_letters,
                complete=complete,
                quiet=quiet,
            )
        )
    for option, given in (("--dead-letters", dead_letters is not None), ("--complete", complete)):
        if given:
            raise CommandError(f"{option} is for jobs: add --job ID")
    if len(files) > 1:
        raise CommandError(f"{len(files)} files are given: name one, or add --job ID, which sends several")
    raise typer.Exit(_run(files[0], topic, connection(bootstrap, "--config", config), format, named, failed_to, quiet))


def _run(
    name: str,
    topic: str,
    where: tuple[str, dict[str, str]],
    format: Format | None,
    named: tuple[str | None, str | None, list[str] | None],
    failed_to: Path | None,
    quiet: bool,
) -> int:
    from fencepost.cli.console import Screen
    from fencepost.cli.failed_records_file import FailedRecords
    from fencepost.cli.outages import telling_outages
    from fencepost.cli.sending import Sending
    from fencepost.cli.stopping import Stop
    from fencepost.txn.files.errors import BadInput
    from fencepost.txn.files.fields import Fields

    servers, settings = where
    fields = Fields(named[0], named[1], tuple(named[2] or ()))
    kind = format or format_of(name)
    if kind is Format.LINES and not fields.none:
        raise CommandError("--key-field, --value-field and --header-field are for records with fields: add --format json or csv")
    console = Screen(stderr=True)
    with ExitStack() as stack:
        fd = _opened(name, stack)
        stack.enter_context(telling_outages(console.say))
        producer, read = producer_for(servers, topic, settings)
        stack.callback(closed, producer)
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
                place=f"topic {topic!r} at {servers}",
                told=failed.note,
            )
            stack.callback(failed.close)
            sending.notice = console.say
            total = os.fstat(fd).st_size if name != "-" and not is_compressed(name) else 0
            with bar(console, lambda: sending.outcome.acknowledged, total=total, quiet=quiet) as tick:
                try:
                    outcome = _sent(sending, failed, kind, fd, name, fields, stop, tick)
                except BadInput as error:
                    raise CommandError(str(error)) from None
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
    from fencepost.txn.files.chunks import line_chunks
    from fencepost.txn.files.csv_rows import CsvLines, csv_chunks, csv_converter, csv_header
    from fencepost.txn.files.json_lines import json_chunks, json_converter
    from fencepost.txn.files.lines import Lines
    from fencepost.txn.files.patience import block_reader

    lines = Lines(block_reader(name, fd, stop, lambda: sending.tick()), stop)
    sending.tick = lambda: tick(lines.bytes_read)
    if kind is Format.LINES:
        sending.keep_in(failed.lines())
        return sending.run(line_chunks(lines))
    if kind is Format.JSON:
        sending.keep_in(failed.lines())
        return sending.run(json_chunks(lines, json_converter(fields)))
    source = CsvLines(lines)
    header = csv_header(source, fields)
    sending.keep_in(failed.lines(source.taken))
    return sending.run(csv_chunks(lines, source, csv_converter(header, fields)))


def _sent_parquet(sending: Sending, failed: FailedRecords, name: str, fields: Fields, stop: Stop, tick: Callable[[int], None]) -> Outcome:
    if name == "-":
        raise CommandError("Parquet cannot be read from standard input, because reading begins at the file's end: name a file")
    try:
        from fencepost.txn.files.parquet import ParquetRows, arrow_chunks, columns_of
    except ImportError:
        raise CommandError(PARQUET_NEEDS) from None
    from fencepost.cli.failed_records_file import ParquetSink

    with ParquetRows(Path(name), stop, lambda: sending.tick()) as rows:
        columns = columns_of(rows.schema, fields)
        size = os.stat(name).st_size
        sending.tick = lambda: tick(size * sending.outcome.read // max(1, rows.count))
        sending.outcome.next = 0
        sink = failed.make(lambda path: ParquetSink(path, rows.schema))
        sending.keep_in(sink)
        return sending.run(arrow_chunks(rows, columns, whole=sink is not None))


# -- what is shown -----------------------------------------------------------------------------------------------------------


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
