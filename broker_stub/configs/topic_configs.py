"""The topic configs of Kafka 4.3: names, types, defaults, and the broker config each default comes from.

It has values; `uses` says which of them the log and the handlers obey. An unknown name is refused, as in Kafka.
"""

from collections.abc import Mapping
from typing import NamedTuple

from fencepost.broker_stub.configs.values import (
    INT_MAX,
    LONG_MAX,
    LONG_MIN,
    Check,
    anything,
    boolean,
    double,
    level,
    list_of,
    one_of,
    ratio,
    split,
    throttled_replicas,
    whole,
)
from fencepost.broker_stub.network.addresses import printable

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class InvalidConfig(ValueError):
    """An unknown config, or an invalid value."""


class InvalidRequest(ValueError):
    """A change of configs that Kafka refuses as INVALID_REQUEST."""


class Definition(NamedTuple):
    """One topic config. `broker` is the broker config of its default."""

    default: str
    check: Check
    broker: str


_size, _duration = whole(0, INT_MAX), whole(0, LONG_MAX)

TOPIC_CONFIGS: dict[str, Definition] = {
    "cleanup.policy": Definition("delete", list_of("compact", "delete"), "log.cleanup.policy"),
    "compression.gzip.level": Definition("-1", level(1, 9, default=-1), "compression.gzip.level"),
    "compression.lz4.level": Definition("9", whole(1, 17), "compression.lz4.level"),
    "compression.type": Definition("producer", one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), "compression.type"),
    "compression.zstd.level": Definition("3", whole(-131072, 22), "compression.zstd.level"),
    "delete.retention.ms": Definition("86400000", _duration, "log.cleaner.delete.retention.ms"),
    "file.delete.delay.ms": Definition("60000", _duration, "log.segment.delete.delay.ms"),
    "flush.messages": Definition(str(LONG_MAX), whole(1, LONG_MAX), "log.flush.interval.messages"),
    "flush.ms": Definition(str(LONG_MAX), _duration, "log.flush.interval.ms"),
    "follower.replication.throttled.replicas": Definition("", throttled_replicas, "follower.replication.throttled.replicas"),
    "index.interval.bytes": Definition("4096", _size, "log.index.interval.bytes"),
    "leader.replication.throttled.replicas": Definition("", throttled_replicas, "leader.replication.throttled.replicas"),
    "local.retention.bytes": Definition("-2", whole(-2, LONG_MAX), "log.local.retention.bytes"),
    "local.retention.ms": Definition("-2", whole(-2, LONG_MAX), "log.local.retention.ms"),
    "max.compaction.lag.ms": Definition(str(LONG_MAX), whole(1, LONG_MAX), "log.cleaner.max.compaction.lag.ms"),
    "max.message.bytes": Definition("1048588", _size, "message.max.bytes"),
    "message.timestamp.after.max.ms": Definition("3600000", _duration, "log.message.timestamp.after.max.ms"),
    "message.timestamp.before.max.ms": Definition(str(LONG_MAX), _duration, "log.message.timestamp.before.max.ms"),
    "message.timestamp.type": Definition("CreateTime", one_of("CreateTime", "LogAppendTime"), "log.message.timestamp.type"),
    "min.cleanable.dirty.ratio": Definition("0.5", ratio, "log.cleaner.min.cleanable.ratio"),
    "min.compaction.lag.ms": Definition("0", _duration, "log.cleaner.min.compaction.lag.ms"),
    "min.insync.replicas": Definition("1", whole(1, INT_MAX), "min.insync.replicas"),
    "preallocate": Definition("false", boolean, "log.preallocate"),
    "remote.log.copy.disable": Definition("false", boolean, "remote.log.copy.disable"),
    "remote.log.delete.on.disable": Definition("false", boolean, "remote.log.delete.on.disable"),
    "remote.storage.enable": Definition("false", boolean, "remote.storage.enable"),
    "retention.bytes": Definition("-1", whole(LONG_MIN, LONG_MAX), "log.retention.bytes"),
    "retention.ms": Definition("604800000", whole(-1, LONG_MAX), "log.retention.ms"),
    "segment.bytes": Definition("1073741824", whole(1024 * 1024, INT_MAX), "log.segment.bytes"),
    "segment.index.bytes": Definition("10485760", whole(4, INT_MAX), "log.index.size.max.bytes"),
    "segment.jitter.ms": Definition("0", _duration, "log.roll.jitter.ms"),
    "segment.ms": Definition("604800000", whole(1, LONG_MAX), "log.roll.ms"),
    "unclean.leader.election.enable": Definition("false", boolean, "unclean.leader.election.enable"),
}

