"""`fencepost log`: the files of a partition, as Kafka keeps them on disk. `log_dump` prints them, `log_verify` checks them.

No command changes a file or needs a broker.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from fencepost.cli.error_lines import CommandError

log = typer.Typer(help="Print and check the log files of a Kafka broker.", no_args_is_help=True)

FOUND: Final = 1
"""The exit code if a file is damaged."""

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on each line.")]


@log.command()
def dump(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files of a log.dir. The name of a file tells its kind.")],
    records: Annotated[bool, typer.Option("--records", help="Print the records of .log files too.")] = False,
    json: Json = False,
) -> None:
    """Print the entries of log files, as kafka-dump-log does. Exit code 1 if one is damaged, 2 if one cannot be read."""
    from fencepost.cli.log_dump import dump_file

    whole = [dump_file(path, records=records, json=json) for path in files]
    if not all(whole):
        raise typer.Exit(FOUND)


@log.command()
def verify(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The directory of a partition, or a log.dir with many.")],
    json: Json = False,
) -> None:
    """Check the files of partitions against each other. Exit code 1 with findings. Stop the broker first."""
    from fencepost.cli.log_verify import verify_directory

    try:
        clean = verify_directory(directory, json=json)
    except OSError as error:
        raise CommandError(f"{error.filename}: {error.strerror}") from None
    if not clean:
        raise typer.Exit(FOUND)
