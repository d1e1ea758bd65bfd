"""`fencepost proxy`: a proxy in front of any Kafka that loses replies and connections on demand."""

from __future__ import annotations

import ssl
from contextlib import ExitStack
from select import select
from typing import Annotated

import typer

from fencepost.broker_stub import Fault
from fencepost.broker_stub.command import EXCHANGES, controlled
from fencepost.broker_stub.faults.rules import Rule
from fencepost.broker_stub.network.tls import Tls, client_context
from fencepost.broker_stub.proxy.discovery import DISCOVER_TIMEOUT_S
from fencepost.broker_stub.proxy.proxy import FaultProxy
from fencepost.cli.broker import page_port
from fencepost.cli.error_lines import CommandError
from fencepost.cli.numbers import chance
from fencepost.cli.output import say, warn
from fencepost.cli.stopping import Stop
from fencepost.cli.waiting import waiting
from fencepost.producer.foundations.counted import counted
from fencepost.producer.wire import Api

Control = Annotated[
    str | None,
    typer.Option(metavar="[HOST:]PORT", help="Listen here for rules and questions over HTTP (`fencepost fault`); default host: localhost."),
]
Ui = Annotated[bool, typer.Option("--ui", help="Show what happens as a web page on this computer; its address is printed.")]
UiPort = Annotated[int | None, typer.Option(min=0, max=65535, help="The page's port; turns on --ui. Default: a free one.")]


def proxy(
    upstream: Annotated[str, typer.Argument(metavar="HOST:PORT", help="A broker behind the proxy; several with commas.")],
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The first listener's port; the others follow it. 0: free ports.")] = 0,
    advertised_host: Annotated[
        str | None, typer.Option(metavar="HOST", help="The host that the proxy advertises to clients; default: --host.")
    ] = None,
    drop_replies: Annotated[float, chance("The probability that the broker appends a Produce and its reply never arrives.")] = 0.0,
    cut_replies: Annotated[float, chance("The probability that a connection ends in the middle of a Produce reply.")] = 0.0,
    delay_replies: Annotated[float, chance("The probability that a Produce reply is late.")] = 0.0,
    delay_ms: Annotated[int, typer.Option(min=0, help="How late.")] = 100,
    topic: Annotated[str | None, typer.Option(help="Only requests that name this topic.")] = None,
    seed: Annotated[int, typer.Option(help="The seed of the random numbers: the same seed gives the same faults.")] = 0,
    upstream_tls: Annotated[
        bool, typer.Option("--upstream-tls", help="Connect to the brokers with TLS; the system's CAs sign their certificates.")
    ] = False,
    upstream_ca: Annotated[
        str | None, typer.Option(metavar="FILE", help="The CA of the brokers' certificates (PEM): connect to them with TLS.")
    ] = None,
    upstream_cert: Annotated[
        str | None, typer.Option(metavar="FILE", help="A client's certificate, which all clients of the proxy then share.")
    ] = None,
    upstream_key: Annotated[str | None, typer.Option(metavar="FILE", help="Its key, if it is in a separate file.")] = None,
    tls_cert: Annotated[
        str | None, typer.Option(metavar="FILE", help="The proxy's certificate, for the advertised host: clients must use TLS.")
    ] = None,
    tls_key: Annotated[str | None, typer.Option(metavar="FILE", help="The certificate's key, if it is in a separate file.")] = None,
    control: Control = None,
    ui: Ui = False,
    ui_port: UiPort = None,
) -> None:
    """Run a proxy that loses replies, until Ctrl-C. Point the clients at the printed address.

    SASL passes through: clients authenticate to the brokers, and the proxy needs no password.
    """
    with ExitStack() as stack:
        try:
            page = page_port(ui, ui_port)
            exchanges = EXCHANGES if control is not None or page is not None else 0
            with waiting(f"an answer from {upstream}", DISCOVER_TIMEOUT_S):
                running = stack.enter_context(
                    FaultProxy(
                        upstream,
                        host=host,
                        port=port,
                        advertised_host=advertised_host,
                        journal=exchanges,
                        tls=_tls(tls_cert, tls_key),
                        upstream_tls=_upstream_tls(upstream_ca, upstream_cert, upstream_key, wanted=upstream_tls),
                    )
                )
            url = stack.enter_context(controlled(running, control))
            inspector = running.ui(port=page) if page is not None else None
        except (OSError, ValueError) as error:
            raise CommandError(str(error)) from None
        stop = stack.enter_context(Stop())
        faults = {
            "dropped": _produce(running, topic).after_append().probability(drop_replies, seed).drop(),
            "cut": _produce(running, topic).reply().probability(cut_replies, seed + 1).disconnect(),
            "delayed": _produce(running, topic).after_append().probability(delay_replies, seed + 2).delay(delay_ms),
        }
        say(f"proxy for {upstream} listening on {running.bootstrap}")
        if url is not None:
            say(f"control at {url}")
        if inspector is not None:
            say(f"page at {inspector.url}")
        select([stop.fd], [], [])
        warn(_summary(faults, running.stats()))


def _tls(cert: str | None, key: str | None) -> Tls | None:
    if cert is None and key is not None:
        raise ValueError("--tls-key needs the proxy's certificate: give --tls-cert")
    return Tls(cert, key) if cert is not None else None


def _upstream_tls(ca: str | None, cert: str | None, key: str | None, *, wanted: bool) -> ssl.SSLContext | bool:
    if cert is None and key is not None:
        raise ValueError("--upstream-key needs the client's certificate: give --upstream-cert")
    return client_context(ca, cert, key) if wanted or ca is not None or cert is not None else False


def _produce(running: FaultProxy, topic: str | None) -> Rule:
    return running.faults.on(Api.PRODUCE).where(topic=topic)


def _summary(faults: dict[str, Fault], stats: dict[str, int]) -> str:
    hits = ", ".join(f"{fault.hits} {name}" for name, fault in faults.items())
    return f"stopped after {counted(stats['requests'], 'request')}; replies to Produce: {hits}"
