"""Runs a cluster in the foreground until it is told to stop: what `python -m broker_stub` and `fencepost broker` do.

It prints one line when clients may connect, one more with the address of its control where it has one, and nothing else. SIGINT and
SIGTERM end it; a second one is not needed.
"""

import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from broker_stub.clock import VirtualClock
from broker_stub.emulation import NEWEST
from broker_stub.stub import BrokerStub

if TYPE_CHECKING:
    from broker_stub.proxy import FaultProxy
    from broker_stub.tls import Tls

EXCHANGES: Final = 1000  # that a journal keeps, where somebody can ask for it


def serve(
    *,
    brokers: int = 1,
    host: str = "127.0.0.1",
    port: int = 9092,
    auto_create_topics: bool = True,
    default_partitions: int = 1,
    default_replication_factor: int | None = None,
    config: Mapping[str, str] | None = None,
    seed: int = 0,
    tls_cert: str | None = None,
    tls_key: str | None = None,
    tls_client_ca: str | None = None,
    sasl_users: Mapping[str, str] | None = None,
    control: str | None = None,
    virtual_clock: bool = False,
    emulate: str = NEWEST,
) -> None:
    """Blocks until a signal; raises OSError when a port is taken or a file not there, ValueError for what cannot be used."""
    stopped = threading.Event()
    before = {number: signal.signal(number, lambda *_: stopped.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    stub = BrokerStub(
        brokers=brokers,
        host=host,
        port=port,
        auto_create_topics=auto_create_topics,
        default_partitions=default_partitions,
        default_replication_factor=default_replication_factor,
        config=config,
        journal=EXCHANGES if control is not None else 0,
        seed=seed,
        clock=VirtualClock() if virtual_clock else None,
        tls=_tls(tls_cert, tls_key, tls_client_ca),
        sasl=sasl_users or None,
        emulate=emulate,
    )
    try:
        with stub, controlled(stub, control) as url:
            print(f"{brokers} broker{'s' if brokers > 1 else ''} listening on {stub.bootstrap}", flush=True)
            if url is not None:
                print(f"control at {url}", flush=True)
            stopped.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    print("stopped", file=sys.stderr)


@contextmanager
def controlled(target: "BrokerStub | FaultProxy", where: str | None) -> Iterator[str | None]:
    """The URL of its control at [HOST:]PORT, open within the block; None for none."""
    if where is None:
        yield None
        return
    from broker_stub.control import Control, address

    host, port = address(where)
    with Control(target, host=host, port=port) as control:
        yield control.url


def _tls(cert: str | None, key: str | None, client_ca: str | None) -> "Tls | None":
    if cert is None:
        if key is not None or client_ca is not None:
            raise ValueError("a TLS key or client CA is of no use without the brokers' certificate (--tls-cert)")
        return None
    from broker_stub.tls import Tls

    return Tls(cert, key, client_ca)
