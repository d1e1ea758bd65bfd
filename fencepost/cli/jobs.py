"""`fencepost jobs`: the positions of jobs, and other positions for them.

`list` and `describe` register no transactional id and create nothing. Only `reset --execute` changes anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from fencepost.cli.error_lines import NO, CommandError, running_command
from fencepost.cli.options import ClusterOptions, Json, asking_as
from fencepost.cli.output import json_line, warn
from fencepost.cli.tables import moment, show, show_fields
from fencepost.txn.jobs.positions import ID_PREFIX, TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from fencepost.txn.jobs.positions import FoundJob, Positions

    T = TypeVar("T")

jobs = typer.Typer(help="Show the positions of jobs, and set them.", no_args_is_help=True)

asks_cluster = asking_as("fencepost-jobs")

JobId = Annotated[str, typer.Argument(metavar="JOB", help="The job's name.")]
Topic = Annotated[str, typer.Option("--positions-topic", metavar="NAME", help="The topic of positions.")]

FILES: Final = "files"
"""The kind of source whose positions this command can check."""

COLUMNS: Final = ("job", "source", "records", "topic", "written", "partition", "offset", "trouble")


@jobs.command("list")
@asks_cluster
def list_jobs(json: Json = False, positions_topic: Topic = TOPIC, *, cluster: ClusterOptions) -> None:
    """List the jobs that have a position: how many records each has committed, and when it committed last."""
    positions = _positions(cluster, positions_topic)
    found = _ask(cluster, positions_topic, lambda: positions.list(cluster.timeout_s))
    show([_row(name, each) for name, each in sorted(found.items())], json=json, columns=COLUMNS)


@jobs.command()
@asks_cluster
def describe(
    job: JobId,
    json: Json = False,
    positions_topic: Topic = TOPIC,
    *,
    cluster: ClusterOptions,
) -> None:
    """Show a job's position, and whether its transaction is open. Exit code 1 if it has no position."""
    positions = _positions(cluster, positions_topic)
    found = _found(positions, job, cluster, positions_topic)
    if found is None:
        raise CommandError(_no_job(job), code=NO)
    row = _row(job, found)
    transactional_id = row["transactional_id"] or ID_PREFIX + job
    row["transaction"] = _ask(cluster, positions_topic, lambda: positions.state(transactional_id, cluster.timeout_s))
    show_fields(row if json else {**row, "position": json_line(row["position"])}, json=json)


@jobs.command()
@asks_cluster
def reset(
    job: JobId,
    to: Annotated[
        str | None, typer.Option("--to", metavar="POSITION", help="To this position: JSON, as `jobs describe --json` prints it.")
    ] = None,
    to_start: Annotated[bool, typer.Option("--to-start", help="To the start of the source: everything is sent again.")] = False,
    source: Annotated[
        str | None, typer.Option(metavar="KIND", help="The kind of source, for a job without a position: files, database, pages ...")
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Commit the position. Without it the position is only shown.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also if the job's transaction is open: it is aborted.")] = False,
    transactional_id: Annotated[
        str | None, typer.Option(metavar="ID", help=f"The job's transactional id, if its position does not name it. [{ID_PREFIX}JOB]")
    ] = None,
    json: Json = False,
    positions_topic: Topic = TOPIC,
    *,
    cluster: ClusterOptions,
) -> None:
    """Set a job's position. Stop the job first: a run that is still alive ends. Without --execute nothing changes. Exit code 2: nothing was
    set."""
    from fencepost.txn.jobs.positions import entry_of

    if (to is not None) + to_start != 1:
        raise CommandError("give one of --to and --to-start")
    position = _position(to) if to is not None else None
    positions = _positions(cluster, positions_topic)
    found = _found(positions, job, cluster, positions_topic)
    entry = found.entry if found is not None else None
    if to_start and found is None:
        raise CommandError(_no_job(job), code=NO)
    kind = source or (entry.source if entry is not None else None)
    if to is not None and kind is None:
        raise CommandError(f"job {job!r} has no position that can be read, so its kind of source is not known: add --source")
    if kind == FILES:
        _refuse_no_places(position)
    id_ = transactional_id or (entry.transactional_id if entry is not None else ID_PREFIX + job)
    state = _ask(cluster, positions_topic, lambda: positions.state(id_, cluster.timeout_s))
    if state is not None and not force:
        raise CommandError(
            f"job {job!r} is active: its transaction ({id_}) is {state}. Stop it. If it was killed, wait until the transaction times "
            "out; --force aborts it now, and ends a run that is alive"
        )
    new = None
    if kind is not None and not to_start:
        records, topic = (entry.records, entry.topic) if entry is not None else (0, None)
        new = entry_of(job, position, source=kind, records=records, topic=topic, transactional_id=id_)
    if execute:
        _ask(cluster, positions_topic, lambda: positions.replace(job, new, id_, cluster.timeout_s))
    before = entry.position if entry is not None else None
    row = {"job": job, "before": before, "position": position}
    show([row if json else {"job": job, "before": json_line(before), "position": json_line(position)}], json=json, columns=tuple(row))
    if not execute:
        warn(f"fencepost {running_command()}: nothing is changed yet: add --execute to commit this position")


def _position(text: str) -> Any:
    import msgspec

    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise CommandError(f"--to {text[:200]!r} is no JSON: {error}") from None


def _refuse_no_places(position: Any) -> None:
    """The next run would refuse such a position of a job in files."""
    from fencepost.txn.files.errors import BadInput
    from fencepost.txn.jobs.file_source import places_in

    try:
        places_in(position)
    except BadInput as error:
        raise CommandError(f"--to: {error}") from None


def _row(job: str, found: FoundJob) -> dict[str, Any]:
    """A job's entry with its place. Of an entry that cannot be read it has only the place."""
    entry = found.entry
    return {
        "job": job,
        **{name: getattr(entry, name, None) for name in ("source", "position", "records", "topic", "transactional_id", "library")},
        "written": moment(entry.at_ms) if entry is not None else None,
        "partition": found.partition,
        "offset": found.offset,
        "trouble": found.trouble,
    }


def _no_job(job: str) -> str:
    return f"job {job!r} has no position; `fencepost jobs list` shows the jobs that have one"


def _found(positions: Positions, job: str, cluster: ClusterOptions, topic: str) -> FoundJob | None:
    from fencepost.txn.jobs.entry import BadJobEntry, job_name

    try:
        job_name(job)
    except BadJobEntry as error:
        raise CommandError(str(error)) from None
    return _ask(cluster, topic, lambda: positions.list(cluster.timeout_s)).get(job)


def _positions(cluster: ClusterOptions, topic: str) -> Positions:
    from fencepost.producer.errors import ConfigError
    from fencepost.txn.jobs.positions import Positions

    settings = cluster.settings()
    try:
        return Positions(settings, topic)
    except ConfigError as error:
        raise CommandError(str(error)) from None


def _ask(cluster: ClusterOptions, topic: str, ask: Callable[[], T]) -> T:
    with cluster.wait(f"the positions {topic!r}"):
        return ask()
