"""The cluster below its sockets: brokers, topics, and the way of a request to its handler.

Everything here runs on one thread, does no I/O and reads no clock but the one it is given. A server or a simulator brings frames through
`connect` or decoded messages through `handle`, and calls `tick` when `next_deadline` has come. It validates no request: that is each
handler's business.
"""

from __future__ import annotations

import logging
import random
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, partial
from itertools import count
from typing import TYPE_CHECKING, Any
from uuid import UUID

from broker_stub import handlers
from broker_stub.between import Between
from broker_stub.broker import Broker
from broker_stub.call import Call, Reply
from broker_stub.clock import Clock
from broker_stub.counters import Counters
from broker_stub.emulation import ELIGIBLE_LEADERS_VERSION, NEWEST, features_at, release_named
from broker_stub.faults import ANY_PARTITION, Faults
from broker_stub.journal import Exchange, Journal, lightened
from broker_stub.link import Link, Wire
from broker_stub.log.config import OF_BROKERS, LogConfig
from broker_stub.partitions import NO_LEADER, Partition
from broker_stub.pids import ProducerIds
from broker_stub.principal import ANONYMOUS, LOCALHOST
from broker_stub.quotas import Quotas
from broker_stub.router import route_to
from broker_stub.subjects import asks_for_all, names_partitions, partitions_of
from broker_stub.timers import Timers
from broker_stub.topic_configs import STANDARD_AUTHORIZER, BrokerConfig, Value
from broker_stub.topics import MADE_ON_DEMAND, Topic, Topics
from producer.wire import Api, Message, RequestHeader

if TYPE_CHECKING:
    from broker_stub.acls import Acl
    from broker_stub.auth import Gate, Sasl
    from broker_stub.authorizer import Authorizer
    from broker_stub.coordinators.groups import GroupCoordinators
    from broker_stub.coordinators.transactions import TransactionCoordinators

UNPROVEN_KEPT_BYTES_MAX = 16 * 1024
"""The largest request of a client that has still to be authenticated which the journal keeps: nobody is to fill the memory with them."""

_log = logging.getLogger(__name__)

handlers.register()


