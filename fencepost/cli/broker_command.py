"""`fencepost broker` as typer sees it: its options, with help. `broker` does the work, and reads a simple command line without typer."""

from __future__ import annotations

from typing import Annotated

import typer

from fencepost.cli.broker import run as run_broker
from fencepost.cli.proxy import Control, Ui, UiPort


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
    ui: Ui = False,
    ui_port: UiPort = None,
    virtual_clock: Annotated[bool, typer.Option("--virtual-clock", help="Only the control advances the clock.")] = False,
    emulate: Annotated[str, typer.Option(metavar="RELEASE", help="The release of Kafka to behave like: 4.3 or 3.9.")] = "4.3",
    data_dir: Annotated[
        str | None, typer.Option(metavar="DIR", help="Keep the cluster in this directory, and go on with what it has. Default: in memory.")
    ] = None,
    log_dirs: Annotated[int, typer.Option(min=1, help="The number of log directories that each broker has (JBOD).")] = 1,
) -> None:
    """Run a Kafka-compatible cluster, until Ctrl-C."""
    raise typer.Exit(run_broker(**locals()))  # `run` has the same names; a test compares them.
