"""`FaultProxy`: a Kafka-aware TCP proxy in front of any broker, so that a real Kafka loses replies on demand.

    with FaultProxy("localhost:9092") as proxy:
        proxy.faults.on(Api.PRODUCE).drop_reply().times(3)
        producer = Producer(bootstrap_servers=proxy.bootstrap, request_timeout_ms=1000)  # by default it waits 30 s for a lost reply

It listens once for every broker behind it, and writes its own addresses into the responses that name brokers. So clients never connect to
the brokers themselves. Faults mean the same as in the stub. It never retries, and keeps no data except its journal.

With `upstream_tls` it connects to brokers with TLS. SASL passes through: the proxy has no password. If the brokers ask for it, the proxy
listens for the given addresses first, and learns the others from what brokers answer to clients.

Leaves out: the bare tokens of SaslHandshake version 0, and the share group APIs. It removes these from ApiVersions, because their
responses also name brokers.
"""

from __future__ import annotations

import asyncio
import pathlib
import ssl
import warnings
from collections.abc import Callable
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar
from uuid import UUID

from fencepost.broker_stub.arguments import check_arguments
from fencepost.broker_stub.configs.server_properties import PLAINTEXT, place_from
from fencepost.broker_stub.faults.rules import Faults
from fencepost.broker_stub.journal.journal import Journal
from fencepost.broker_stub.network.addresses import all_spelled, read_address
from fencepost.broker_stub.network.limits import CLOSE_TIMEOUT_S
from fencepost.broker_stub.network.loop_thread import LoopEnded, LoopThread, StartsOnce
from fencepost.broker_stub.network.tls import Path, Tls, client_context_from, context_from
from fencepost.broker_stub.proxy.discovery import discover
from fencepost.broker_stub.proxy.hub import Hub

if TYPE_CHECKING:
    from fencepost.broker_stub.inspector.inspector import Inspector
    from fencepost.broker_stub.inspector.source import Source
    from fencepost.broker_stub.inspector.upstream_snapshot import UpstreamSnapshots

START_TIMEOUT_S = 15.0
CALL_TIMEOUT_S = 10.0
NOT_RUNNING = "the proxy does not run"

T = TypeVar("T")


