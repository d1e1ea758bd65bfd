"""`BrokerStub`: a cluster with its own thread, for tests and for the command line.

Any thread may call its public methods. They run on the loop's thread and return within a deadline, or raise TimeoutError. Before `start`
and after `close` there is no loop, and they run in the caller's thread. A stub starts only once. A closed stub can be read, and refuses
what would change it.
"""

from __future__ import annotations

import asyncio
import threading
import warnings
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar, get_args

from msgspec.structs import replace

from fencepost.broker_stub import handlers
from fencepost.broker_stub.arguments import check_arguments, check_delay
from fencepost.broker_stub.cluster.broker_links import End, named
from fencepost.broker_stub.cluster.clock import Clock, RealClock, VirtualClock
from fencepost.broker_stub.cluster.cluster import Cluster
from fencepost.broker_stub.cluster.context import CONTROLLER, NewStorage
from fencepost.broker_stub.cluster.release import NEWEST
from fencepost.broker_stub.cluster.topics import Topic
from fencepost.broker_stub.configs.server_properties import PROTOCOLS, place_from
from fencepost.broker_stub.configs.topic_configs import Value, as_text
from fencepost.broker_stub.faults.rules import Faults
from fencepost.broker_stub.journal.journal import Journal
from fencepost.broker_stub.log import PartitionLog, ReadResult
from fencepost.broker_stub.network.addresses import PORT_MAX, all_spelled
from fencepost.broker_stub.network.limits import CLOSE_TIMEOUT_S
from fencepost.broker_stub.network.loop_thread import LoopEnded, LoopThread, StartsOnce
from fencepost.broker_stub.replication.partition import Partition
from fencepost.broker_stub.requests.dispatcher import Dispatcher
from fencepost.broker_stub.requests.router import served
from fencepost.broker_stub.requests.services import Services
from fencepost.broker_stub.security.restrictions import Restrictions
from fencepost.broker_stub.socket_server.acceptor import Acceptor
from fencepost.broker_stub.socket_server.server import Server
from fencepost.broker_stub.storage.disk_state import DiskFault, StorageFailed
from fencepost.producer.wire.codes import ErrorCode
from fencepost.producer.wire.records import Record, iter_batches, read_records

if TYPE_CHECKING:
    import pathlib
    import ssl

    from fencepost.broker_stub.inspector.inspector import Inspector
    from fencepost.broker_stub.inspector.snapshot import Snapshots
    from fencepost.broker_stub.inspector.source import Source
    from fencepost.broker_stub.network.tls import Path, Tls
    from fencepost.broker_stub.security.acls import Acl
    from fencepost.broker_stub.security.sasl import Sasl
    from fencepost.broker_stub.telemetry.pushes import TelemetryPush

CALL_TIMEOUT_S = 10.0
REQUEST_TIMEOUT_MS = 1000

STARTED: Final[dict[weakref.ref[BrokerStub], None]] = {}
"""The stubs that started, the oldest first, while the program has them: for the report of a failed test."""

T = TypeVar("T")
Isolation = Literal["read_committed", "read_uncommitted"]

handlers.register()


