"""Runs a cluster in the foreground until a signal: `python -m fencepost.broker_stub` and `fencepost broker`.

It prints one line when clients may connect, one more each with the addresses of its control and its page if it has them, and nothing else.
SIGINT and SIGTERM end it.
"""

import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from fencepost.broker_stub.cluster.clock import VirtualClock
from fencepost.broker_stub.cluster.release import NEWEST
from fencepost.broker_stub.configs.server_properties import LISTENERS, read_properties
from fencepost.broker_stub.network.addresses import TOKEN_VARIABLE
from fencepost.broker_stub.stub import BrokerStub
from fencepost.producer.foundations.counted import counted

if TYPE_CHECKING:
    from fencepost.broker_stub.network.tls import Tls
    from fencepost.broker_stub.proxy.proxy import FaultProxy
    from fencepost.broker_stub.security.acls import Acl
    from fencepost.broker_stub.security.sasl import Sasl

PORT: Final = 9092
EXCHANGES: Final = 1000  # kept by the journal, where a control or a page can show them


def serve(
    *,
    brokers: int = 1,
    host: str | None = None,
    port: int | None = None,
    advertised_host: str | None = None,
    auto_create_topics: bool = True,
    default_partitions: int | None = None,
    default_replication_factor: int | None = None,
    config: Mapping[str, str] | None = None,
    properties: str | None = None,
    seed: int = 0,
    tls_cert: str | None = None,
    tls_key: str | None = None,
    tls_client_ca: str | None = None,
    sasl_users: Mapping[str, str] | None = None,
    sasl_mechanisms: Sequence[str] = (),
    authorizer: bool = False,
    super_users: Sequence[str] = (),
    acls: Sequence[str] = (),
    control: str | None = None,
    ui_port: int | None = None,
    virtual_clock: bool = False,
    emulate: str = NEWEST,
    data_dir: str | None = None,
    log_dirs: int = 1,
) -> None:
    """Blocks until a signal. Raises OSError for a port in use or a missing file, ValueError for invalid values. `properties` is a file of
    Kafka's own format; `config` overrides it. `ui_port`: the port of the inspector, 0 for a free one, None for no inspector."""
    configs = {**(_read(properties) if properties is not None else {}), **(config or {})}
    if port is None and LISTENERS not in configs:
        port = PORT
    with ending_signals() as wait:
        stub = BrokerStub(
            brokers=brokers,
            host=host,
            port=port,
            advertised_host=advertised_host,
            auto_create_topics=auto_create_topics,
            default_partitions=default_partitions,
            default_replication_factor=default_replication_factor,
            config=configs,
            journal=EXCHANGES if control is not None or ui_port is not None else 0,
            seed=seed,
            clock=VirtualClock() if virtual_clock else None,
            tls=_tls(tls_cert, tls_key, tls_client_ca),
            sasl=_sasl(sasl_users or {}, sasl_mechanisms),
            acls=_acls(acls) if authorizer or acls else None,
            super_users=super_users,
            emulate=emulate,
            data_dir=data_dir,
            log_dirs=log_dirs,
        )
        with stub, controlled(stub, control) as url:
            print(f"{counted(brokers, 'broker')} listening on {stub.bootstrap}", flush=True)
            if url is not None:
                print(f"control at {url}", flush=True)
            if ui_port is not None:
                print(f"page at {stub.ui(port=ui_port).url}", flush=True)
            wait()
    print("stopped", file=sys.stderr)


@contextmanager
def ending_signals() -> Iterator[Callable[[], None]]:
    """Yields a function that waits for SIGINT or SIGTERM, also for one that came before. It waits for a byte of the signal itself. An Event
    would hang if its handler interrupted the wait at its beginning, and the wait would not see a signal that came just before it."""
    came: list[int] = []
    receiver, sender = socket.socketpair()
    with receiver, sender:
        receiver.setblocking(False)
        sender.setblocking(False)
        watched = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
        before = {number: signal.signal(number, lambda number, frame: came.append(number)) for number in (signal.SIGINT, signal.SIGTERM)}

        def wait() -> None:
            while not came:
                select.select([receiver], [], [])
                with suppress(BlockingIOError):
                    receiver.recv(1024)

        try:
            yield wait
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(watched)


@contextmanager
def controlled(target: "BrokerStub | FaultProxy", where: str | None) -> Iterator[str | None]:
    """Opens a control at [HOST:]PORT for the block, and yields its URL; None without one. The token comes from the environment, if it is
    there, because a list of processes would show an argument."""
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
        raise ValueError(f"{file} is not a text file: {error}") from None


def _sasl(users: Mapping[str, str], mechanisms: Sequence[str]) -> "Sasl | None":
    if not users and not mechanisms:
        return None
    from fencepost.broker_stub.security.sasl import Sasl
    from fencepost.broker_stub.security.sasl_mechanisms import PASSWORD_MECHANISMS

    useless = [] if users else [each for each in mechanisms if each in PASSWORD_MECHANISMS]
    if useless:
        raise ValueError(f"--sasl-mechanism {useless[0]} needs users with passwords: name them with --sasl-user")
    return Sasl(dict(users), list(mechanisms) or None)


def _acls(texts: Sequence[str]) -> "list[Acl]":
    from fencepost.broker_stub.security.acl_text import read_acl

    return [acl for text in texts for acl in read_acl(text)]


def _tls(cert: str | None, key: str | None, client_ca: str | None) -> "Tls | None":
    if cert is None:
        if key is not None or client_ca is not None:
            raise ValueError("--tls-key and --tls-client-ca need the brokers' certificate: give --tls-cert")
        return None
    from fencepost.broker_stub.network.tls import Tls

    return Tls(cert, key, client_ca)