TOPIC_NAMES = {definition.broker: name for name, definition in TOPIC_CONFIGS.items()}
"""The topic config for which a broker config is the default."""
KAFKAS_DEFAULTS = {
    "group.consumer.assignment.interval.ms": "1000",
    "group.initial.rebalance.delay.ms": "3000",
    "group.share.assignment.interval.ms": "1000",
}
"""Of the broker configs whose default here is another one, so that tests wait less."""

ALL_BROKERS = ""
"""The name under which the dynamic configs of all brokers are set."""
MIN_ISR = "min.insync.replicas"
MOVE_LIMIT = "replica.alter.log.dirs.io.max.bytes.per.second"
"""What a broker copies between its log directories. Only clients set it."""
CORDONED = "cordoned.log.dirs"
"""The log directories of a broker that get no new logs (KIP-1066)."""

# Only the authorizer reads these; a broker does not describe them.
AUTHORIZER_CONFIGS = frozenset(("allow.everyone.if.no.acl.found", "super.users"))
# Internal configs of Kafka: a broker describes them only where they were given.
INTERNAL_CONFIGS = frozenset(("unclean.leader.election.interval.ms", "unstable.api.versions.enable"))

_ASSIGNORS = ("uniform", "range")
_assignors = anything(lambda value: set(split(value)) <= set(_ASSIGNORS) and 0 < len(split(value)) == len(set(split(value))))

