"""`fencepost produce --job`: sends files as a job, and says what was committed, what earlier runs had committed, and what is left."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from fencepost.cli.error_lines import CommandError
from fencepost.cli.producing import bar, closed, producer_for
from fencepost.producer.foundations.counted import counted
from fencepost.txn.files.formats import Format, format_of, is_compressed

if TYPE_CHECKING:
    from fencepost.cli.console import Screen
    from fencepost.txn import FileSource, JobStats

TICK_MS: Final = 200
CALL_MS: Final = 5_000
"""After this a call to the brokers is told and made again."""
SHOWN_MAX: Final = 20


def run_job(
    name: str,
    files: list[str],
    topic: str,
    where: tuple[str, dict[str, str]],
    format: Format | None,
    named: tuple[str | None, str | None, list[str] | None],
    dead_letters: str | None,
    *,
    complete: bool,
    quiet: bool,
) -> int:
    """The exit code. Raises CommandError if nothing was sent."""
    from fencepost.cli.console import Screen
    from fencepost.cli.reachability import with_defaults
    from fencepost.cli.stopping import Stop
    from fencepost.producer import ConfigError
    from fencepost.txn import FileSource, Job

    if "-" in files:
        raise CommandError("--job cannot read standard input, because a later run must be able to read it again: name files")
    if any(named) and any((format or format_of(each)) is Format.LINES for each in files):
        raise CommandError("--key-field, --value-field and --header-field are for records with fields: add --format json or csv")
    bootstrap, settings = where
    for each in dict.fromkeys([topic, *([dead_letters] if dead_letters is not None else [])]):
        producer, limits = producer_for(bootstrap, each, settings)
        closed(producer)  # It has shown that the brokers answer, and that the topic is there.
    console = Screen(stderr=True)
    began = time.monotonic()
    total = sum(os.stat(each).st_size for each in files if os.path.isfile(each) and not is_compressed(each))

    job: Job | None = None

    def stopped() -> None:
        if job is not None:
            job.stop()
        if stop.count > 1:
            raise KeyboardInterrupt

    with (
        Stop(stopped) as stop,
        _warnings(console),
        bar(console, lambda: job.stats().records_in if job is not None else 0, total=total, quiet=quiet) as tick,
    ):
        try:
            source = FileSource(
                *files, format=format, key_field=named[0], value_field=named[1], header_fields=named[2] or (), complete=complete
            )
            source.name_options()
            job = Job(
                name,
                source,
                bootstrap_servers=bootstrap,
                topic=topic,
                dead_letters=dead_letters,
                call_timeout_ms=CALL_MS,
                stop_timeout_ms=int(limits.leave_s * 1000),
                progress_ms=TICK_MS,
                on_progress=lambda stats: tick(sum(each.bytes for each in source.progress.values())),
                producer=with_defaults(settings, {"client_id": "fencepost-produce"}),
            )
        except ConfigError as error:
            raise CommandError(str(error)) from None
        if stop.signal:
            job.stop()
        reason = _ran(job)
    stats = job.stats()
    if reason is not None and reason[1] and not stats.records_in:
        raise CommandError(reason[0])
    left = _report(console, name, files, source, stats, time.monotonic() - began, dead_letters, quiet=quiet, failed=reason is not None)
    if reason is not None:
        console.say(f"stopped: {reason[0]}")
    if stop.signal:
        console.say(f"stopped: interrupted; job {name!r} continues there when it is run again")
        return 128 + stop.signal
    return 1 if reason is not None or left or stats.dead_letters else 0


class _Told(logging.Handler):
    """Shows what a job waits for, and why it reads records again."""

    def __init__(self, console: Screen) -> None:
        super().__init__(logging.WARNING)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        words = record.getMessage()
        if words.startswith("job "):  # A file's own warning is in the report.
            self._console.say(words)


@contextmanager
def _warnings(console: Screen) -> Iterator[None]:
    log, told = logging.getLogger("fencepost.job"), _Told(console)
    log.addHandler(told)
    try:
        yield
    finally:
        log.removeHandler(told)


def _ran(job: Any) -> tuple[str, bool] | None:
    """Run the job. Why it ended early, and whether that is because of what the user gave."""
    from fencepost.producer import FencepostError
    from fencepost.txn import BadRecord, JobFailed, SourceChanged
    from fencepost.txn.files.errors import BadInput

    try:
        job.run()
    except SourceChanged as error:
        return str(error), True
    except BadRecord as error:
        return f"{error.place}: {error.reason}. Correct it and run the command again, or give --dead-letters TOPIC", False
    except JobFailed as error:
        cause = error.__cause__
        return (str(cause), True) if isinstance(cause, BadInput) else (str(error), False)
    except FencepostError as error:
        return str(error), True
    except KeyboardInterrupt:
        return None
    return None


def _report(
    console: Screen,
    name: str,
    files: list[str],
    source: FileSource,
    stats: JobStats,
    seconds: float,
    dead_letters: str | None,
    *,
    quiet: bool,
    failed: bool,
) -> bool:
    """Print it. Returns whether lines are left because they may not be complete."""
    say = console.say
    shown = files[0] if len(files) == 1 else counted(len(files), "file")
    if not quiet or failed:
        speed = stats.records_in / max(0.001, seconds)
        say(f"{shown}: {counted(stats.records_in, 'record', spec=',')} committed, in {seconds:.1f} s ({speed:,.0f} records/s)")
    if stats.before and not quiet:
        records = counted(stats.before, "record was", "records were", spec=",")
        say(f"  {records} committed by earlier runs of job {name!r}, and not sent again:")
        before = [(path, each) for path, each in source.progress.items() if each.before]
        for path, each in before[:SHOWN_MAX]:
            say(f"  {path}: {each.unit}s 1 to {each.before:,}" if each.unit == "line" else f"  {path}: {each.before:,} rows")
        if len(before) > SHOWN_MAX:
            say(f"  and {len(before) - SHOWN_MAX:,} others")
    if stats.dead_letters:
        say(f"  {counted(stats.dead_letters, 'record is', 'records are', spec=',')} in topic {dead_letters!r}, with the reasons")
    unfinished = [(path, each) for path, each in source.progress.items() if each.unfinished]
    for path, each in unfinished[:SHOWN_MAX]:
        say(
            f"  {path}: the record from line {each.number + 1:,} on ({counted(each.unfinished, 'byte')} so far) is not finished, so it may"
            " still be being written: it is left to a later run; --complete sends it"
        )
    return bool(unfinished)
