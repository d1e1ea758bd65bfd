"""The whole command line as typer sees it: every command with its options, help and error messages.

It holds no command of its own; each is in the module of its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from fencepost.cli.broker import run as run_broker
from fencepost.cli.consume import consume
from fencepost.cli.demo import demo
from fencepost.cli.doctor import doctor
from fencepost.cli.fault import fault
from fencepost.cli.ledger import ledger
from fencepost.cli.produce import produce
from fencepost.cli.proxy import Control, proxy
from fencepost.cli.shown import printable, say
from fencepost.cli.spark_demo import spark_demo
from fencepost.cli.topics import topics
from fencepost.cli.txn import txn

CLICK_ERROR: type[Exception] = typer.BadParameter.__mro__[2]
"""Whatever typer says of a mistake; it has no name in typer."""


class Commands(TyperGroup):
    """What is said of a mistake quotes the argument, which a shell may have taken from a file's name."""

    def make_context(self, *arguments: Any, **more: Any) -> Any:
        with _printable_mistakes():
            return super().make_context(*arguments, **more)

    def invoke(self, ctx: Any) -> Any:
        with _printable_mistakes():
            return super().invoke(ctx)


@contextmanager
def _printable_mistakes() -> Iterator[None]:
    try:
        yield
    except CLICK_ERROR as mistake:
        mistake.message = printable(mistake.message)  # type: ignore[attr-defined]  # every one of them has it
        raise


app = typer.Typer(
    cls=Commands,
    help="Write to Kafka exactly once, and try it: a producer, a broker for tests and a proxy that loses replies.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def _print_version(asked: bool) -> None:
    if asked:
        from fencepost._build import build_info

        say(str(build_info()))
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Say which fencepost this is.")
    ] = False,
) -> None:
    """Options that need no command."""


@app.command()
def broker(
    brokers: Annotated[int, typer.Option(min=1, help="How many brokers.")] = 1,
    host: Annotated[str | None, typer.Option(help="The address to listen on; 127.0.0.1 if left out.")] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="The first broker's port, the others follow it; 0 takes free ones, 9092 if left out."),
    ] = None,
    advertised_host: Annotated[
        str | None, typer.Option(metavar="HOST", help="Where clients are told to connect to, if that is not --host.")
    ] = None,
    partitions: Annotated[int, typer.Option(min=1, help="Partitions of a topic that is created by being asked for.")] = 1,
    config: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A broker config of Kafka; repeatable.")] = None,
    properties: Annotated[
        str | None, typer.Option(metavar="FILE", help="A server.properties of Kafka; --config counts over what it says.")
    ] = None,
    tls_cert: Annotated[str | None, typer.Option(metavar="FILE", help="The brokers' certificate (PEM): clients must speak TLS.")] = None,
    tls_key: Annotated[str | None, typer.Option(metavar="FILE", help="Its key, where that is a file of its own.")] = None,
    tls_client_ca: Annotated[
        str | None, typer.Option(metavar="FILE", help="Who signs the clients' certificates: they must have one.")
    ] = None,
    sasl_user: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|@FILE",
            help="Who may connect, with PLAIN or SCRAM: NAME, whose password is asked for, or lines NAME:PASSWORD; repeatable.",
        ),
    ] = None,
    sasl_mechanism: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MECHANISM",
            help="The only SASL mechanisms that are taken; repeatable. OAUTHBEARER, which takes unsigned tokens, has to be named here.",
        ),
    ] = None,
    control: Control = None,
    virtual_clock: Annotated[bool, typer.Option("--virtual-clock", help="Time stands still and is advanced through the control.")] = False,
    emulate: Annotated[str, typer.Option(metavar="RELEASE", help="The release of Kafka that it is: 4.3 or 3.9.")] = "4.3",
) -> None:
    """Run a Kafka-compatible cluster in memory, until Ctrl-C."""
    raise typer.Exit(
        run_broker(
            brokers=brokers,
            host=host,
            port=port,
            advertised_host=advertised_host,
            partitions=partitions,
            config=config,
            properties=properties,
            tls_cert=tls_cert,
            tls_key=tls_key,
            tls_client_ca=tls_client_ca,
            sasl_user=sasl_user,
            sasl_mechanism=sasl_mechanism,
            control=control,
            virtual_clock=virtual_clock,
            emulate=emulate,
        )
    )


app.command()(produce)
app.command()(consume)
app.command()(doctor)
app.add_typer(topics, name="topics")
app.add_typer(txn, name="txn")
app.add_typer(ledger, name="ledger")
app.command()(demo)
app.command("spark-demo")(spark_demo)
app.command()(proxy)
app.add_typer(fault, name="fault")