# Broker configs that are no defaults of topics.
MIGRATIONS = ("disabled", "upgrade", "downgrade", "bidirectional")
BROKER_CONFIGS: dict[str, Definition] = {
    "add.partitions.to.txn.retry.backoff.max.ms": Definition("100", whole(0, INT_MAX), ""),
    "add.partitions.to.txn.retry.backoff.ms": Definition("20", whole(1, INT_MAX), ""),
    "allow.everyone.if.no.acl.found": Definition("false", boolean, ""),
    "authorizer.class.name": Definition("", one_of("", STANDARD_AUTHORIZER), ""),
    "auto.create.topics.enable": Definition("true", boolean, ""),
    "broker.session.timeout.ms": Definition("9000", whole(0, INT_MAX), ""),
    "connections.max.idle.ms": Definition("600000", whole(-1, LONG_MAX), ""),
    "connections.max.reauth.ms": Definition("0", whole(LONG_MIN, LONG_MAX), ""),
    "default.replication.factor": Definition("1", whole(1, 32767), ""),
    "delete.topic.enable": Definition("true", boolean, ""),
    # Kafka's default is 1000. With 0 a member does not wait for its next heartbeat.
    "group.consumer.assignment.interval.ms": Definition("0", whole(0, INT_MAX), ""),
    "group.consumer.assignors": Definition("uniform,range", _assignors, ""),
    "group.consumer.heartbeat.interval.ms": Definition("5000", whole(1, INT_MAX), ""),
    "group.consumer.max.assignment.interval.ms": Definition("15000", whole(0, INT_MAX), ""),
    "group.consumer.max.heartbeat.interval.ms": Definition("15000", whole(1, INT_MAX), ""),
    "group.consumer.max.session.timeout.ms": Definition("60000", whole(1, INT_MAX), ""),
    "group.consumer.max.size": Definition(str(INT_MAX), whole(1, INT_MAX), ""),
    "group.consumer.migration.policy": Definition("bidirectional", anything(lambda value: value.lower() in MIGRATIONS), ""),
    "group.consumer.min.assignment.interval.ms": Definition("0", whole(0, INT_MAX), ""),
    "group.consumer.min.heartbeat.interval.ms": Definition("5000", whole(1, INT_MAX), ""),
    "group.consumer.min.session.timeout.ms": Definition("45000", whole(1, INT_MAX), ""),
    "group.consumer.session.timeout.ms": Definition("45000", whole(1, INT_MAX), ""),
    # Kafka's default is 3000. With 0 a test's first consumer does not wait.
    "group.initial.rebalance.delay.ms": Definition("0", whole(0, INT_MAX), ""),
    "group.max.session.timeout.ms": Definition("1800000", whole(1, INT_MAX), ""),
    "group.max.size": Definition(str(INT_MAX), whole(1, INT_MAX), ""),
    "group.min.session.timeout.ms": Definition("6000", whole(0, INT_MAX), ""),
    # Kafka's default is 1000. With 0 a member does not wait for its next heartbeat.
    "group.share.assignment.interval.ms": Definition("0", whole(0, INT_MAX), ""),
    "group.share.delivery.count.limit": Definition("5", whole(2, 10), ""),
    "group.share.heartbeat.interval.ms": Definition("5000", whole(1, INT_MAX), ""),
    "group.share.max.share.sessions": Definition("2000", whole(1, INT_MAX), ""),
    "group.share.max.size": Definition("200", whole(1, 1000), ""),
    "group.share.partition.max.record.locks": Definition("2000", whole(1, 10_000), ""),
    "group.share.record.lock.duration.ms": Definition("30000", whole(1, 3_600_000), ""),
    "group.share.session.timeout.ms": Definition("45000", whole(1, INT_MAX), ""),
    "log.cleaner.backoff.ms": Definition("15000", whole(0, LONG_MAX), ""),
    "log.cleaner.dedupe.buffer.size": Definition("134217728", whole(0, LONG_MAX), ""),
    "log.cleaner.enable": Definition("true", boolean, ""),
    "log.cleaner.io.buffer.load.factor": Definition("0.9", ratio, ""),
    "log.flush.offset.checkpoint.interval.ms": Definition("60000", whole(0, INT_MAX), ""),
    "log.flush.start.offset.checkpoint.interval.ms": Definition("60000", whole(0, INT_MAX), ""),
    "log.retention.check.interval.ms": Definition("300000", whole(1, LONG_MAX), ""),
    "max.connections": Definition(str(INT_MAX), whole(1, INT_MAX), ""),
    "max.connections.per.ip": Definition(str(INT_MAX), whole(0, INT_MAX), ""),
    "num.partitions": Definition("1", whole(1, INT_MAX), ""),
    "offset.metadata.max.bytes": Definition("4096", whole(0, INT_MAX), ""),
    "offsets.commit.timeout.ms": Definition("5000", whole(1, INT_MAX), ""),
    "offsets.retention.check.interval.ms": Definition("600000", whole(1, LONG_MAX), ""),
    "offsets.retention.minutes": Definition("10080", whole(1, INT_MAX), ""),
    "offsets.topic.num.partitions": Definition("50", whole(1, INT_MAX), ""),
    "offsets.topic.replication.factor": Definition("3", whole(1, 32767), ""),
    "producer.id.expiration.ms": Definition("86400000", whole(1, INT_MAX), ""),
    "quota.window.num": Definition("11", whole(1, INT_MAX), ""),
    "quota.window.size.seconds": Definition("1", whole(1, INT_MAX), ""),
    "replica.fetch.backoff.ms": Definition("1000", whole(0, INT_MAX), ""),
    "replica.fetch.max.bytes": Definition("1048576", whole(0, INT_MAX), ""),
    "replica.fetch.min.bytes": Definition("1", whole(0, INT_MAX), ""),
    "replica.fetch.response.max.bytes": Definition("10485760", whole(0, INT_MAX), ""),
    "replica.fetch.wait.max.ms": Definition("500", whole(0, INT_MAX), ""),
    "replica.high.watermark.checkpoint.interval.ms": Definition("5000", whole(0, LONG_MAX), ""),
    "replica.lag.time.max.ms": Definition("30000", whole(1, LONG_MAX), ""),
    "replica.socket.timeout.ms": Definition("30000", whole(0, INT_MAX), ""),
    "share.coordinator.snapshot.update.records.per.snapshot": Definition("500", whole(0, 500), ""),
    "share.coordinator.state.topic.min.isr": Definition("2", whole(1, 32767), ""),
    "share.coordinator.state.topic.num.partitions": Definition("50", whole(1, INT_MAX), ""),
    "share.coordinator.state.topic.replication.factor": Definition("3", whole(1, 32767), ""),
    "share.coordinator.write.timeout.ms": Definition("5000", whole(1, INT_MAX), ""),
    "super.users": Definition("", anything(lambda value: all(":" in each for each in value.split(";") if each.strip())), ""),
    "telemetry.max.bytes": Definition("1048576", whole(1, INT_MAX), ""),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": Definition("10000", whole(1, INT_MAX), ""),
    "transaction.max.timeout.ms": Definition("900000", whole(1, INT_MAX), ""),
    "transaction.partition.verification.enable": Definition("true", boolean, ""),
    "transaction.remove.expired.transaction.cleanup.interval.ms": Definition("3600000", whole(1, INT_MAX), ""),
    "transaction.state.log.min.isr": Definition("2", whole(1, INT_MAX), ""),
    "transaction.state.log.num.partitions": Definition("50", whole(1, INT_MAX), ""),
    "transaction.state.log.replication.factor": Definition("3", whole(1, 32767), ""),
    "transaction.two.phase.commit.enable": Definition("false", boolean, ""),
    "transactional.id.expiration.ms": Definition("604800000", whole(1, INT_MAX), ""),
    # Kafka's default is 300000, counted from the start of its controller. With 1000 a test does not wait that long.
    "unclean.leader.election.interval.ms": Definition("1000", whole(1, LONG_MAX), ""),
    "unstable.api.versions.enable": Definition("false", boolean, ""),
}


Value = str | int | float | bool
"""The types that tests may give for a config. Kafka has only text."""


