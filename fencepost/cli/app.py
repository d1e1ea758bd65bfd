"""The command line as typer sees it: the names of the commands, help and error messages.

It holds no command itself. Each command is in the module of its name, and that module is imported when the command is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Annotated, Any, Final, NamedTuple

import typer
from typer.core import TyperGroup

from fencepost.cli.error_lines import reporting_errors
from fencepost.cli.output import printable, say
from fencepost.cli.profiles import DEFAULT, FILE_VARIABLE, NAME_VARIABLE, ask_for

CLICK_ERROR: type[Exception] = typer.BadParameter.__mro__[2]
"""The base class of typer's errors about mistakes. typer exports no name for it."""


class Command(NamedTuple):
    """A command: a function or a group of `fencepost.cli.<module>`. `help`: what `fencepost --help` says of it."""

    module: str
    attribute: str
    help: str


COMMANDS: Final = {
    "broker": Command("broker_command", "broker", "Run a Kafka-compatible cluster, until Ctrl-C."),
    "produce": Command("produce", "produce", "Send lines, JSON lines, CSV or Parquet to a topic, exactly once each."),
    "consume": Command("consume", "consume", "Print a topic's values, one on each line, until Ctrl-C. Control characters are escaped."),
    "doctor": Command(
        "doctor", "doctor", "Find out why a producer would fail: addresses, versions, permissions, and with --topic the topic."
    ),
    "topics": Command("topics", "topics", "List, create, delete and describe topics."),
    "groups": Command("groups", "groups", "Show consumer groups, set their offsets, and see what a rebalance would do."),
    "txn": Command("txn", "txn", "Show transactions, end prepared ones by their tokens, and find and end those that hang."),
    "ledger": Command("ledger", "ledger", "Show the ledger of exactly-once micro-batches, and delete a sink's entry."),
    "jobs": Command("jobs", "jobs", "Show the positions of jobs, and set them."),
    "log": Command("log", "log", "Print and check the log files of a Kafka broker."),
    "demo": Command(
        "demo",
        "demo",
        "Send every flight that left New York in 2013 while replies, connections, leaders and brokers fail; then read back and count.",
    ),
    "spark-demo": Command(
        "spark_demo",
        "spark_demo",
        "Write every flight that left New York in 2013 with Spark while an executor and then the driver are killed; read back and count.",
    ),
    "proxy": Command("proxy", "proxy", "Run a proxy that loses replies, until Ctrl-C. Point the clients at the printed address."),
    "fault": Command(
        "fault_brokers",
        "fault",
        "Make a running broker or proxy fail: rules for requests, links between brokers, stops, disks, damaged logs.",
    ),
}
"""In the order of `fencepost --help`."""


class Commands(TyperGroup):
    """Imports a command when it is given, and none to list them. Makes the messages about mistakes printable: they quote the argument,
    which may be a file's name with control characters."""

    lists_only = False

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        known = super().get_command(ctx, cmd_name)
        return known if known is None or self.lists_only else command(cmd_name)

    def make_context(self, *arguments: Any, **more: Any) -> Any:
        with _printable_mistakes():
            return super().make_context(*arguments, **more)

    def invoke(self, ctx: Any) -> Any:
        with _printable_mistakes():
            return super().invoke(ctx)

    def format_help(self, *arguments: Any) -> None:
        with self._names_alone():
            super().format_help(*arguments)

    def shell_complete(self, *arguments: Any) -> Any:
        with self._names_alone():
            return super().shell_complete(*arguments)

    @contextmanager
    def _names_alone(self) -> Iterator[None]:
        self.lists_only = True
        try:
            yield
        finally:
            self.lists_only = False


@contextmanager
def _printable_mistakes() -> Iterator[None]:
    try:
        yield
    except CLICK_ERROR as mistake:
        late = getattr(mistake, "option_name", None) == "--profile"
        place = "; it comes before the command: fencepost --profile NAME COMMAND" if late else ""
        mistake.message = printable(mistake.message) + place  # type: ignore[attr-defined]  # each of them has it
        raise


@cache
def command(name: str) -> Any:
    """The command of this name with its options, or the group with its commands. Each reports its errors in one line."""
    place = COMMANDS[name]
    found = getattr(import_module(f"fencepost.cli.{place.module}"), place.attribute)
    if isinstance(found, typer.Typer):
        group = typer.main.get_group(found)
        for each, of_group in group.commands.items():
            of_group.callback = _reporting(f"{name} {each}", of_group.callback)
        return group
    alone = typer.Typer(add_completion=False)
    alone.command(name, help=_paragraphs(found))(found)
    made = typer.main.get_command(alone)
    if name != "broker":  # It logs, and a signal ends it with exit code 0.
        made.callback = _reporting(name, made.callback)
    return made


def _reporting(name: str, run: Any) -> Callable[..., None]:
    def reported(**given: Any) -> None:
        with reporting_errors(name):
            run(**given)

    return reported


def _paragraphs(function: Callable[..., None]) -> str:
    """The docstring with one line for each paragraph. typer would keep the ends of the lines."""
    return "\n\n".join(" ".join(each.split()) for each in (function.__doc__ or "").split("\n\n"))


def _print_version(asked: bool) -> None:
    if asked:
        from fencepost._build import build_info

        say(str(build_info()))
        raise typer.Exit


app = typer.Typer(
    cls=Commands,
    help="Write to Kafka exactly once, and try it: a producer, a broker for tests and a proxy that loses replies.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


@app.callback()
def _root(
    config: Annotated[
        str | None,
        typer.Option(
            envvar=FILE_VARIABLE,
            metavar="FILE",
            help="A TOML file of profiles, or a client.properties of Kafka: the brokers' address, and how to log in."
            " Default: ~/.config/fencepost/config.toml, if there is one.",
        ),
    ] = None,
    profile: Annotated[
        str | None, typer.Option(envvar=NAME_VARIABLE, metavar="NAME", help=f"The profile to use; default: {DEFAULT}.")
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version, and whether it is compiled.")
    ] = False,
) -> None:
    """The options before a command."""
    ask_for(config or None, profile or None)


def _listed() -> None:
    """What `Commands.lists_only` finds in place of a command."""


for _name, _command in COMMANDS.items():
    app.command(_name, help=_command.help)(_listed)