class BrokerStub(Restrictions):
    """A Kafka-compatible cluster of brokers 1 to n, for any client. `Producer(stub.settings)` waits 1 s for a lost reply, not 30 s.

    `port` is the first broker's, the others follow it; 0 takes free ones. `advertised_host` is the host that clients connect to, if it is
    not `host`. By default a stub that listens on every interface (0.0.0.0, ::) advertises the address by which this computer reaches
    others.

    `config` takes Kafka's broker configs by the names of a server.properties, with `listeners` and `advertised.listeners` among them. They
    are also the topics' defaults. A config without meaning here is ignored with a warning; an unknown name is refused. `journal` is how
    many exchanges are kept.

    `clock`: real by default. A `VirtualClock` stands still until `advance`; record timestamps, sessions and delays follow it, so nothing
    that waits for a time happens by itself.

    `tls` makes clients speak TLS: a `Tls`, a pair of certificate and key file, or a context for servers. `sasl` makes clients authenticate:
    a `Sasl`, or a dictionary of users and their passwords, for PLAIN and SCRAM.

    `acls`, even an empty list, turns on Kafka's StandardAuthorizer; `super_users` may do everything. Both take users' names. Without
    either, and without `authorizer.class.name` in `config`, every client may do everything.

    `emulate` is the release of Kafka, "4.3" or "3.9". `transaction_version` is the finalized level of `transaction.version`, 2 in 4.3. With
    0 or 1 clients do not use the epochs of KIP-890.

    Without `leader_epochs` a follower truncates to its high watermark, as before KIP-101, and acknowledged records can be lost. It is for
    seeing what leader epochs are for: docs/replication.md.

    `log_dirs` is how many log directories each broker has (JBOD). A broker goes on without one whose disk fails, and halts without the last
    one.

    `data_dir` keeps the cluster in that directory, in the files of Kafka's own layout: a stub that is started with it goes on with the
    topics, records, groups, transactions and producer ids of the one before. By default everything is in memory and ends with the stub.

    With `telemetry` brokers offer clients to take their metrics (KIP-714), as Kafka's do if a plugin receives them. Clients that support it
    then push what subscriptions ask for (`kafka-client-metrics`), and `stub.telemetry` has the newest pushes.
    """

    # On the class, because `__del__` also runs for an object whose `__init__` failed.
    _once = StartsOnce("stub")

    def __init__(
        self,
        *,
        brokers: int = 1,
        host: str | None = None,
        port: int | None = None,
        advertised_host: str | None = None,
        auto_create_topics: bool = True,
        default_partitions: int | None = None,
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
        leader_epochs: bool = True,
        log_dirs: int = 1,
        data_dir: str | PathLike[str] | None = None,
        telemetry: bool = False,
    ) -> None:
        check_arguments(
            brokers=brokers,
            host=host,
            port=port,
            advertised_host=advertised_host,
            journal=journal,
            seed=seed,
            clock=clock,
            data_dir=data_dir,
            telemetry=telemetry,
        )
        self._server: Server | None = None
        self._inspectors: list[Inspector] = []
        self._once = StartsOnce("stub")
        self._place = place_from(
            {} if config is None else config,
            host=host,
            port=port,
            advertised_host=advertised_host,
            protocol=PROTOCOLS[tls is not None, sasl is not None],
        )
        if not 0 <= self._place.port <= PORT_MAX - (brokers - 1):
            room = f"give 1 to {PORT_MAX - (brokers - 1)}, so that every broker of brokers={brokers} has a port, or 0 for free ones"
            raise ValueError(f"port={self._place.port}: {room}")
        self.clock: Clock = RealClock() if clock is None else clock
        self._tls = _context(tls) if tls is not None else None
        with _explained(data_dir):
            cluster = Cluster(
                self.clock,
                brokers=brokers,
                auto_create_topics=auto_create_topics,
                default_partitions=default_partitions,
                default_replication_factor=default_replication_factor,
                config=self._place.config,
                seed=seed,
                cluster_id=cluster_id,
                faults=Faults(served={each.api for each in served()}, nodes=range(1, brokers + 1)),
                acls=acls,
                super_users=super_users,
                emulate=emulate,
                transaction_version=transaction_version,
                leader_epochs=leader_epochs,
                log_dirs=log_dirs,
                storage=None if data_dir is None else _on_disk(data_dir),
            )
        self.services = Services(cluster, Journal(journal), offers_telemetry=telemetry)
        self.dispatcher = Dispatcher(self.services)
        self.acceptor = Acceptor(self.dispatcher, sasl=_sasl(sasl) if sasl is not None else None, seed=seed)

    def __repr__(self) -> str:
        bootstrap = self.bootstrap if self._has_ports() and not self._once.closed else None
        return f"BrokerStub(bootstrap={bootstrap!r}, brokers={len(self.cluster.brokers)}, topics={len(self.cluster.topics)})"

    @property
    def cluster(self) -> Cluster:
        """The cluster behind the public methods, with what they do not show. It may change in any release."""
        return self.services.cluster

    @property
    def faults(self) -> Faults:
        """The fault rules, and where new ones begin: `stub.faults.on(Api.PRODUCE).drop_reply()`."""
        return self.cluster.faults

    @property
    def journal(self) -> Journal:
        """What clients asked and what brokers answered, as far as it is kept."""
        return self.services.journal

    @property
    def telemetry(self) -> list[TelemetryPush]:
        """The metrics that clients have pushed, the newest thousand pushes within 16 MiB."""
        return self._read(lambda: [*self.services.telemetry.pushes])

    @property
    def addresses(self) -> dict[int, tuple[str, int]]:
        """Where clients find each broker, also one that is down."""
        return {node_id: (broker.host, broker.port) for node_id, broker in self.cluster.brokers.items()}

    @property
    def bootstrap(self) -> str:
        """The value for `bootstrap_servers` of clients; after `close` the one that it was. RuntimeError before the start: the ports are
        unknown then."""
        if not self._has_ports():
            raise RuntimeError("the stub has not started, so its ports are not known: use `with BrokerStub() as stub:`, or call start()")
        return all_spelled(self.addresses.values())

    @property
    def settings(self) -> dict[str, Any]:
        """Settings for fencepost's producers in a test: `Producer(stub.settings, linger_ms=0)`. Their `request_timeout_ms` is one second,
        not 30 s, so that a test does not wait long for a lost reply."""
        return {"bootstrap_servers": self.bootstrap, "request_timeout_ms": REQUEST_TIMEOUT_MS}

    def start(self) -> Self:
        """Binds, listens and starts the thread. Clients may connect as soon as it returns. OSError for a port in use; the stub keeps its
        `data_dir` until `close`."""
        with self._once.starting():
            loop = asyncio.new_event_loop()
            server = Server(self.acceptor, self.clock, loop, tls=self._tls)
            try:
                server.bind(self._place.host, self._place.port, advertised_host=self._place.advertised_host)
            except OSError:
                loop.close()
                raise
            loop.call_soon(server.serve)
            self._server, self._once.thread = server, LoopThread("broker-stub", loop, server.down)
            self._once.thread.start()
        STARTED[weakref.ref(self, lambda gone: STARTED.pop(gone, None))] = None
        return self

    def close(self, timeout: float = CLOSE_TIMEOUT_S) -> None:
        """Cuts every connection, closes every socket, ends the thread. A second call does nothing."""
        check_arguments(timeout=timeout)
        self._once.check_thread()
        self._close_inspectors()
        with self._once.ending(timeout):
            self.cluster.close()
        self._close_inspectors()  # Those that another thread opened meanwhile.

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        thread = self._once.thread
        if thread is not None and thread.running:
            warnings.warn("a BrokerStub was dropped without close()", ResourceWarning, stacklevel=2)
            thread.stop_soon()

    async def __aenter__(self) -> Self:
        """`start`, without blocking the event loop."""
        try:
            return await _off_loop(self.start)
        except BaseException:
            await _off_loop(self.close)
            raise

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await _off_loop(self.close)

    # Time

    def advance(self, ms: int) -> int:
        """Moves a virtual clock forward, does everything that is due then, and returns the new time.

        Raises TypeError for a stub without `clock=VirtualClock()`, and ValueError for a step back.
        """
        clock = self.clock
        if not isinstance(clock, VirtualClock):
            raise TypeError(f"advance() needs BrokerStub(clock=VirtualClock()), and this stub has a {type(clock).__name__}")
        self._call(lambda: None)  # the loop ends what it is doing at the old time, such as to let followers fetch
        now_ms = clock.advance(ms)
        self._call(self.cluster.tick)
        return now_ms

    # Topics

    def create_topic(
        self, name: str, *, partitions: int | None = None, replication_factor: int | None = None, config: Mapping[str, Value] | None = None
    ) -> None:
        """Creates the topic, with `default_partitions` and `default_replication_factor` by default. ValueError with the reason that a
        client would get."""
        check_arguments(name=name, partitions=partitions, replication_factor=replication_factor)
        self._call(lambda: self._create(name, partitions, replication_factor, config))

    def delete_topic(self, name: str) -> None:
        """Deletes the topic. KeyError if there is none."""
        check_arguments(name=name)
        self._call(lambda: self.cluster.delete_topic(self._topic(name)))

    def add_partitions(self, name: str, total: int) -> None:
        """Grows the topic to `total` partitions. ValueError if it has as many already, or if they are more than 10,000 more."""
        check_arguments(name=name, total=total)
        self._call(lambda: self.cluster.add_partitions(self._topic(name), total))

    def records(self, topic: str, partition: int, *, isolation: Isolation = "read_committed", node: int | None = None) -> list[Record]:
        """The records that a consumer of that isolation level can read: by default none of open or aborted transactions, and none after
        an open one. With "read_uncommitted" all that are replicated. `node`: read from that replica, by default from the leader."""
        if isolation not in get_args(Isolation):
            raise ValueError(f"isolation={isolation!r}: give one of {', '.join(get_args(Isolation))}")
        read_committed = isolation == "read_committed"
        parts = self._read(lambda: self._contents(self._log(self._partition(topic, partition), node), read_committed=read_committed))
        return [
            record
            for found in parts
            for header, batch in iter_batches(found.records)
            if not header.is_control and not any(txn.covers(header) for txn in found.aborted or ())
            for record in read_records(batch)
            if record.offset >= found.log_start_offset
        ]

    def clean_logs(self) -> int:
        """Deletes now what `retention.ms`, `retention.bytes` and DeleteRecords give up, and compacts compacted topics.

        Without this call it happens every `log.retention.check.interval.ms` (5 minutes) and `log.cleaner.backoff.ms` (15 seconds). As in
        Kafka, the segment that is appended to is never compacted. Returns the number of segments that were deleted or replaced.
        """
        slices, total = self.cluster.clean_in_slices(), 0
        while (found := self._call(lambda: next(slices, None))) is not None:  # clients are served between two slices
            total += found
        return total

    def end_offset(self, topic: str, partition: int) -> int:
        """The offset of the next record, transaction markers included."""
        return self._read(lambda: self._partition(topic, partition).log.log_end_offset)

    def leader(self, topic: str, partition: int) -> int:
        """The node that leads the partition; -1 for none."""
        return self._read(lambda: self._partition(topic, partition).leader)

    def move_leader(self, topic: str, partition: int, *, to: int | None = None) -> int:
        """Makes another in-sync replica the leader, by default the next one. ValueError when there is none. Returns the new leader."""
        if to is not None:
            self._known(to=to)
        return self._call(lambda: self.cluster.move_leader(self._partition(topic, partition), to=to))

    # Brokers

    def stop_broker(self, node: int, *, clean: bool = True) -> None:
        """Stops a broker: its connections end, its port refuses, its leaderships move. As in Kafka, clients cannot tell a clean stop."""
        self._known(node=node)
        check_arguments(clean=clean)
        self._call(lambda: (self._server or self.cluster).stop_broker(node, clean=clean))

    def start_broker(self, node: int, *, port: int | None = None) -> None:
        """Starts a broker on the same port, or on another one, 0 for a free one. OSError for a port in use, or for a disk that fails; then
        it stays down."""
        self._known(node=node)
        self._check_port(port)
        self._call(lambda: self._start_broker(node, port))

    def restart_broker(self, node: int, *, clean: bool = True, port: int | None = None) -> None:
        """Stops and starts a broker; `port` as in `start_broker`."""
        self._check_port(port)
        self.stop_broker(node, clean=clean)
        self.start_broker(node, port=port)

    def lose_power(self, node: int) -> None:
        """Stops a broker as a loss of power does: it comes back (`start_broker`) with what was synced.

        By default a log syncs a segment when the next one begins, as Kafka does; `flush.messages` makes it sync more often.
        """
        self._known(node=node)
        self._call(lambda: (self._server or self.cluster).stop_broker(node, clean=False, lost_power=True))

    def pause_broker(self, node: int) -> None:
        """Pauses a broker, as SIGSTOP or a long garbage collection does. Clients connect to it and get no response.

        The controller fences it after broker.session.timeout.ms. A broker that goes on first serves what has waited, as the leader that it
        was.
        """
        self._known(node=node)
        self._call(lambda: self.cluster.pause_broker(node))

    def resume_broker(self, node: int) -> None:
        """Lets a paused broker go on."""
        self._known(node=node)
        self._call(lambda: self.cluster.resume_broker(node))

    def set_clock(self, node: int, ahead_ms: int) -> None:
        """Sets a broker's own clock so many milliseconds ahead of the stub's; behind it with a negative number. At most a
        hundred years; its time is never before 1970.

        It decides the time of records with LogAppendTime, which timestamps are refused, the age of segments, and when a transaction times
        out at that coordinator.
        """
        self._known(node=node)
        check_arguments(ahead_ms=ahead_ms)
        self._call(lambda: setattr(self.cluster.brokers[node], "ahead_ms", ahead_ms))

    def slow_loading(self, node: int, ms: int) -> None:
        """From now on a broker that begins to coordinate takes so long to load its groups and transactional ids, and answers
        COORDINATOR_LOAD_IN_PROGRESS meanwhile. 0 ends that. `ms`: at most 2147483647."""
        self._known(node=node)
        check_delay(ms)
        self._call(lambda: setattr(self.cluster.brokers[node], "loading_ms", ms))

    def slow_disk(self, node: int, ms: int) -> None:
        """From now on each write to a broker's disk takes so long, one after the other: the appends of a Produce request, of a coordinator,
        and of a follower's Fetch response. 0 ends that. `ms`: at most 2147483647.

        As in Kafka, the broker goes on and is not fenced. A follower that falls behind by that for replica.lag.time.max.ms leaves the ISR.
        """
        self._known(node=node)
        check_delay(ms)
        self._call(lambda: setattr(self.cluster.brokers[node], "slow_disk_ms", ms))

    def fail_disk(self, node: int, fault: DiskFault = "failed", *, log_dir: int | None = None) -> None:
        """Makes the disks of a broker fail, or the one of the log directory with that number, from 1 on. "full": writes fail; "failed":
        reads fail as well.

        As in Kafka, the next read or write that fails takes the directory offline, and the client gets KAFKA_STORAGE_ERROR or a closed
        connection. A broker with no other directory halts. `repair_disk` and a start of the broker bring back what its files have.
        """
        check_arguments(fault=fault)
        self._set_disks(node, fault, log_dir)

    def repair_disk(self, node: int, *, log_dir: int | None = None) -> None:
        """Makes the disks of a broker work again, or the one of that log directory. A broker that has halted stays down until
        `start_broker`, and a directory that is offline until `restart_broker`."""
        self._set_disks(node, None, log_dir)

    def corrupt(self, topic: str, partition: int, offset: int, *, node: int | None = None) -> None:
        """Flips a bit in the batch with that offset, in the log of the leader or of `node`. KeyError if that log has no such batch.

        As in Kafka, a broker serves the batch as it is. A consumer finds the wrong checksum and fails, a follower stays behind.
        """
        if node is not None:
            self._known(node=node)
        check_arguments(offset=offset)
        self._call(lambda: self._corrupt(self._partition(topic, partition), offset, node))

    def sever(self, one: End, other: End, *, one_way: bool = False) -> None:
        """Cuts the link between two brokers, or between a broker and the "controller". Clients reach every broker all the same.

        Between brokers: followers fall behind, and acks=all waits for them until replica.lag.time.max.ms has passed. A follower that
        becomes leader has only what it got.

        To the controller: the broker goes on with what it knows, as the leader that it was. It is fenced after broker.session.timeout.ms,
        and others lead. What it then acknowledges with acks=1 is lost when it learns that; acks=all times out there.

        `one_way`: only what `one` sends is lost. `sever("controller", 1, one_way=True)` leaves broker 1 with old metadata, and not fenced:
        what the controller decides is lost, and the broker's requests are answered.
        """
        check_arguments(one_way=one_way)
        self._between(one, other, lambda low, high: self.cluster.broker_links.sever(low, high, one_way=one_way))

    def mend(self, one: End, other: End) -> None:
        """Mends a link, both ways."""
        self._between(one, other, self.cluster.broker_links.mend)

    def slow_down(self, one: End, other: End, ms: int) -> None:
        """Makes each message between two brokers, or between a broker and the "controller", take so many milliseconds, at most 2147483647;
        0 ends that.

        Between brokers: followers lag, and acks=all waits for them.

        To the controller: the broker hears late of topics, leaders and other brokers, so it leads on, follows a wrong leader, or does not
        know a new topic. What it asks of the controller, such as CreateTopics or another ISR, takes twice as long. It is not fenced.
        """
        check_delay(ms)
        self._between(one, other, lambda low, high: self.cluster.broker_links.slow_down(low, high, ms))

    @property
    def slow(self) -> list[tuple[End, End, int]]:
        """The links that are slow, with the milliseconds."""
        links = self._read(lambda: self.cluster.broker_links.slow)
        return [(one, other, ms) for low, high, ms in links for one, other in named([(low, high)])]

    @property
    def severed(self) -> list[tuple[End, End]]:
        """The links that are cut both ways."""
        return self._read(lambda: named(self.cluster.broker_links.down))

    @property
    def severed_one_way(self) -> list[tuple[End, End]]:
        """The links on which only what the first one sends is lost."""
        return self._read(lambda: named(self.cluster.broker_links.one_way))

    @property
    def fenced(self) -> list[int]:
        """The brokers that are up and that the controller does not hear from any more."""
        return self._read(lambda: [node for node, broker in self.cluster.brokers.items() if broker.fenced])

    def isr(self, topic: str, partition: int) -> list[int]:
        """The nodes that are in sync, with the leader."""
        return self._read(lambda: list(self._partition(topic, partition).isr))

    def ui(self, *, port: int = 0) -> Inspector:
        """Opens the inspector, a page at `stub.ui().url` on this computer that shows the cluster and its exchanges live; 0 takes a free
        port. It ends with the stub. OSError for a port in use."""
        from fencepost.broker_stub.inspector.inspector import Inspector

        inspector = Inspector(self._source(), port=port)
        self._inspectors.append(inspector)  # Before the start, and before the check: `close` finds it, or this does not start it.
        self._once.check_open()
        return inspector.start()

    def snapshot(self) -> dict[str, Any]:
        """The cluster now as data that fits into JSON: brokers, partitions with their newest batches, producers, transactions, groups and
        changes. `format` counts up when a field changes. It has no keys and values of records. Also after `close`."""
        return self._snapshot(())

    def _snapshot(self, first: Collection[str]) -> dict[str, Any]:
        is_virtual = isinstance(self.clock, VirtualClock)
        self._read(lambda: None)  # In this turn the loop hears of connections that clients have just closed.
        return self._read(lambda: self._snapshots.take(first)) | {"clock": "virtual" if is_virtual else "real"}

    @cached_property
    def _snapshots(self) -> Snapshots:
        from fencepost.broker_stub.inspector.snapshot import Snapshots

        return Snapshots(self.services)

    def share(self, file: str | PathLike[str]) -> pathlib.Path:
        """Writes what the inspector shows now as one HTML file, which needs no server and no network; returns its path. The file has names,
        offsets and requests, and no keys and values of records. It replaces a file that is there."""
        from fencepost.broker_stub.inspector.inspector import share

        return share(self._source(), file)

    def cut_connections(self, node: int | None = None) -> int:
        """Ends every client connection, of one broker or of all. Returns how many there were."""
        if node is not None:
            self._known(node=node)
        return self._call(lambda: self.cluster.cut_connections(node))

    def stats(self) -> dict[str, int]:
        """The cluster's counters, and the number of open connections. `connections_cut` counts the clients' connections that
        `cut_connections` or a fault ended."""
        return self._read(
            lambda: {**self.cluster.counters.as_dict(), "open": sum(len(each.connections) for each in self.cluster.brokers.values())}
        )

    def _source(self) -> Source:
        from fencepost.broker_stub.inspector.records import records_from
        from fencepost.broker_stub.inspector.source import Source

        return Source(
            journal=self.journal,
            faults=self.faults,
            name_of=self.cluster.topic_name,
            snapshot=self._snapshot,
            records=lambda topic, partition, offset: self._read(lambda: records_from(self._partition(topic, partition).log, offset)),
        )

    def _close_inspectors(self) -> None:
        for inspector in self._inspectors:
            inspector.close()

    def _start_broker(self, node: int, port: int | None) -> None:
        if self._server is not None:
            self._server.start_broker(node, port=port)
        else:
            self.cluster.start_broker(node)

    def _create(self, name: str, partitions: int | None, replication_factor: int | None, config: Mapping[str, Value] | None) -> None:
        from fencepost.broker_stub.handlers.create_topics import why_not

        factor = self.cluster.default_replication_factor if replication_factor is None else replication_factor
        count = self.cluster.default_partitions if partitions is None else partitions
        overrides = as_text({} if config is None else config)
        refusal = why_not(self.cluster, name, partitions=count, replication_factor=factor, configs=dict(overrides))
        if refusal is not None:
            raise ValueError(f"{ErrorCode(refusal.code).name}: {refusal.message}")
        self.cluster.create_topic(name, partitions=count, replication_factor=factor, overrides=overrides)

    def _set_disks(self, node: int, fault: DiskFault | None, number: int | None) -> None:
        self._known(node=node)
        dirs = self.cluster.brokers[node].logs.dirs
        if number is not None:
            check_arguments(log_dir=number)
            if number > len(dirs):
                raise KeyError(f"broker {node} has no log directory {number}, only 1 to {len(dirs)}")
            dirs = dirs[number - 1 : number]

        def change() -> None:
            for each in dirs:
                each.disk.fault = fault

        self._call(change)

    def _log(self, partition: Partition, node: int | None) -> PartitionLog:
        """The log of the leader, or of that broker's replica."""
        log = partition.log if node is None else partition.logs.get(node)
        if log is None:
            raise KeyError(f"broker {node} has no replica of {partition}, only {list(partition.replicas)}")
        return log

    def _corrupt(self, partition: Partition, offset: int, node: int | None) -> None:
        log = self._log(partition, node)
        if not log.corrupt(offset):
            there = f"it has {log.log_start_offset} to {log.log_end_offset - 1}"
            raise KeyError(f"the log of {partition} has no batch with offset {offset}: {there}")

    def _has_ports(self) -> bool:
        return all(port != 0 for _, port in self.addresses.values())

    def _topic(self, name: str) -> Topic:
        topic = self.cluster.topics.named(name)
        if topic is None:
            raise KeyError(f"there is no topic {name!r}")
        return topic

    def _partition(self, topic: str, index: int) -> Partition:
        check_arguments(topic=topic, partition=index)
        partition = self._topic(topic).partition(index)
        if partition is None:
            raise KeyError(f"{topic!r} has no partition {index}")
        return partition

    def _between(self, one: End, other: End, change: Callable[[int, int], None]) -> None:
        """Changes the link between them."""
        check_arguments(one=one, other=other)
        if one == other:
            raise ValueError(f"{one if isinstance(one, str) else f'broker {one}'} has no link to itself: give two ends")
        for each in (one, other):
            if not isinstance(each, str):
                self._known(node=each)
        ends = [CONTROLLER if isinstance(each, str) else each for each in (one, other)]
        self._call(lambda: change(*ends))

    def _check_port(self, port: int | None) -> None:
        check_arguments(port=port)
        if port is not None and not 0 <= port <= PORT_MAX:
            raise ValueError(f"port={port}: must be from 0, for a free one, to {PORT_MAX}")
        if port is not None and self._server is None:
            raise RuntimeError("the stub has not started, so its brokers have no ports: call start() first")

    def _known(self, **nodes: int) -> None:
        check_arguments(**nodes)
        for node in nodes.values():
            if node not in self.cluster.brokers:
                raise KeyError(f"there is no broker {node}, only {sorted(self.cluster.brokers)}")

    def _contents(self, log: PartitionLog, *, read_committed: bool) -> list[ReadResult]:
        """What can be read of each segment. A read that begins in an empty one, as compaction leaves them, goes on into the next one."""
        starts = dict.fromkeys(max(segment.base_offset, log.log_start_offset) for segment in log.segments if segment.size)
        parts = [log.read(start, max_bytes=log.size, read_committed=read_committed) for start in starts]
        return [replace(found, records=bytes(found.records)) for found in parts]  # the storage's memory stays on its thread

    def _call(self, run: Callable[[], T]) -> T:
        """Runs it on the loop's thread, or in the caller's before the start. RuntimeError after `close`."""
        self._once.check_open()
        return self._run(run, at_end=self._once.check_open)

    def _read(self, run: Callable[[], T]) -> T:
        """The same for what changes nothing, also after `close`."""
        return self._run(run, at_end=lambda: None)

    def _run(self, run: Callable[[], T], *, at_end: Callable[[], None]) -> T:
        """`at_end` is called before it runs, because the stub may be closed meanwhile. In the callers' threads, one runs at a time, and
        none while another thread starts or closes the stub."""
        if self._once.thread is None:
            with self._once.standing(CALL_TIMEOUT_S):
                if self._once.thread is None:
                    at_end()
                    return run()
        thread, server = self._once.thread, self._server
        assert thread is not None
        assert server is not None
        if thread is threading.current_thread():
            return run()

        def on_loop() -> T:
            at_end()
            try:
                return run()
            except StorageFailed as failed:
                self.cluster.disk_failed(failed)
                raise
            finally:
                server.arm()

        try:
            return thread.call(on_loop, CALL_TIMEOUT_S)
        except LoopEnded:
            with self._once.standing(CALL_TIMEOUT_S):
                at_end()
                return run()


async def _off_loop(call: Callable[[], T]) -> T:
    """Runs it in another thread and waits for its end, also after a cancellation, so that nothing is left half done."""
    running = asyncio.ensure_future(asyncio.to_thread(call))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise


# Imported only by a stub that needs them, so that a stub starts fast.


def _on_disk(data_dir: str | PathLike[str]) -> NewStorage:
    from fencepost.broker_stub.storage.disk import open_data_dir

    return lambda context: open_data_dir(data_dir, later=context.later)


@contextmanager
def _explained(data_dir: str | PathLike[str] | None) -> Iterator[None]:
    """An error of the system names the data directory, and what to do."""
    try:
        yield
    except OSError as error:
        if data_dir is None:
            raise
        from fencepost.broker_stub.storage.disk import unusable

        raise unusable(data_dir, error) from error


def _context(given: Tls | ssl.SSLContext | tuple[Path, Path]) -> ssl.SSLContext:
    from fencepost.broker_stub.network.tls import context_from

    return context_from(given)


def _sasl(given: Sasl | Mapping[str, str]) -> Sasl:
    from fencepost.broker_stub.security.sasl import sasl_from

    return sasl_from(given)