def as_text(configs: Mapping[str, Value]) -> dict[str, str]:
    """The configs as Kafka writes them. Raises TypeError for no mapping, and for a name or value of another type."""
    if not isinstance(configs, Mapping):
        raise TypeError(f"config={printable(repr(configs), longest=100)}: must be a mapping of names to values")
    return {name: _text(name, value) for name, value in configs.items()}


def _text(name: str, value: Value) -> str:
    if not isinstance(name, str):
        raise TypeError(f"config {name!r}: the name must be text, not {type(name).__name__}")
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, (str, int, float)):
        raise TypeError(f"config {name!r} must be text, a number or a bool, not {type(value).__name__}")
    return str(value)


def check_topic_config(name: str, value: str | None) -> None:
    """Raises InvalidConfig with Kafka's reason."""
    definition = TOPIC_CONFIGS.get(name)
    if definition is None:
        raise InvalidConfig(f"Unknown topic config name: {name}")
    if value is None:
        raise InvalidConfig(f"Null value not supported for topic configs: {name}")
    wrong = definition.check(name, value)
    if wrong is not None:
        raise InvalidConfig(wrong)
    if name == "remote.storage.enable" and value.strip().lower() == "true":
        raise InvalidConfig("Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.")


class BrokerConfig:
    """The brokers' configs: the topics' defaults and the few that are the broker's own. An unknown name is refused.

    `kafka_defaults`: the release's defaults where they differ from 4.3's. `given`: what the brokers started with (static configs).
    `dynamic`: what clients have set since, by the broker's id, and for all brokers (`ALL_BROKERS`). It comes first, that of one broker
    before that of all.
    """

    def __init__(self, given: Mapping[str, Value] | None = None, *, kafka_defaults: Mapping[str, str] | None = None) -> None:
        self.given: dict[str, str] = {}
        self.dynamic: dict[str, Mapping[str, str]] = {}
        self._kafka_defaults = {**{name: definition.default for name, definition in TOPIC_CONFIGS.items()}, **(kafka_defaults or {})}
        self._topic_defaults = dict(self._kafka_defaults)
        for name, text in as_text(given or {}).items():
            value = text.strip()
            topic_name = TOPIC_NAMES.get(name, name)
            if topic_name in TOPIC_CONFIGS:
                check_topic_config(topic_name, value)
                self._topic_defaults[topic_name] = value
            elif name not in BROKER_CONFIGS:
                raise InvalidConfig(f"unknown broker config {name!r}{_nearest(name, [*TOPIC_NAMES, *BROKER_CONFIGS])}")
            elif BROKER_CONFIGS[name].check(name, value) is not None:
                raise InvalidConfig(f"invalid value {value!r} for broker config {name!r}")
            self.given[name] = value

    def __getitem__(self, name: str) -> str:
        """A broker's own config: what was set for all brokers, given or is by default."""
        value = self.dynamic.get(ALL_BROKERS, {}).get(name)
        return self.given.get(name, BROKER_CONFIGS[name].default) if value is None else value.strip()

    def on(self, node_id: int, name: str) -> str:
        """The same on one broker."""
        value = self.dynamic.get(str(node_id), {}).get(name)
        return self[name] if value is None else value.strip()

    def set_on(self, node_id: int, name: str) -> str | None:
        """What clients have set on one broker, or else on all. None: nothing."""
        value = self.dynamic.get(str(node_id), {}).get(name, self.dynamic.get(ALL_BROKERS, {}).get(name))
        return None if value is None else value.strip()

    def is_on(self, name: str) -> bool:
        """A broker's own boolean config."""
        return self[name].lower() == "true"

    def kafka_default(self, topic_config: str) -> str:
        """The value of a topic config that was not set on the topic."""
        return self._kafka_defaults[topic_config]

    def of_topic(self, overrides: Mapping[str, str], node_id: int | None = None) -> dict[str, str]:
        """Every topic config in force: the topic's own, without blanks around it, then the broker's, then Kafka's default. The broker's is
        what was set for all brokers, or for this one."""
        found = dict(self._topic_defaults)
        for broker in (ALL_BROKERS, str(node_id)):
            set_here = self.dynamic.get(broker, {})
            found |= {TOPIC_NAMES[name]: value.strip() for name, value in set_here.items() if name in TOPIC_NAMES}
            if int(found["retention.ms"]) < 0:  # Kafka takes any negative time for a broker, and none is a limit
                found["retention.ms"] = "-1"
        found |= {name: value.strip() for name, value in overrides.items()}
        ratio_name = "min.cleanable.dirty.ratio"
        found[ratio_name] = str(double(found[ratio_name]))  # Java takes forms that Python does not
        return found


def _nearest(name: str, known: list[str]) -> str:
    import difflib  # imported only for a misspelt name

    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