class Cluster:
    """Brokers 1 to n over shared partitions. `seed` decides topic ids, the cluster id, members' ids and nothing else."""

    def __init__(
        self,
        clock: Clock,
        *,
        brokers: int = 1,
        auto_create_topics: bool = True,
        default_partitions: int = 1,
        default_replication_factor: int | None = None,
        config: Mapping[str, Value] | None = None,
        journal: int = 1000,
        seed: int = 0,
        cluster_id: str | None = None,
        faults: Faults | None = None,
        sasl: Sasl | None = None,
        acls: Iterable[Acl] | None = None,
        super_users: Iterable[str] = (),
        emulate: str = NEWEST,
        transaction_version: int | None = None,
    ) -> None:
        if brokers < 1:
            raise ValueError(f"a cluster has at least one broker, not {brokers}")
        if default_partitions < 1:
            raise ValueError(f"default_partitions={default_partitions}: a topic has at least one")
        if default_replication_factor is not None and not 1 <= default_replication_factor <= brokers:
            raise ValueError(f"default_replication_factor={default_replication_factor}: from 1 to brokers={brokers}")
        self.now_ms = clock.now_ms
        release = release_named(emulate)
        self.features = features_at(release, transaction_version)
        self.config = BrokerConfig(config, kafka_defaults=release.topic_defaults)
        self.release = release.with_unstable() if self.config.is_on("unstable.api.versions.enable") else release
        self.auto_create_topics = auto_create_topics and self.config.is_on("auto.create.topics.enable")
        self.default_partitions = int(self.config.given.get("num.partitions", default_partitions))
        self.default_replication_factor = int(
            self.config.given.get("default.replication.factor", default_replication_factor or min(3, brokers))
        )
        self.faults = faults or Faults()
        self.sasl = sasl
        self.quotas = Quotas()
        self.authorizer = self._authorizer(acls, super_users)
        self._unheeded: set[str] = set()
        self._say_what_is_unheeded(self.config.given, logging.WARNING)
        self.config.given.update(self._in_force(brokers))
        self.journal = Journal(journal)
        self.counters = Counters()
        self.timers = Timers()
        self.producer_ids = ProducerIds()
        self.topics = Topics()
        self.brokers = {node_id: Broker(self, node_id) for node_id in range(1, brokers + 1)}
        self.post: Callable[[Callable[[], None]], None] = lambda run: run()  # how another thread hands work to this one
        self._random = random.Random(seed)
        self._nonces = random.Random(f"{seed} nonces")  # of their own, so that who connects changes no id
        self.cluster_id = cluster_id or urlsafe_b64encode(self._random.randbytes(16)).decode().rstrip("=")
        self._link_ids = count(1)
        self.between = Between(self)

    def _in_force(self, brokers: int) -> dict[str, str]:
        """The configs of brokers that are otherwise than given, or by default: for want of brokers, or because they were said differently.
        They are described as they are."""
        config = self.config
        found = {
            "num.partitions": str(self.default_partitions),
            "default.replication.factor": str(self.default_replication_factor),
            "auto.create.topics.enable": str(self.auto_create_topics).lower(),
            "authorizer.class.name": STANDARD_AUTHORIZER if self.authorizer is not None else "",
        }
        for made in MADE_ON_DEMAND.values():
            # Kafka waits for as many brokers.
            found[made.factor] = str(min(int(config[made.factor]), brokers))
            if made.min_isr is not None:
                found[made.min_isr] = str(min(int(config[made.min_isr]), brokers))
        return {name: value for name, value in found.items() if value != config[name].lower()}

    def _say_what_is_unheeded(self, given: Mapping[str, str], level: int) -> None:
        """Once for each config that somebody counts on and that is only described. Clients give their topics many, as Spark's ledger does,
        and count on few of them in a test."""
        if given.keys() <= self._unheeded:
            return
        from broker_stub.config_uses import unheeded

        for name, instead in unheeded(sorted(given.keys() - self._unheeded)).items():
            _log.log(level, "%s=%s is kept and described, and not obeyed: %s", name, given[name], instead)
        self._unheeded.update(given)

    # Requests

    def connect(self, node_id: int, wire: Wire, *, principal: str = ANONYMOUS, host: str = LOCALHOST) -> Link:
        """A new connection to that broker; refused with ConnectionRefusedError while it is down. `principal`: who it belongs to, unless
        it has to be authenticated first."""
        broker = self.brokers[node_id]
        if not broker.alive:
            raise ConnectionRefusedError(f"broker {node_id} is down")
        link = Link(broker, next(self._link_ids), wire, principal=principal, host=host, gate=self._gate())
        broker.links.add(link)
        self.counters.connections += 1
        return link

    def handle(
        self,
        node_id: int,
        connection: int,
        header: RequestHeader,
        request: Message,
        reply: Callable[[Reply], None],
        *,
        principal: str = ANONYMOUS,
    ) -> Call:
        """Serves one decoded request of connection number `connection`; `reply` is called once, now or in a later `tick`."""
        broker = self.brokers[node_id]
        call = self.call(broker, connection, header, request=request, reply=reply, processed=_nothing, principal=principal)
        call.start()
        return call

    def call(
        self,
        broker: Broker,
        connection: int,
        header: RequestHeader,
        *,
        request: Message,
        reply: Callable[[Reply], None],
        processed: Callable[[], None],
        principal: str = ANONYMOUS,
        host: str = LOCALHOST,
        gate: Gate | None = None,
        size_bytes: int = 0,
    ) -> Call:
        """A call that has not started: `processed` is called when the connection's next request may be."""
        exchange = Exchange(
            node=broker.node_id,
            connection_id=connection,
            api=header.api_key,
            version=header.api_version,
            correlation_id=header.correlation_id,
            client_id=header.client_id,
            request=lightened(request) if self.journal.enabled else request,
            at_ms=self.now_ms(),
            partitions=self._naming(broker, request, header.api_version),
        )
        self.counters.requests += 1
        if self.journal.enabled and (size_bytes <= UNPROVEN_KEPT_BYTES_MAX or gate is None or gate.proven):
            self.journal.add(exchange)
        route = route_to(header.api_key)
        assert route is not None, f"{request!r:.100} is not served"
        return Call(
            broker,
            route,
            request=request,
            exchange=exchange,
            reply=reply,
            processed=processed,
            principal=principal,
            host=host,
            gate=gate,
            size_bytes=size_bytes,
        )

    def _gate(self) -> Gate | None:
        """What a new connection has to pass, loaded when there is something to pass."""
        if self.sasl is None:
            return None
        from broker_stub.auth import Gate

        return Gate(self.sasl, nonce=lambda: f"{self._nonces.getrandbits(128):032x}")

    def _authorizer(self, acls: Iterable[Acl] | None, super_users: Iterable[str]) -> Authorizer | None:
        """Who decides what clients may do: nobody, unless something was said about it."""
        config = self.config
        super_users = [*super_users, *filter(None, map(str.strip, config["super.users"].split(";")))]
        if acls is None and not super_users and not config["authorizer.class.name"]:
            return None
        from broker_stub.authorizer import Authorizer

        allow_everyone = config.is_on("allow.everyone.if.no.acl.found")
        return Authorizer(acls or (), super_users=super_users, allow_everyone=allow_everyone)

    def tick(self, now_ms: int | None = None) -> None:
        """Runs whatever has come due."""
        self.timers.run_due(self.now_ms() if now_ms is None else now_ms)

    def next_deadline(self) -> int | None:
        """When to call `tick` again, None when nothing waits."""
        return self.timers.next_deadline()

    def soon(self, run: Callable[[], None]) -> None:
        """Has it run by the next tick, never inside the handler that asks."""
        self.timers.at(self.now_ms(), run)

    @cached_property
    def groups(self) -> GroupCoordinators:
        """Loaded when the first group asks."""
        from broker_stub.coordinators.groups import GroupCoordinators

        return GroupCoordinators(self)

    @cached_property
    def transactions(self) -> TransactionCoordinators:
        """Loaded when the first transactional id asks."""
        from broker_stub.coordinators.transactions import TransactionCoordinators

        return TransactionCoordinators(self)

    def topic_name(self, topic_id: UUID) -> str | None:
        topic = self.topics.with_id(topic_id)
        return topic.name if topic is not None else None

    # Brokers

    @property
    def live(self) -> list[int]:
        return [node_id for node_id, broker in self.brokers.items() if broker.alive]

    def stop_broker(self, node_id: int, *, clean: bool = True) -> None:
        """Cuts its connections and moves its leaderships. Clean or not, it leaves the same behind, as Kafka, too, starts from snapshots
        after either; but who was killed is trusted with less when it comes back."""
        broker = self.brokers[node_id]
        if not broker.alive:
            return
        broker.stop()
        broker.killed = not clean
        live = self.live
        for topic in self.topics:
            for partition in topic.partitions:
                led = partition.leader == node_id
                partition.lose(node_id, live=live)
                self.counters.leader_moves += led

    def start_broker(self, node_id: int) -> None:
        broker = self.brokers[node_id]
        if broker.alive:
            return
        broker.start()
        live = self.live
        self.counters.restarts += 1
        for topic in self.topics:
            for partition in topic.partitions:
                partition.regain(node_id, live, killed=broker.killed)

    def cut_links(self, node_id: int | None = None) -> int:
        """Ends every client connection, of one broker or of all; returns how many there were."""
        links = [link for broker in self.brokers.values() if node_id in (None, broker.node_id) for link in broker.links]
        for link in links:
            link.cut()
        self.counters.links_cut += len(links)
        return len(links)

    # Topics

    def create_topic(self, name: str, *, partitions: int, replication_factor: int, overrides: Mapping[str, str] | None = None) -> Topic:
        """A topic whose replicas go round the brokers, live ones first; its parameters must have been checked."""
        return self.create_assigned(name, self.assign(partitions, replication_factor), overrides=overrides)

    def create_assigned(self, name: str, assignments: list[tuple[int, ...]], *, overrides: Mapping[str, str] | None = None) -> Topic:
        overrides = dict(overrides or {})
        self._say_what_is_unheeded(overrides, logging.INFO)
        topic = Topic(name, self.new_id(), config=self.config.of_topic(overrides), overrides=overrides)
        self.topics.add(topic)
        self._extend(topic, assignments)
        return topic

    def internal_topic(self, name: str) -> Topic:
        """The offsets topic or that of the transactions; it comes into being when it is first asked for."""
        topic = self.topics.named(name)
        if topic is None:
            made = MADE_ON_DEMAND[name]
            overrides = {**made.overrides}
            if made.min_isr is not None:
                overrides["min.insync.replicas"] = self.config[made.min_isr]
            partitions, factor = int(self.config[made.partitions]), int(self.config[made.factor])
            topic = self.create_topic(name, partitions=partitions, replication_factor=factor, overrides=overrides)
        return topic

    def assign(self, partitions: int, replication_factor: int, *, first: int = 0, after: int | None = None) -> list[tuple[int, ...]]:
        """Replicas for so many partitions: each on its own brokers, the leaders round robin over the live ones, from the one `after` on."""
        nodes = sorted(self.brokers, key=lambda node_id: not self.brokers[node_id].alive)
        live = len(self.live) or len(nodes)
        start = len(self.topics) if after is None else nodes.index(after) + 1 - first
        assigned = []
        for index in range(first, first + partitions):
            turn = (start + index) % live
            ring = nodes[turn:live] + nodes[:turn] + nodes[live:]
            assigned.append(tuple(ring[:replication_factor]))
        return assigned

    def add_partitions(self, topic: Topic, total: int) -> None:
        """Grows the topic to so many partitions; refused with ValueError when it has as many already."""
        grown = total - len(topic.partitions)
        if grown < 1:
            raise ValueError(
                f"INVALID_PARTITIONS: topic {topic.name!r} has {len(topic.partitions)} partitions already, {total} are no more"
            )
        factor, last = len(topic.partitions[0].replicas), topic.partitions[-1].replicas[0]
        self._extend(topic, self.assign(grown, factor, first=len(topic.partitions), after=last))

    def add_assigned(self, topic: Topic, assignments: list[tuple[int, ...]]) -> None:
        """Grows the topic by partitions with these replicas, which must have been checked."""
        self._extend(topic, assignments)

    def configure(self, topic: Topic, overrides: Mapping[str, str]) -> None:
        """These are the topic's own configs from now on; they must have been checked."""
        self._say_what_is_unheeded(overrides, logging.INFO)
        topic.overrides = dict(overrides)
        topic.config = self.config.of_topic(topic.overrides)
        for partition in topic.partitions:
            partition.configure(self._log_config(topic))
        if any(partition.leader == NO_LEADER and partition.elects_unclean for partition in topic.partitions):
            self.timers.at(self.now_ms() + int(self.config["unclean.leader.election.interval.ms"]), partial(self._lead_again, topic))

    def _lead_again(self, topic: Topic) -> None:
        """Kafka's controller looks for partitions without a leader whose topics allow unclean elections by now."""
        if self.topics.named(topic.name) is topic:
            for partition in topic.partitions:
                if partition.leader == NO_LEADER:
                    partition.elect(self.live)

    def delete_topic(self, topic: Topic) -> None:
        self.topics.remove(topic)
        for partition in topic.partitions:
            partition.leader = NO_LEADER
            partition.disturb()
        if "groups" in self.__dict__:
            self.groups.forget_topic(topic.name)

    def move_leader(self, partition: Partition, *, to: int | None = None) -> int:
        """Another in-sync replica leads, by default the next one; refused with ValueError when there is none. Returns the new leader."""
        able = [node for node in partition.replicas if node in partition.isr and self.brokers[node].alive and node != partition.leader]
        if not able or (to is not None and to not in able):
            raise ValueError(f"{partition} has no in-sync replica {'to lead it instead' if to is None else to}: {partition.isr}")
        behind = [node for node in able if partition.replicas.index(node) > partition.replicas.index(partition.leader)]
        partition.elect(self.live, preferred=to if to is not None else (behind or able)[0])
        self.counters.leader_moves += 1
        return partition.leader

    def find(self, topic: str, partition: int) -> Partition | None:
        known = self.topics.named(topic)
        return known.partition(partition) if known is not None else None

    def _extend(self, topic: Topic, assignments: list[tuple[int, ...]]) -> None:
        config = self._log_config(topic)
        live = self.live
        for replicas in assignments:
            partition = Partition(
                topic,
                len(topic.partitions),
                replicas=replicas,
                clock_ms=self.now_ms,
                config=config,
                reaches=self.between.reach,
                has_eligible=ELIGIBLE_LEADERS_VERSION in self.features,
            )
            partition.begin(live)
            topic.partitions.append(partition)

    def _log_config(self, topic: Topic) -> LogConfig:
        return LogConfig.from_properties({**topic.config, **{name: self.config[name] for name in OF_BROKERS}})

    def new_id(self) -> UUID:
        return UUID(int=self._random.getrandbits(128), version=4)

    def _naming(self, broker: Broker, request: Message, version: int) -> Callable[[], list[tuple[str, int]]]:
        """Whom to ask what the request is about, whenever a fault wants to know."""
        if request.api == Api.DELETE_TOPICS:
            named = self._subjects(broker, request, version)  # when they are deleted their ids are nobody's
            return lambda: named
        return partial(self._subjects, broker, request, version)

    def _subjects(self, broker: Broker, request: Message, version: int) -> list[tuple[str, int]]:
        """What the request is about; an incremental fetch is about its whole session, and a request for all about all that there is."""
        named = partitions_of(request, self.topic_name)
        if asks_for_all(request, version):
            if request.api == Api.OFFSET_FETCH:
                asked: list[Any] = [each for each in (request, *getattr(request, "groups", ())) if getattr(each, "topics", ()) is None]
                return named + [tp for each in asked for tp in self.groups.committed(each.group_id, broker.node_id)]
            if names_partitions(request.api):
                return [(topic.name, each.index) for topic in self.topics for each in topic.partitions]
            return [(topic.name, ANY_PARTITION) for topic in self.topics]
        if request.api == Api.FETCH:
            session = broker.sessions.get(getattr(request, "session_id", 0))
            if session is not None:
                named += [(asked.topic or self.topic_name(asked.topic_id) or "", asked.partition) for asked in session.partitions()]
        return named


def _nothing() -> None:
    """A call that came alone holds nothing up."""
