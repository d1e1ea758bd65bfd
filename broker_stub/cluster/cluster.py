"""The cluster: its brokers and topics, and what an administrator changes in them.

Everything here runs on one thread, does no I/O and reads only the given clock. A server or a simulator calls `tick` when
`next_deadline` has come. The cluster knows no requests and checks no arguments: the handlers do.
"""

from __future__ import annotations

import logging
from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final
from uuid import UUID

from fencepost.broker_stub.arguments import check_arguments, listed
from fencepost.broker_stub.cluster.broker import Broker
from fencepost.broker_stub.cluster.broker_links import BrokerLinks
from fencepost.broker_stub.cluster.broker_logs import BrokerLogs
from fencepost.broker_stub.cluster.clock import Clock
from fencepost.broker_stub.cluster.context import Context, NewStorage
from fencepost.broker_stub.cluster.controller_link import ControllerLink
from fencepost.broker_stub.cluster.history import What
from fencepost.broker_stub.cluster.isr_expiration import IsrExpiration
from fencepost.broker_stub.cluster.log_cleaner import LogCleaner
from fencepost.broker_stub.cluster.metadata_log import (
    NAME,
    AclsRecord,
    ClusterRecord,
    ConfigsRecord,
    FeaturesRecord,
    Metadata,
    MetadataLog,
    ProducerIdsRecord,
    QuotasRecord,
    Record,
    ScramRecord,
    StartRecord,
    TopicDeleted,
    TopicRecord,
)
from fencepost.broker_stub.cluster.partition_decisions import PartitionDecisions
from fencepost.broker_stub.cluster.producer_ids import ProducerIds
from fencepost.broker_stub.cluster.release import ELIGIBLE_LEADERS_VERSION, NEWEST, features_at, release_named
from fencepost.broker_stub.cluster.topics import MADE_ON_DEMAND, Topic
from fencepost.broker_stub.configs.resource_types import ResourceType
from fencepost.broker_stub.configs.topic_configs import ALL_BROKERS, CORDONED, MIN_ISR, MOVE_LIMIT, STANDARD_AUTHORIZER, BrokerConfig, Value
from fencepost.broker_stub.configs.values import PARTITIONS_MAX, double
from fencepost.broker_stub.faults.rules import Faults
from fencepost.broker_stub.log import PartitionLog
from fencepost.broker_stub.log.checkpoint_text import CLEANER_OFFSETS, LOG_START_OFFSETS, RECOVERY_POINTS, REPLICATION_OFFSETS
from fencepost.broker_stub.quotas.quotas import Quotas
from fencepost.broker_stub.replication.fetchers import ReplicaFetchers
from fencepost.broker_stub.replication.partition import Partition
from fencepost.broker_stub.replication.partition_state import NO_LEADER, PartitionState
from fencepost.broker_stub.replication.replica import Replica
from fencepost.broker_stub.replication.replica_fetcher import FetchConfig
from fencepost.broker_stub.storage.disk_state import StorageFailed
from fencepost.broker_stub.storage.freed_memory import give_back
from fencepost.producer.foundations.counted import counted

if TYPE_CHECKING:
    from fencepost.broker_stub.quotas.client_quota_manager import ClientQuotaManager
    from fencepost.broker_stub.security.acls import Acl
    from fencepost.broker_stub.security.authorizer import Authorizer
    from fencepost.broker_stub.security.scram_credentials import ScramCredentials

_log = logging.getLogger(__name__)


CLEAN_LOGS_FIRST_MS = 30_000  # log.initial.task.delay.ms
CHECKPOINTS: Final = {
    "replica.high.watermark.checkpoint.interval.ms": (REPLICATION_OFFSETS,),
    "log.flush.offset.checkpoint.interval.ms": (RECOVERY_POINTS, CLEANER_OFFSETS),
    "log.flush.start.offset.checkpoint.interval.ms": (LOG_START_OFFSETS,),
}
"""How often which checkpoints are written."""


