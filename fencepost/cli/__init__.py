"""The command line: one module for each command or group of commands. `app` puts them together.

`main` looks at the arguments before it imports anything, so that a broker that a script starts listens at once. It imports typer and rich
only for commands, options and mistakes that need them. Their import takes longer than the start of the cluster.
"""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """The entry point of the console script."""
    try:
        _run(sys.argv[1:])
    except KeyboardInterrupt:
        # A command that runs reports Ctrl-C itself. This one came during the imports before it.
        from fencepost.cli.output import warn

        warn("fencepost: interrupted")
        sys.exit(128 + signal.SIGINT)


def _run(arguments: list[str]) -> None:
    from fencepost.cli.output import say, show_crash

    # typer reads the hook when it is imported.
    sys.excepthook = show_crash
    match arguments:
        case ["--version"]:
            from fencepost._build import build_info

            say(str(build_info()))
        case ["broker", *rest]:
            from fencepost.cli import broker

            plain = broker.read_plain(rest)
            if plain is None:
                _with_typer()
            else:
                sys.exit(broker.run(**plain))
        case _:
            _with_typer()


def _with_typer() -> None:
    from fencepost.cli.output import warn

    try:
        from fencepost.cli.app import app

        app(prog_name="fencepost")
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in ("", "fencepost"):
            raise
        warn(f"fencepost: this command needs {missing}, which is not installed: pip install {missing.replace('_', '-')}")
        sys.exit(1)
