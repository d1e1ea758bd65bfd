"""`BrokerStub`: a cluster with its own thread, for tests and for the command line.

Every public method may be called from any thread: it runs on the loop's thread and comes back within a deadline, or raises TimeoutError.
Before `start` and after `close`, when there is no loop, it runs where it was called. One stub starts once.
"""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, get_args

from msgspec.structs import replace

from fencepost.broker_stub import handlers
from fencepost.broker_stub.cluster.clock import Clock, RealClock, VirtualClock
from fencepost.broker_stub.cluster.cluster import Cluster
from fencepost.broker_stub.cluster.partition import Partition
from fencepost.broker_stub.cluster.release import NEWEST
from fencepost.broker_stub.cluster.topics import Topic
from fencepost.broker_stub.configs.server_properties import PROTOCOLS, place_from
from fencepost.broker_stub.configs.topic_configs import Value, as_text
from fencepost.broker_stub.faults.rules import Faults
from fencepost.broker_stub.journal.journal import Journal
from fencepost.broker_stub.log import ReadResult
from fencepost.broker_stub.network.addresses import PORT_MAX, all_spelled
from fencepost.broker_stub.network.loop_calls import LoopCalls, LoopEnded
from fencepost.broker_stub.requests.dispatcher import Dispatcher
from fencepost.broker_stub.requests.services import Services
from fencepost.broker_stub.security.restrictions import Restrictions
from fencepost.broker_stub.socket_server.acceptor import Acceptor
from fencepost.broker_stub.socket_server.server import Server
from fencepost.producer.wire.records import Record, iter_batches, read_records

if TYPE_CHECKING:
    import ssl

    from fencepost.broker_stub.network.tls import Path, Tls
    from fencepost.broker_stub.security.acls import Acl
    from fencepost.broker_stub.security.sasl import Sasl

CALL_TIMEOUT_S = 10.0
CLOSE_TIMEOUT_S = 10.0
REQUEST_TIMEOUT_MS = 1000

T = TypeVar("T")
Isolation = Literal["read_committed", "read_uncommitted"]

handlers.register()