class FaultProxy:
    """A proxy with its own thread. Any thread may call its public methods, which return within a deadline.

    `upstream_bootstrap` is HOST:PORT, or several with commas. `port` is the first listener's, the others follow it; 0 takes free ones.
    `advertised_host` is the host that clients connect to, if it is not `host`, as with `BrokerStub`. Starting raises ConnectionError when
    no broker answers. A proxy starts only once. `journal` is how many exchanges are kept; with 0 the proxy reads fewer frames.

    `upstream_tls` makes the proxy speak TLS to brokers, and check their certificates and host names: True with the system's CAs, the file
    of a CA, or a context for clients, which may have a client's certificate. All clients of the proxy then have that certificate's rights.
    `tls` makes clients speak TLS to the proxy, with the values that `BrokerStub` takes; the certificate must be for the advertised host.
    Without it clients connect in plain text, also with SASL: SASL_PLAINTEXT where the brokers want SASL_SSL.

    The journal has what brokers were asked and what they answered. It has no exchange for a request that a fault kept from the broker, two
    for a request that a fault doubled, and only the forwarded part where a fault refused another part. The response is the broker's own,
    with the broker's addresses, even if no client got it; `heard` says what the client got. Without a response, where one was due, the
    connection ended first: the proxy does not know whether the broker processed or even read the request. Requests of unknown APIs are not
    in the journal.
    """

    # On the class, because `__del__` also runs for an object whose `__init__` failed.
    _hub: Hub | None = None
    _once = StartsOnce("proxy")

    def __init__(
        self,
        upstream_bootstrap: str,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        advertised_host: str | None = None,
        journal: int = 1000,
        tls: Tls | ssl.SSLContext | tuple[Path, Path] | None = None,
        upstream_tls: bool | Path | ssl.SSLContext = False,
    ) -> None:
        check_arguments(upstream_bootstrap=upstream_bootstrap, host=host, port=port, advertised_host=advertised_host, journal=journal)
        self._once = StartsOnce("proxy")
        self._inspectors: list[Inspector] = []
        self._snapshots: UpstreamSnapshots | None = None
        self.faults = Faults()
        self.journal = Journal(journal)
        self._upstream = [read_address(each) for each in upstream_bootstrap.split(",")]
        self._place = place_from({}, host=host, port=port, advertised_host=advertised_host, protocol=PLAINTEXT)
        self._tls = context_from(tls) if tls is not None else None
        self._upstream_tls = client_context_from(upstream_tls) if upstream_tls is not False else None

    def __repr__(self) -> str:
        hub = self._hub  # Another thread may close the proxy.
        bootstrap = all_spelled(tuple(hub.addresses.values())) if hub is not None else None
        return f"FaultProxy({all_spelled(self._upstream)!r}, bootstrap={bootstrap!r})"

    @property
    def addresses(self) -> dict[int, tuple[str, int]]:
        """Where clients find each known broker. Raises RuntimeError unless the proxy runs."""
        hub = self._running()
        return self._call(lambda: dict(hub.addresses))

    @property
    def bootstrap(self) -> str:
        """The value for `bootstrap_servers` of clients. Raises RuntimeError unless the proxy runs."""
        return all_spelled(self.addresses.values())

    def start(self) -> Self:
        """Asks the upstream for its brokers and listens for each. Clients may connect as soon as it returns."""
        with self._once.starting():
            loop = asyncio.new_event_loop()
            self._hub = hub = Hub(
                loop, self.faults, journal=self.journal, place=self._place, tls=self._tls, upstream_tls=self._upstream_tls
            )
            self._once.thread = thread = LoopThread("fault-proxy", loop, hub.down)
            thread.start()
        try:
            thread.complete(discover(hub, self._upstream), START_TIMEOUT_S)
        except LoopEnded:
            raise RuntimeError("another thread closed the proxy while it started") from None
        except BaseException:
            self.close()
            raise
        return self

    def close(self, timeout: float = CLOSE_TIMEOUT_S) -> None:
        """Cuts every connection, closes every socket, ends the thread. A second call does nothing."""
        check_arguments(timeout=timeout)
        self._once.check_thread()
        self._close_inspectors()
        with self._once.ending(timeout):
            self._hub = None
            if self._snapshots is not None:
                self._snapshots.close()
        self._close_inspectors()  # Those that another thread opened meanwhile.

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        thread = self._once.thread
        if thread is not None and thread.running:
            warnings.warn("a FaultProxy was dropped without close()", ResourceWarning, stacklevel=2)
            thread.stop_soon()

    def cut_connections(self, node: int | None = None) -> int:
        """Ends every client connection, of one broker or of all. Returns how many there were. KeyError for an unknown broker."""
        if node is not None:
            check_arguments(node=node)
            if node not in self.addresses:
                raise KeyError(f"there is no broker {node}, only {sorted(self.addresses)}")
        hub = self._running()
        return self._call(lambda: hub.cut_connections(node))

    def stats(self) -> dict[str, int]:
        """The counters, and the number of open connections. `connections_cut` counts the clients' connections that `cut_connections` or a
        fault ended."""
        hub = self._running()
        return self._call(hub.stats)

    def topic_name(self, topic_id: UUID) -> str | None:
        """The name of a topic id that a response has told."""
        hub = self._hub
        return None if hub is None else hub.name_of(topic_id)

    def ui(self, *, port: int = 0) -> Inspector:
        """Opens the inspector, a page at `proxy.ui().url` on this computer that shows the cluster behind the proxy and its exchanges live.
        Port 0 takes a free one. It ends with the proxy. OSError for a port in use.

        It asks the brokers directly, up to once every 1.5 seconds while the page is open, with client id "fencepost-inspector". A cluster
        that wants a login tells it nothing, and the page shows the exchanges alone."""
        from fencepost.broker_stub.inspector.inspector import Inspector

        inspector = Inspector(self._source(), port=port)
        self._inspectors.append(inspector)  # Before the start, and before the check: `close` finds it, or this does not start it.
        self._running()
        return inspector.start()

    def share(self, file: str | PathLike[str]) -> pathlib.Path:
        """Writes what the inspector shows now as one HTML file, as `BrokerStub.share` does; returns its path."""
        from fencepost.broker_stub.inspector.inspector import share

        return share(self._source(), file)

    def _source(self) -> Source:
        from fencepost.broker_stub.inspector.source import Source
        from fencepost.broker_stub.inspector.upstream_snapshot import UpstreamSnapshots

        with self._once.standing(CALL_TIMEOUT_S):
            if self._snapshots is None:
                hub = self._running()
                self._snapshots = UpstreamSnapshots(lambda: self._call(lambda: hub.upstream), self._upstream_tls)
            snapshots = self._snapshots
        return Source(journal=self.journal, faults=self.faults, name_of=self.topic_name, snapshot=snapshots.take)

    def _close_inspectors(self) -> None:
        for inspector in self._inspectors:
            inspector.close()

    def _running(self) -> Hub:
        hub = self._hub
        if hub is None:
            raise RuntimeError(NOT_RUNNING)
        return hub

    def _call(self, run: Callable[[], T]) -> T:
        """Runs it on the loop's thread."""
        if self._once.thread is None:
            raise RuntimeError(NOT_RUNNING)
        try:
            return self._once.thread.call(run, CALL_TIMEOUT_S)
        except LoopEnded:
            raise RuntimeError(NOT_RUNNING) from None
