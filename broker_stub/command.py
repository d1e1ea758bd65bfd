"""Runs a cluster in the foreground until it is told to stop: what `python -m fencepost.broker_stub` and `fencepost broker` do.

It prints one line when clients may connect, one more with the address of its control where it has one, and nothing else. SIGINT and
SIGTERM end it; a second one is not needed.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from fencepost.broker_stub.cluster.clock import VirtualClock
from fencepost.broker_stub.cluster.release import NEWEST
from fencepost.broker_stub.configs.server_properties import LISTENERS, read_properties
from fencepost.broker_stub.network.addresses import TOKEN_VARIABLE
from fencepost.broker_stub.stub import BrokerStub

if TYPE_CHECKING:
    from fencepost.broker_stub.network.tls import Tls
    from fencepost.broker_stub.proxy.proxy import FaultProxy
    from fencepost.broker_stub.security.sasl import Sasl

PORT: Final = 9092
EXCHANGES: Final = 1000  # that a journal keeps, where somebody can ask for it


def serve(
    *,
    brokers: int = 1,
    host: str | None = None,
    port: int | None = None,
    advertised_host: str | None = None,
    auto_create_topics: bool = True,
    default_partitions: int = 1,
    default_replication_factor: int | None = None,
    config: Mapping[str, str] | None = None,
    properties: str | None = None,
    seed: int = 0,
    tls_cert: str | None = None,
    tls_key: str | None = None,
    tls_client_ca: str | None = None,
    sasl_users: Mapping[str, str] | None = None,
    sasl_mechanisms: Sequence[str] = (),
    control: str | None = None,
    virtual_clock: bool = False,
    emulate: str = NEWEST,
) -> None:
    """Blocks until a signal; raises OSError when a port is taken or a file not there, ValueError for what cannot be used. `properties` is a
    file of Kafka's own; `config` counts over it."""
    configs = {**(_read(properties) if properties is not None else {}), **(config or {})}
    if port is None and LISTENERS not in configs:
        port = PORT
    stopped = threading.Event()
    before = {number: signal.signal(number, lambda *_: stopped.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    stub = BrokerStub(
        brokers=brokers,
        host=host,
        port=port,
        advertised_host=advertised_host,
        auto_create_topics=auto_create_topics,
        default_partitions=default_partitions,
        default_replication_factor=default_replication_factor,
        config=configs,
        journal=EXCHANGES if control is not None else 0,
        seed=seed,
        clock=VirtualClock() if virtual_clock else None,
        tls=_tls(tls_cert, tls_key, tls_client_ca),
        sasl=_sasl(sasl_users or {}, sasl_mechanisms),
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
    """The URL of its control at [HOST:]PORT, open within the block; None for none. Its token may come from the environment, where nobody
    sees it who lists processes."""
    if where is None:
        yield None
        return
    from fencepost.broker_stub.control.control import Control, address

    host, port = address(where)
    with Control(target, host=host, port=port, token=os.environ.get(TOKEN_VARIABLE) or None) as control:
        yield control.url


def _read(file: str) -> dict[str, str]:
    try:
        with open(file, encoding="utf-8") as opened:
            return read_properties(opened.read())
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is no text: {error}") from None


def _sasl(users: Mapping[str, str], mechanisms: Sequence[str]) -> "Sasl | None":
    if not users and not mechanisms:
        return None
    from fencepost.broker_stub.security.sasl import Sasl
    from fencepost.broker_stub.security.sasl_mechanisms import PASSWORD_MECHANISMS

    useless = [] if users else [each for each in mechanisms if each in PASSWORD_MECHANISMS]
    if useless:
        raise ValueError(f"--sasl-mechanism {useless[0]} lets in who has a password, and nobody has one: name users with --sasl-user")
    return Sasl(dict(users), list(mechanisms) or None)


def _tls(cert: str | None, key: str | None, client_ca: str | None) -> "Tls | None":
    if cert is None:
        if key is not None or client_ca is not None:
            raise ValueError("a TLS key or client CA is of no use without the brokers' certificate (--tls-cert)")
        return None
    from fencepost.broker_stub.network.tls import Tls

    return Tls(cert, key, client_ca)
