"""The command line: one module a command or group of commands, put together in `app`.

`main` looks at the arguments before it loads anything: a broker that is started by a script should listen at once, so typer and rich, which
take longer to load than the cluster takes to start, are only loaded for commands, options and mistakes that need them.
"""

from __future__ import annotations

import sys


def main() -> None:
    """What the console script calls."""
    from fencepost.cli.shown import say, show_crash

    # Before typer is loaded, which asks for it then.
    sys.excepthook = show_crash
    match sys.argv[1:]:
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
    from fencepost.cli.app import app

    app(prog_name="fencepost")
