"""The command line as typer sees it: every command with its options, help and error messages.

It holds no command itself. Each command is in the module of its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from fencepost.cli.broker import run as run_broker
from fencepost.cli.consume import consume
from fencepost.cli.demo import demo
from fencepost.cli.doctor import doctor
from fencepost.cli.fault_brokers import fault
from fencepost.cli.groups import groups
from fencepost.cli.jobs import jobs
from fencepost.cli.ledger import ledger
from fencepost.cli.log import log
from fencepost.cli.output import printable, say
from fencepost.cli.produce import produce
from fencepost.cli.proxy import Control, proxy
from fencepost.cli.spark_demo import spark_demo
from fencepost.cli.topics import topics
from fencepost.cli.txn import txn

CLICK_ERROR: type[Exception] = typer.BadParameter.__mro__[2]
"""The base class of typer's errors about mistakes. typer exports no name for it."""


class Commands(TyperGroup):
    """Makes the messages about mistakes printable. They quote the argument, which may be a file's name with control characters."""

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
        mistake.message = printable(mistake.message)  # type: ignore[attr-defined]  # each of them has it
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


def _paragraphs(command: Callable[..., None]) -> str:
    """The docstring with one line for each paragraph. typer would keep the ends of the lines."""
    return "\n\n".join(" ".join(each.split()) for each in (command.__doc__ or "").split("\n\n"))


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version, and whether it is compiled.")
    ] = False,
) -> None:
    """The options without a command."""


@app.command()
def broker(
    brokers: Annotated[int, typer.Option(min=1, help="The number of brokers.")] = 1,
    host: Annotated[str | None, typer.Option(help="The address to listen on; default: 127.0.0.1.")] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="The first broker's port; the others follow it. 0: free ports. Default: 9092."),
    ] = None,
    advertised_host: Annotated[
        str | None, typer.Option(metavar="HOST", help="The host that the brokers advertise to clients; default: --host.")
    ] = None,
    partitions: Annotated[
        int | None, typer.Option(min=1, help="The number of partitions of automatically created topics; 1 if left out.")
    ] = None,
    config: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A broker config of Kafka; repeatable.")] = None,
    properties: Annotated[str | None, typer.Option(metavar="FILE", help="A server.properties of Kafka; --config overrides it.")] = None,
    tls_cert: Annotated[str | None, typer.Option(metavar="FILE", help="The brokers' certificate (PEM): clients must use TLS.")] = None,
    tls_key: Annotated[str | None, typer.Option(metavar="FILE", help="The certificate's key, if it is in a separate file.")] = None,
    tls_client_ca: Annotated[
        str | None, typer.Option(metavar="FILE", help="The CA of clients' certificates: each client must have one.")
    ] = None,
    sasl_user: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|@FILE",
            help="A user for PLAIN and SCRAM: NAME prompts for the password; @FILE has lines NAME:PASSWORD. Repeatable.",
        ),
    ] = None,
    sasl_mechanism: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MECHANISM",
            help="The only SASL mechanisms to accept; repeatable. OAUTHBEARER accepts unsigned tokens and is off unless named.",
        ),
    ] = None,
    authorizer: Annotated[
        bool, typer.Option("--authorizer", help="Check permissions as Kafka does: clients may do only what an ACL allows.")
    ] = False,
    super_user: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A user that may do everything; repeatable. It turns on --authorizer.")
    ] = None,
    acl: Annotated[
        list[str] | None,
        typer.Option(metavar="ACL", help='A permission, such as "allow alice READ,WRITE topic=orders"; repeatable. See docs/cli.md.'),
    ] = None,
    control: Control = None,
    virtual_clock: Annotated[bool, typer.Option("--virtual-clock", help="Only the control advances the clock.")] = False,
    emulate: Annotated[str, typer.Option(metavar="RELEASE", help="The release of Kafka to behave like: 4.3 or 3.9.")] = "4.3",
    data_dir: Annotated[
        str | None, typer.Option(metavar="DIR", help="Keep the cluster in this directory, and go on with what it has. Default: in memory.")
    ] = None,
    log_dirs: Annotated[int, typer.Option(min=1, help="The number of log directories that each broker has (JBOD).")] = 1,
) -> None:
    """Run a Kafka-compatible cluster, until Ctrl-C."""
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
            authorizer=authorizer,
            super_user=super_user,
            acl=acl,
            control=control,
            virtual_clock=virtual_clock,
            emulate=emulate,
            data_dir=data_dir,
            log_dirs=log_dirs,
        )
    )


app.command(help=_paragraphs(produce))(produce)
app.command(help=_paragraphs(consume))(consume)
app.command(help=_paragraphs(doctor))(doctor)
app.add_typer(topics, name="topics")
app.add_typer(groups, name="groups")
app.add_typer(txn, name="txn")
app.add_typer(ledger, name="ledger")
app.add_typer(jobs, name="jobs")
app.add_typer(log, name="log")
app.command(help=_paragraphs(demo))(demo)
app.command("spark-demo", help=_paragraphs(spark_demo))(spark_demo)
app.command(help=_paragraphs(proxy))(proxy)
app.add_typer(fault, name="fault")