class BrokerStub(Restrictions):
    """A Kafka-compatible cluster of brokers 1 to n, for any client; `Producer(stub.settings)` waits a second for a lost reply, and not 30.

    `port` is the first broker's, the others follow it; 0 takes free ones. `advertised_host` is what clients are told to connect to, where
    that is not `host`: without it, one that listens everywhere (0.0.0.0, ::) tells the address by which this machine reaches others.

    `config` takes Kafka's broker configs, which are also its topics' defaults, by the names that they have in a server.properties, with
    `listeners` and `advertised.listeners` among them; what has no meaning here is passed over with a warning, and an unknown name is
    refused. `journal` is how many exchanges are kept, 0 for none.

    `clock`: real unless it is a `VirtualClock`, which stands still until `advance`: record timestamps, sessions and delays live by
    it, and nothing that waits for a time comes to pass by itself.

    `tls` makes clients speak TLS: a `Tls`, a pair of certificate and key file, or a context for servers. `sasl` makes them say who they
    are: a `Sasl`, or a dictionary of users and their passwords, for PLAIN and SCRAM.

    `acls`, even none (`[]`), has it ask Kafka's StandardAuthorizer what each client may do; `super_users` may do everything. Both take
    users' names. Without either, and without `authorizer.class.name` in `config`, everybody may do everything.

    `emulate` is the release of Kafka that it is, "4.3" or "3.9". `transaction_version` is the finalized level of `transaction.version`, 2
    in 4.3; with 0 or 1 clients do without the epochs of KIP-890.
    """

    # Of the class, for one that was never made: `__del__` sees that, too.
    _loop: asyncio.AbstractEventLoop | None = None
    _thread: threading.Thread | None = None

    def __init__(
        self,
        *,
        brokers: int = 1,
        host: str | None = None,
        port: int | None = None,
        advertised_host: str | None = None,
        auto_create_topics: bool = True,
        default_partitions: int = 1,
        default_replication_factor: int | None = None,
        config: Mapping[str, Value] | None = None,
        journal: int = 1000,
        seed: int = 0,
        cluster_id: str | None = None,
        clock: Clock | None = None,
        tls: Tls | ssl.SSLContext | tuple[Path, Path] | None = None,
        sasl: Sasl | Mapping[str, str] | None = None,
        acls: Iterable[Acl] | None = None,
        super_users: Iterable[str] = (),
        emulate: str = NEWEST,
        transaction_version: int | None = None,
    ) -> None:
        self._server: Server | None = None
        self._calls: LoopCalls | None = None
        self._place = place_from(
            config or {},
            host=host,
            port=port,
            advertised_host=advertised_host,
            protocol=PROTOCOLS[tls is not None, sasl is not None],
        )
        if not 0 <= self._place.port <= PORT_MAX - (brokers - 1):
            room = f"from 1 to {PORT_MAX - (brokers - 1)}, so that {brokers} brokers find room, or 0 for free ones"
            raise ValueError(f"port={self._place.port}: {room}")
        self.clock: Clock = clock or RealClock()
        self._tls = _context(tls) if tls is not None else None
        cluster = Cluster(
            self.clock,
            brokers=brokers,
            auto_create_topics=auto_create_topics,
            default_partitions=default_partitions,
            default_replication_factor=default_replication_factor,
            config=self._place.config,
            seed=seed,
            cluster_id=cluster_id,
            acls=acls,
            super_users=super_users,
            emulate=emulate,
            transaction_version=transaction_version,
        )
        self.services = Services(cluster, Journal(journal))
        self.dispatcher = Dispatcher(self.services)
        self.acceptor = Acceptor(self.dispatcher, sasl=_sasl(sasl) if sasl is not None else None, seed=seed)

    @property
    def cluster(self) -> Cluster:
        return self.services.cluster

    @property
    def faults(self) -> Faults:
        return self.cluster.faults

    @property
    def journal(self) -> Journal:
        return self.services.journal

    @property
    def addresses(self) -> dict[int, tuple[str, int]]:
        """Where clients find each broker, now or when it is up again."""
        return {node_id: (broker.host, broker.port) for node_id, broker in self.cluster.brokers.items()}

    @property
    def bootstrap(self) -> str:
        """What clients take as `bootstrap_servers`. RuntimeError before the start: the ports are not known."""
        if any(port == 0 for _, port in self.addresses.values()):
            raise RuntimeError("the stub has not started, so its ports are not known: use `with BrokerStub() as stub:`, or call start()")
        return all_spelled(self.addresses.values())

    @property
    def settings(self) -> dict[str, Any]:
        """What fencepost's producers are given in a test: `Producer(stub.settings, linger_ms=0)`. Their own `request_timeout_ms` is 30 s,
        which is how long a lost reply would keep a test waiting; here it is one second."""
        return {"bootstrap_servers": self.bootstrap, "request_timeout_ms": REQUEST_TIMEOUT_MS}

    def start(self) -> Self:
        """Binds, listens and starts the thread. Clients may connect as soon as it returns."""
        if self._thread is not None:
            raise RuntimeError("a stub starts once")
        loop = asyncio.new_event_loop()
        server = Server(self.acceptor, self.clock, loop, tls=self._tls)
        try:
            server.bind(self._place.host, self._place.port, advertised_host=self._place.advertised_host)
        except OSError:
            loop.close()
            raise
        self._loop, self._server, self._calls = loop, server, LoopCalls(loop)
        self._thread = threading.Thread(target=_run, args=(loop, server, self._calls), name="broker-stub", daemon=True)
        self._thread.start()
        return self

    def close(self, timeout: float = CLOSE_TIMEOUT_S) -> None:
        """Cuts every connection, closes every socket, ends the thread; a second call does nothing."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        if thread.is_alive():
            with suppress(RuntimeError):  # the loop has just ended by itself
                loop.call_soon_threadsafe(loop.stop)
            thread.join(timeout)
            if thread.is_alive():
                raise TimeoutError(f"the stub's thread did not end within {timeout} s")
        self._loop = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        loop, thread = self._loop, self._thread
        if loop is not None and thread is not None and thread.is_alive():
            warnings.warn("a BrokerStub was dropped without close()", ResourceWarning, stacklevel=2)
            with suppress(RuntimeError):  # the loop has just ended by itself
                loop.call_soon_threadsafe(loop.stop)

    async def __aenter__(self) -> Self:
        """`start`, while the loop goes on."""
        try:
            return await _off_loop(self.start)
        except asyncio.CancelledError:
            await _off_loop(self.close)
            raise

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await _off_loop(self.close)

    # Time

    def advance(self, ms: int) -> int:
        """Moves a virtual clock forward, and returns the new time when everything that came due has been done.

        Only a stub with `clock=VirtualClock()` can: another raises TypeError, and a step back ValueError.
        """
        clock = self.clock
        if not isinstance(clock, VirtualClock):
            raise TypeError(f"advance() needs BrokerStub(clock=VirtualClock()), and this stub has a {type(clock).__name__}")
        now_ms = clock.advance(ms)
        self._call(self.cluster.tick)
        return now_ms

    # Topics

    def create_topic(
        self, name: str, *, partitions: int = 1, replication_factor: int | None = None, config: Mapping[str, Value] | None = None
    ) -> None:
        """Creates the topic, or raises ValueError with the reason that a client would get."""
        self._call(lambda: self._create(name, partitions, replication_factor, config))

    def delete_topic(self, name: str) -> None:
        self._call(lambda: self.cluster.delete_topic(self._topic(name)))

    def add_partitions(self, name: str, total: int) -> None:
        """Grows the topic to `total` partitions; refused when it has as many already."""
        self._call(lambda: self.cluster.add_partitions(self._topic(name), total))

    def records(self, topic: str, partition: int, *, isolation: Isolation = "read_committed") -> list[Record]:
        """The records that a consumer of that isolation level can read: by default nothing of transactions that are open or were aborted,
        and nothing that comes after an open one; with "read_uncommitted" all that is replicated."""
        if isolation not in get_args(Isolation):
            raise ValueError(f"isolation={isolation!r}: it is one of {', '.join(get_args(Isolation))}")
        found = self._call(lambda: self._contents(self._partition(topic, partition), read_committed=isolation == "read_committed"))
        return [
            record
            for header, batch in iter_batches(found.records)
            if not header.is_control and not any(txn.covers(header) for txn in found.aborted or ())
            for record in read_records(batch)
            if record.offset >= found.log_start_offset
        ]

    def end_offset(self, topic: str, partition: int) -> int:
        return self._call(lambda: self._partition(topic, partition).log.log_end_offset)

    def leader(self, topic: str, partition: int) -> int:
        """The node that leads the partition, -1 for none."""
        return self._call(lambda: self._partition(topic, partition).leader)

    def move_leader(self, topic: str, partition: int, *, to: int | None = None) -> int:
        """Has another in-sync replica lead, by default the next; raises ValueError when there is none. Returns the new leader."""
        return self._call(lambda: self.cluster.move_leader(self._partition(topic, partition), to=to))

    # Brokers

    def stop_broker(self, node: int, *, clean: bool = True) -> None:
        """Its connections end, its port refuses, its leaderships move. Nobody can see afterwards whether it was clean, as with Kafka."""
        self._known(node)
        hosts = self._server or self.cluster
        self._call(lambda: hosts.stop_broker(node, clean=clean))

    def start_broker(self, node: int, *, port: int | None = None) -> None:
        """Back on the same port, or on another one, 0 for a free one; OSError for one that is taken, and it stays down."""
        self._known(node)
        server = self._server
        if server is not None:
            self._call(lambda: server.start_broker(node, port=port))
        elif port is None:
            self._call(lambda: self.cluster.start_broker(node))
        else:
            raise RuntimeError("a stub that has not been started has no ports")

    def restart_broker(self, node: int, *, clean: bool = True, port: int | None = None) -> None:
        """Down and up again; `port` as in `start_broker`."""
        self.stop_broker(node, clean=clean)
        self.start_broker(node, port=port)

    def sever(self, one: int, other: int) -> None:
        """These two brokers no longer reach each other, though clients reach both: followers stay behind, acks=all waits for them until
        replica.lag.time.max.ms has passed, and one that comes to lead has only what it got."""
        self._between(one, other, lambda: self.cluster.broker_links.sever(one, other))

    def mend(self, one: int, other: int) -> None:
        """These two brokers reach each other again."""
        self._between(one, other, lambda: self.cluster.broker_links.mend(one, other))

    @property
    def severed(self) -> list[tuple[int, int]]:
        """The pairs of brokers that do not reach each other."""
        return self._call(lambda: self.cluster.broker_links.down)

    def isr(self, topic: str, partition: int) -> list[int]:
        """The nodes that are in sync, the leader among them."""
        return self._call(lambda: list(self._partition(topic, partition).isr))

    def cut_links(self, node: int | None = None) -> int:
        """Ends every client connection now, of one broker or of all; returns how many."""
        if node is not None:
            self._known(node)
        return self._call(lambda: self.cluster.cut_links(node))

    def stats(self) -> dict[str, int]:
        """The cluster's counters, and the connections open now."""
        return self._call(
            lambda: {**self.cluster.counters.as_dict(), "open": sum(len(each.links) for each in self.cluster.brokers.values())}
        )

    def _create(self, name: str, partitions: int, replication_factor: int | None, config: Mapping[str, Value] | None) -> None:
        from fencepost.broker_stub.handlers.create_topics import why_not

        factor = self.cluster.default_replication_factor if replication_factor is None else replication_factor
        overrides = as_text(config or {})
        refusal = why_not(self.cluster, name, partitions=partitions, replication_factor=factor, configs=dict(overrides))
        if refusal is not None:
            raise ValueError(f"{refusal.code.name}: {refusal.message}")
        self.cluster.create_topic(name, partitions=partitions, replication_factor=factor, overrides=overrides)

    def _topic(self, name: str) -> Topic:
        topic = self.cluster.topics.named(name)
        if topic is None:
            raise KeyError(f"there is no topic {name!r}")
        return topic

    def _partition(self, topic: str, index: int) -> Partition:
        partition = self._topic(topic).partition(index)
        if partition is None:
            raise KeyError(f"{topic!r} has no partition {index}")
        return partition

    def _between(self, one: int, other: int, change: Callable[[], None]) -> None:
        self._known(one)
        self._known(other)
        if one == other:
            raise ValueError(f"broker {one} always reaches itself")
        self._call(change)

    def _known(self, node: int) -> None:
        if node not in self.cluster.brokers:
            raise KeyError(f"there is no broker {node}, only {sorted(self.cluster.brokers)}")

    def _contents(self, partition: Partition, *, read_committed: bool) -> ReadResult:
        log = partition.log
        found = log.read(log.log_start_offset, max_bytes=partition.storage.size, read_committed=read_committed)
        return replace(found, records=bytes(found.records))  # the storage's memory stays on its thread

    def _call(self, run: Callable[[], T]) -> T:
        """Runs it on the loop's thread, or here when there is none."""
        calls, server = self._calls, self._server
        if self._loop is None or calls is None or server is None or self._thread is threading.current_thread():
            return run()

        def on_loop() -> T:
            try:
                return run()
            finally:
                server.arm()

        try:
            return calls.call(on_loop, CALL_TIMEOUT_S)
        except LoopEnded:
            return run()


async def _off_loop(call: Callable[[], T]) -> T:
    """Runs it in another thread and waits for its end, also when it is cancelled meanwhile: nothing half done is left behind."""
    running = asyncio.ensure_future(asyncio.to_thread(call))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise


# Only a stub that wants them loads them: a stub has to start fast.


def _context(given: Tls | ssl.SSLContext | tuple[Path, Path]) -> ssl.SSLContext:
    from fencepost.broker_stub.network.tls import context_from

    return context_from(given)


def _sasl(given: Sasl | Mapping[str, str]) -> Sasl:
    from fencepost.broker_stub.security.sasl import sasl_from

    return sasl_from(given)


def _run(loop: asyncio.AbstractEventLoop, server: Server, calls: LoopCalls) -> None:
    """The thread: serves until the loop is stopped, then leaves nothing behind."""
    try:
        loop.call_soon(server.serve)
        loop.run_forever()
        loop.run_until_complete(server.down())
    finally:
        loop.close()
        calls.end()