class Cluster(Context):
    """Brokers 1 to n over shared partitions. `seed` decides topic ids, the cluster id and members' ids, and nothing else."""

    def __init__(
        self,
        clock: Clock,
        *,
        brokers: int = 1,
        auto_create_topics: bool = True,
        default_partitions: int | None = None,
        default_replication_factor: int | None = None,
        config: Mapping[str, Value] | None = None,
        seed: int = 0,
        cluster_id: str | None = None,
        faults: Faults | None = None,
        acls: Iterable[Acl] | None = None,
        super_users: Iterable[str] = (),
        emulate: str = NEWEST,
        transaction_version: int | None = None,
        leader_epochs: bool = True,
        log_dirs: int = 1,
        storage: NewStorage | None = None,
    ) -> None:
        check_arguments(
            brokers=brokers,
            auto_create_topics=auto_create_topics,
            default_partitions=default_partitions,
            default_replication_factor=default_replication_factor,
            seed=seed,
            cluster_id=cluster_id,
            emulate=emulate,
            transaction_version=transaction_version,
            leader_epochs=leader_epochs,
            log_dirs=log_dirs,
        )
        if brokers < 1:
            raise ValueError(f"a cluster has at least one broker, not {brokers}")
        if default_partitions is not None and default_partitions < 1:
            raise ValueError(f"default_partitions={default_partitions}: a topic has at least one")
        if default_partitions is not None and default_partitions > PARTITIONS_MAX:
            raise ValueError(f"default_partitions={default_partitions}: one request creates at most {PARTITIONS_MAX} partitions")
        if default_replication_factor is not None and not 1 <= default_replication_factor <= brokers:
            raise ValueError(f"default_replication_factor={default_replication_factor}: from 1 to brokers={brokers}")
        release = release_named(emulate)
        features = features_at(release, transaction_version)
        given = BrokerConfig(config, kafka_defaults=release.topic_defaults)
        if release.differs.cluster_min_isr:  # Kafka's tool sets it when it formats a cluster with eligible leader replicas (KIP-966)
            given.dynamic[ALL_BROKERS] = {MIN_ISR: given.of_topic({})[MIN_ISR]}
        super().__init__(
            clock,
            brokers=brokers,
            config=given,
            release=release.with_unstable() if given.is_on("unstable.api.versions.enable") else release,
            features=features,
            faults=faults or Faults(),
            seed=seed,
            storage=storage,
            log_dirs=log_dirs,
        )
        self.auto_create_topics = auto_create_topics and self.config.is_on("auto.create.topics.enable")
        self.default_partitions = self._given_once("default_partitions", default_partitions, "num.partitions") or 1
        factor = self._given_once("default_replication_factor", default_replication_factor, "default.replication.factor")
        self.default_replication_factor = factor or min(3, brokers)
        self.quotas = Quotas(lambda entity, values: self._keep(QuotasRecord(sorted(entity), dict(values))))
        self.authorizer = self._authorizer(acls, super_users)
        self._unheeded: set[str] = set()
        self._say_what_is_unheeded(self.config.given, logging.WARNING)
        self.config.given.update(self._in_force(brokers))
        self._keeps_files = storage is not None
        self._unsaved: dict[tuple[UUID, int], PartitionState] = {}
        self.partition_decisions = PartitionDecisions(self._save)
        self._write: Callable[[Record], object] = lambda _: None
        self.decisions = brokers + len(features)  # records of the cluster's metadata so far: first the brokers and the features
        self._together: Callable[[], AbstractContextManager[None]] = nullcontext
        self.kill: Callable[[int], None] = lambda node: self.stop_broker(node, clean=False, failed=True)
        self.cluster_id = cluster_id or urlsafe_b64encode(self._random.randbytes(16)).decode().rstrip("=")
        self.leader_epochs = leader_epochs
        self.fetch_config = FetchConfig(
            backoff_ms=int(self.config["replica.fetch.backoff.ms"]),
            max_bytes=int(self.config["replica.fetch.max.bytes"]),
            min_bytes=int(self.config["replica.fetch.min.bytes"]),
            response_max_bytes=int(self.config["replica.fetch.response.max.bytes"]),
            wait_max_ms=int(self.config["replica.fetch.wait.max.ms"]),
        )
        self.lag_max_ms = int(self.config["replica.lag.time.max.ms"])
        self.fetchers = ReplicaFetchers(self)
        self._isr_expiration = IsrExpiration(self)
        self.logs = BrokerLogs(self, kill=lambda node: self.kill(node))
        self.controller_link = ControllerLink(
            self,
            create_logs=self.logs.create_unheard_of,
            links_changed=self.links_changed,
            fence_replicas=self._fence_replicas,
            report=self.logs.report,
        )
        self.broker_links = BrokerLinks(self, self.fetchers, watch_lag=self.watch_lag, controller_changed=self.controller_link.changed)
        interval_ms = int(self.config["log.retention.check.interval.ms"])
        self.timers.every(interval_ms, self.delete_old_segments, first_ms=self.now_ms() + CLEAN_LOGS_FIRST_MS, restless=True)
        self.log_cleaner = LogCleaner(self.every_partition, now_ms=self.now_ms)
        self._configure_cleaner()
        if self.config.is_on("log.cleaner.enable"):
            self.timers.every(0, self._proceed_cleaning, first_ms=self.now_ms())
        for name, kinds in CHECKPOINTS.items():
            interval_ms = int(self.config[name])
            self.timers.every(interval_ms, partial(self._checkpoint, *kinds), first_ms=self.now_ms() + interval_ms)
        if storage is not None:
            try:
                self._resume(seed)
            except BaseException:
                self.storage.close()
                raise

    def _given_once(self, argument: str, value: int | None, config: str) -> int | None:
        """The value of a setting that an argument and a broker config can give."""
        if config not in self.config.given:
            return value
        if value is not None:
            raise ValueError(f"{argument}={value} and {config}={self.config.given[config]} are the same setting: give one of them")
        return int(self.config.given[config])

    def _in_force(self, brokers: int) -> dict[str, str]:
        """The configs of brokers that differ from the given or default ones, because there are too few brokers or because another config
        sets them. DescribeConfigs shows these values."""
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
        """Logs each config once that is kept but not obeyed. The level is lower for topics: clients such as Spark's ledger set many of
        their configs, and few tests rely on those."""
        if given.keys() <= self._unheeded:
            return
        from fencepost.broker_stub.configs.uses import unheeded

        for name, instead in unheeded(sorted(given.keys() - self._unheeded)).items():
            _log.log(level, "%s=%s is kept and described, and not obeyed: %s", name, given[name], instead)
        self._unheeded.update(given)

    @cached_property
    def scram_credentials(self) -> ScramCredentials:
        """The users' SCRAM credentials."""
        from fencepost.broker_stub.security.scram_credentials import ScramCredentials

        return ScramCredentials(lambda row: self._keep(ScramRecord(row)))

    def _authorizer(self, acls: Iterable[Acl] | None, super_users: Iterable[str]) -> Authorizer | None:
        """Decides what clients may do. None: everything is permitted, because the stub was given no ACLs."""
        config = self.config
        named = listed("super_users", super_users, str, "['alice']")
        super_users = [*named, *filter(None, map(str.strip, config["super.users"].split(";")))]
        if acls is None and not super_users and not config["authorizer.class.name"]:
            return None
        from fencepost.broker_stub.security.acls import EXAMPLE, Acl
        from fencepost.broker_stub.security.authorizer import Authorizer

        acls = listed("acls", acls, Acl, EXAMPLE) if acls is not None else ()
        allow_everyone = config.is_on("allow.everyone.if.no.acl.found")
        return Authorizer(acls, super_users=super_users, allow_everyone=allow_everyone)

    def tick(self, now_ms: int | None = None) -> None:
        """Runs everything that is due."""
        with self._surviving():
            self.timers.run_due(self.now_ms() if now_ms is None else now_ms)

    def next_deadline(self) -> int | None:
        """When to call `tick` again. None: nothing is due."""
        return self.timers.next_deadline()

    # Brokers

    def throttling_of(self, broker: Broker) -> ClientQuotaManager:
        """The use of the broker by clients, created with the first quota."""
        if broker.quota_manager is None:
            from fencepost.broker_stub.quotas.client_quota_manager import ClientQuotaManager

            broker.quota_manager = ClientQuotaManager(
                self.quotas,
                now_ms=self.now_ms,
                end_session=broker.sessions.remove,
                windows=int(self.config["quota.window.num"]),
                window_ms=int(self.config["quota.window.size.seconds"]) * 1000,
            )
        return broker.quota_manager

    def stop_broker(self, node_id: int, *, clean: bool = True, lost_power: bool = False, failed: bool = False) -> None:
        """Cuts the broker's connections and moves its leaderships. Clean or not, the next start knows only the newest batch of each
        producer. But after a kill the broker is not eligible to lead when it comes back. `lost_power`: it comes back with what was synced.
        `failed`: its disk failed."""
        broker = self.brokers[node_id]
        if not broker.alive:
            return
        broker.stop()
        self.history.broker_changed(node_id, What.STOPPED if clean else What.KILLED)
        self.logs.moves.stopped(node_id)
        broker.killed = not clean
        broker.logs.stopped(clean=clean, lost_power=lost_power, failed=failed)
        self.controller_link.stopped(node_id)
        self.producer_ids.stopped(node_id)
        with self.partition_decisions.together():
            for partition in self.every_partition():
                led = partition.leader == node_id
                partition.lose(node_id)
                self.counters.leader_moves += led
        self.links_changed(node_id)

    def unregister(self, node_id: int) -> None:
        """The controller forgets the broker, until it starts again. One that runs goes on, unheard."""
        broker = self.brokers[node_id]
        broker.registered = False
        self.decisions += 1
        if broker.alive:
            self._fence_replicas(node_id)

    def _fence_replicas(self, node_id: int) -> None:
        """The broker's replicas leave the ISRs, and others lead."""
        with self.partition_decisions.together():
            for partition in self.every_partition():
                self.counters.leader_moves += partition.leader == node_id
                partition.fence(node_id)

    @property
    def has_eligible(self) -> bool:
        """Whether partitions keep eligible leader replicas (KIP-966)."""
        return self.features.get(ELIGIBLE_LEADERS_VERSION, (0, 0, 0))[2] > 0

    def update_features(self, levels: Mapping[str, int]) -> None:
        """Finalizes these levels. The caller has checked them."""
        self._keep(FeaturesRecord(dict(levels)))
        self._finalize(levels)

    def _finalize(self, levels: Mapping[str, int]) -> None:
        self.features = {name: (low, high, levels.get(name, level)) for name, (low, high, level) in self.features.items()}
        self.features_epoch += 1

    def pause_broker(self, node_id: int) -> None:
        """The broker does nothing until it is resumed, like a process that got SIGSTOP. Its connections stay."""
        broker = self.brokers[node_id]
        if broker.alive and not broker.paused:
            broker.paused = True
            self.history.broker_changed(node_id, What.PAUSED)
            self.controller_link.changed(node_id)

    def resume_broker(self, node_id: int) -> None:
        """The broker goes on. What it decided before the pause, and what clients have sent it since, comes before what it hears now."""
        broker = self.brokers[node_id]
        if broker.paused:
            self.history.broker_changed(node_id, What.RESUMED)
            broker.resume()
            self.soon(partial(self.controller_link.changed, node_id))

    def start_broker(self, node_id: int) -> None:
        """Starts a broker with the logs that it has. OSError if its disk fails, ValueError if it does not reach the controller. Then it
        stays down."""
        broker = self.brokers[node_id]
        if broker.alive:
            return
        if not self.controller_link.is_up(node_id):
            raise ValueError(f"broker {node_id} cannot start, because its link to the controller is severed: mend({node_id}, 'controller')")
        broker.logs.check()
        for key, state in [*self._unsaved.items()]:
            self._keep(state)
            del self._unsaved[key]
        self.logs.restart(node_id)
        self.counters.restarts += 1
        self.history.broker_changed(node_id, What.STARTED)
        self.links_changed(node_id)
        self.controller_link.started(node_id)

    def links_changed(self, node_id: int) -> None:
        """The broker went up or down, or hears from the controller again: it and its followers fetch anew."""
        for other in self.brokers:
            self.fetchers.link_changed(node_id, other)

    # What partitions need

    def watch_lag(self) -> None:
        """A follower may be behind, so its leader must look at its ISR."""
        self._isr_expiration.watch()

    def image_changed(self) -> None:
        """The controller has decided something, of which some brokers hear later."""
        if self.slow:
            self.controller_link.image_changed()

    def leads(self, replica: Replica) -> None:
        """The replica leads now, in a new epoch."""
        for begin in self.on_leading:
            begin(replica)

    def delete_log(self, replica: Replica) -> None:
        """The replica has left."""
        self.logs.delete(replica)

    def disk_failed(self, failed: StorageFailed) -> None:
        """The log directory on that disk goes offline. A broker without another one halts."""
        self.logs.disk_failed(failed)

    def cut_connections(self, node_id: int | None = None) -> int:
        """Ends every client connection, of one broker or of all; returns how many there were."""
        number = sum(broker.cut_connections() for broker in self.brokers.values() if node_id in (None, broker.node_id))
        self.counters.connections_cut += number
        return number

    # Topics

    def create_topic(self, name: str, *, partitions: int, replication_factor: int, overrides: Mapping[str, str] | None = None) -> Topic:
        """Creates a topic, with replicas round robin over the brokers, live ones first. The caller has checked the parameters."""
        return self.create_assigned(name, self.assign(partitions, replication_factor), overrides=overrides)

    def create_assigned(self, name: str, assignments: list[tuple[int, ...]], *, overrides: Mapping[str, str] | None = None) -> Topic:
        overrides = dict(overrides or {})
        self._say_what_is_unheeded(overrides, logging.INFO)
        topic = Topic(name, self.new_id(), config=self.config.of_topic(overrides), overrides=overrides)
        self._add_partitions(topic, assignments, TopicRecord(topic.id, topic.name, overrides))
        self.topics.add(topic)
        return topic

    def internal_topic(self, name: str) -> Topic:
        """The offsets topic or the topic of transactions, created at its first use."""
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
        """Replicas for so many partitions, each on its own brokers, which have a log directory that is not cordoned if there are enough
        such brokers. Leaders are round robin over the live ones, after `after`."""
        cordoned, alive = {*self.cordoned}, self.live
        nodes = sorted(self.brokers, key=lambda node_id: (node_id in cordoned, node_id not in alive))
        live = sum(node_id not in cordoned for node_id in alive) or len(nodes) - len(cordoned) or len(nodes)
        start = len(self.topics) if after is None else nodes.index(after) + 1 - first
        assigned = []
        for index in range(first, first + partitions):
            turn = (start + index) % live
            ring = nodes[turn:live] + nodes[:turn] + nodes[live:]
            assigned.append(tuple(ring[:replication_factor]))
        return assigned

    def add_partitions(self, topic: Topic, total: int) -> None:
        """Grows the topic to so many partitions. ValueError if it has as many already, or if they are too many at once."""
        grown = total - len(topic.partitions)
        if grown < 1:
            raise ValueError(
                f"INVALID_PARTITIONS: topic {topic.name!r} has {counted(len(topic.partitions), 'partition')} already, {total} are no more"
            )
        if grown > PARTITIONS_MAX:
            raise ValueError(
                f"topic {topic.name!r} has {counted(len(topic.partitions), 'partition')}, {total} are {grown} more: "
                f"one request creates at most {PARTITIONS_MAX}"
            )
        factor, last = len(topic.partitions[0].replicas), topic.partitions[-1].replicas[0]
        self.add_assigned(topic, self.assign(grown, factor, first=len(topic.partitions), after=last))

    def add_assigned(self, topic: Topic, assignments: list[tuple[int, ...]]) -> None:
        """Adds partitions with these replicas. The caller has checked them."""
        self._add_partitions(topic, assignments)

    def delete_old_segments(self) -> int:
        """Deletes the segments that retention gives up now; returns how many."""
        deleted = 0
        for partition in self.every_partition():
            with self._surviving():
                deleted += partition.delete_old_segments()
        give_back()
        return deleted

    def clean_logs(self) -> int:
        """Deletes and compacts what is due now. Returns the number of segments that were deleted or replaced."""
        return sum(self.clean_in_slices())

    def clean_in_slices(self) -> Iterator[int]:
        """`clean_logs`, a little at each step."""
        before = self.log_cleaner.cleaned
        yield self.delete_old_segments()
        self.log_cleaner.begin()
        while self.log_cleaner.proceed():
            yield 0
        yield self.log_cleaner.cleaned - before

    def configure(self, topic: Topic, overrides: Mapping[str, str]) -> None:
        """Sets the topic's own configs. The caller has checked them."""
        self._say_what_is_unheeded(overrides, logging.INFO)
        self._keep(TopicRecord(topic.id, topic.name, dict(overrides)))
        topic.overrides = dict(overrides)
        self._obey_configs(topic)

    def configure_resource(self, kind: ResourceType, name: str, values: Mapping[str, str]) -> None:
        """Sets all dynamic configs of a broker, of all brokers, of a group or of a client metrics subscription. The caller has checked
        them."""
        self._say_what_is_unheeded(values, logging.WARNING)
        self._keep(ConfigsRecord(kind, name, dict(values)))
        self.dynamic_configs.change(kind, name, values)
        if kind is ResourceType.BROKER:
            self._obey_broker_configs()
        for changed in self.on_configs_changed:
            changed(kind, name)

    def _obey_broker_configs(self) -> None:
        """The dynamic configs of brokers count from now on."""
        self._configure_cleaner()
        for node in self.brokers:
            self._obey_for_log_dirs(node)
        for topic in self.topics:
            self._obey_configs(topic)

    def _obey_for_log_dirs(self, node: int) -> None:
        """How fast logs move between the broker's directories, and which of these get no new ones."""
        limit = self.config.set_on(node, MOVE_LIMIT)
        self.logs.moves.limit(node, None if limit is None else int(limit))
        self.brokers[node].logs.cordon(self.config.set_on(node, CORDONED) or "")

    def _configure_cleaner(self) -> None:
        config = self.config
        self.log_cleaner.resize(int(config["log.cleaner.dedupe.buffer.size"]), double(config["log.cleaner.io.buffer.load.factor"]) or 0.0)
        if config.is_on("log.cleaner.enable"):
            self.timers.every(int(config["log.cleaner.backoff.ms"]), self.log_cleaner.begin, first_ms=self.now_ms(), restless=True)

    def _obey_configs(self, topic: Topic) -> None:
        """The topic's configs, and those that it has from its brokers, count from now on."""
        topic.config = self.config.of_topic(topic.overrides)
        for partition in topic.partitions:
            partition.configure(topic.config, partial(self.logs.config, topic))
        if any(partition.leader == NO_LEADER and partition.elects_unclean for partition in topic.partitions):
            self.timers.at(self.now_ms() + int(self.config["unclean.leader.election.interval.ms"]), partial(self._lead_again, topic))

    def _lead_again(self, topic: Topic) -> None:
        """Elects leaders for partitions without one, if their topic allows unclean elections now, as Kafka's controller does."""
        if self.topics.named(topic.name) is topic:
            for partition in topic.partitions:
                if partition.leader == NO_LEADER:
                    partition.elect()

    def delete_topic(self, topic: Topic) -> None:
        self._keep(TopicDeleted(topic.id))
        self.topics.remove(topic)
        for partition in topic.partitions:
            partition.delete()
        for deleted in self.on_topic_deleted:
            deleted(topic.name)

    def move_leader(self, partition: Partition, *, to: int | None = None) -> int:
        """Makes another in-sync replica the leader, by default the next one. ValueError if there is none. Returns the new leader."""
        able = [node for node in partition.replicas if node in partition.isr and node in partition.live and node != partition.leader]
        if not able:
            raise ValueError(f"{partition} has no in-sync replica to lead it instead of {partition.leader}: {partition.isr}")
        if to is not None and to not in able:
            raise ValueError(f"to={to}: must be one of {able}, the in-sync replicas of {partition} that do not lead it")
        behind = [node for node in able if partition.replicas.index(node) > partition.replicas.index(partition.leader)]
        partition.elect(preferred=to if to is not None else (behind or able)[0])
        self.counters.leader_moves += 1
        return partition.leader

    def reassign(self, topic: Topic, partition: Partition, target: Sequence[int]) -> None:
        """Begins to move the partition to these brokers, and ends at once where they reach the leader. The caller has checked them."""
        added = [node for node in target if partition.on(node) is None]
        logs = self.logs.create(topic, partition.index, added)
        partition.reassign(target, logs)

    def _add_partitions(self, topic: Topic, assignments: list[tuple[int, ...]], *first: Record) -> None:
        """All or none. `first`: what is kept together with them."""
        before = len(topic.partitions)
        try:
            with self._together():
                for record in first:
                    self._keep(record)
                for index, replicas in enumerate(assignments, before):
                    self._add_partition(topic, self.logs.create(topic, index, replicas)).begin()
        except StorageFailed:
            del topic.partitions[before:]
            for index, replicas in enumerate(assignments, before):
                for node in replicas:
                    self.brokers[node].logs.delete((topic.name, index), topic.id)
            raise

    def _add_partition(self, topic: Topic, logs: Mapping[int, PartitionLog]) -> Partition:
        index = len(topic.partitions)
        partition = Partition(
            topic.name,
            index,
            topic_id=topic.id,
            topic_config=topic.config,
            logs=logs,
            cluster=self,
        )
        topic.partitions.append(partition)
        return partition

    # What lasts

    def close(self) -> None:
        """A clean shutdown of every broker, for the next start with the same storage. It is unclean for a broker whose disk fails, and for
        one that is down since a kill."""
        if not self._keeps_files:
            return
        self._keeps_files = False
        try:
            for broker in self.brokers.values():
                for failed in broker.logs.close() if broker.alive or not broker.killed else ():
                    _log.error("broker %d does not shut down cleanly: %s", broker.node_id, failed.strerror)
        finally:
            self.storage.close()

    def _resume(self, seed: int) -> None:
        """Goes on with what the storage has, and keeps from now on what changes."""
        metadata = MetadataLog(self.storage)
        found, count = metadata.found, len(self.brokers)
        if count < found.start.brokers:
            raise ValueError(f"brokers={count}: the data directory has the logs of brokers 1 to {found.start.brokers}")
        for broker in self.brokers.values():
            broker.logs.check_number()
        if found.cluster is not None:
            self.cluster_id = found.cluster.cluster_id
        elif any(broker.logs.partitions() for broker in self.brokers.values()):
            raise ValueError(f"{NAME} is missing or empty, and there are logs, whose topics only that file names")
        for quotas in found.quotas.values():
            self.quotas.change(frozenset(quotas.entity), quotas.values)  # before changes are kept: the file has them
        for scram in found.scram.values():
            self.scram_credentials.resume(scram.row)
        if found.features:
            self._finalize(found.features)
        for kept_configs in found.configs.values():
            self.dynamic_configs.change(ResourceType(kept_configs.kind), kept_configs.name, kept_configs.values)
        self._write, self._together = metadata.write, metadata.together
        start = StartRecord(found.start.number + 1, count)
        with metadata.together():
            if found.cluster is None:
                self._keep(ClusterRecord(self.cluster_id))
            self._keep(start)
            self._resume_acls(found)
        self._random.seed(f"{seed}, start {start.number}")  # no id is given twice
        self.producer_ids = ProducerIds(found.next_producer_id, reserve=lambda end: self._keep(ProducerIdsRecord(end)))
        if found.deleted:
            for broker in self.brokers.values():
                broker.logs.remove_deleted(found.deleted)
        kept = {topic_id: self._after_stop(record, found.partitions[topic_id]) for topic_id, record in found.topics.items()}
        for record in found.topics.values():
            topic = Topic(record.name, record.id, config=self.config.of_topic(record.overrides), overrides=record.overrides)
            self.topics.add(topic)
            for of in kept[topic.id]:
                self._add_partition(
                    topic,
                    {
                        node: self.brokers[node].logs.load((topic.name, of.index), topic_id=topic.id, config=self.logs.config(topic, node))
                        for node in of.replicas
                    },
                )
        for broker in self.brokers.values():
            broker.logs.loaded({*found.topics, *found.deleted})
        with self._together():
            for topic in self.topics:
                for partition, of in zip(topic.partitions, kept[topic.id], strict=True):
                    partition.resume(of)
        for node in self.brokers:
            self._obey_for_log_dirs(node)
            self.logs.moves.resume(node)

    def _after_stop(self, topic: TopicRecord, states: Mapping[int, PartitionState]) -> list[PartitionState]:
        """What still counts of the topic's partitions, in the order of their numbers. It is kept before the logs that were lost are created
        anew, and before other brokers no longer count as cleanly stopped: a crash in between must not make a lost log count."""
        unclean = [node for node, broker in self.brokers.items() if not broker.logs.is_clean]
        elects_unclean = self.config.of_topic(topic.overrides)["unclean.leader.election.enable"].lower() == "true"
        counts = []
        with self._together():
            for index in sorted(states):
                state = states[index]
                lost = [node for node in state.replicas if not self.brokers[node].logs.has((topic.name, index), topic.id)]
                counts.append(state.after_stop(unclean=unclean, lost=lost, has_eligible=self.has_eligible, elects_unclean=elects_unclean))
                if counts[-1] != state:
                    self._keep(counts[-1])
        return counts

    def _resume_acls(self, found: Metadata) -> None:
        """Goes on with the ACLs that were kept. Those that this start was given are created beside them."""
        if self.authorizer is not None:
            from fencepost.broker_stub.security.acls import Acl

            given = self.authorizer.acls
            self.authorizer.remove(given)
            self.authorizer.add(map(Acl.of_row, found.acls.acls))
            self.authorizer.keep = lambda acls: self._keep(AclsRecord([acl.row for acl in acls]))
            self.authorizer.add(given)

    def save(self, state: PartitionState, before: PartitionState) -> None:
        """Keeps what was decided about a partition."""
        self.history.partition_changed(state, before)
        self.partition_decisions.add(state)

    def after_saving(self, run: Callable[[], None]) -> None:
        """Does what follows from that."""
        self.partition_decisions.then(run)

    def _save(self, states: Collection[PartitionState]) -> None:
        """Keeps what was decided about partitions. If that fails, every broker halts, and it is kept before one starts again."""
        for state in states:
            self._unsaved.pop((state.topic_id, state.index), None)
        try:
            with self._together() if len(states) > 1 else nullcontext():
                for state in states:
                    self._keep(state)
        except StorageFailed as failed:
            self._unsaved.update({(state.topic_id, state.index): state for state in states})
            self.disk_failed(failed)

    def _keep(self, record: Record) -> None:
        """Keeps what the controller has decided."""
        self._write(record)
        self.decisions += 1

    def _proceed_cleaning(self) -> bool:
        """Whether there was something to do."""
        worked = False
        with self._surviving():
            worked = self.log_cleaner.proceed()
        return worked

    def _checkpoint(self, *kinds: str) -> None:
        for broker in self.brokers.values():
            if broker.alive:
                for failed in broker.logs.checkpoint(*kinds):
                    self.disk_failed(failed)

    @contextmanager
    def _surviving(self) -> Iterator[None]:
        """For what no client has asked for: a log directory whose disk fails goes offline, and the others go on."""
        try:
            yield
        except StorageFailed as failed:
            self.disk_failed(failed)
