"""Configs of brokers, groups, client metrics and loggers that clients change while brokers run (KIP-226, KIP-412, KIP-714, KIP-848)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fencepost.broker_stub.security.operations import Operation
from fencepost.producer.wire.messages import configs, incremental_configs
from tests.conformance.asks_configs import APPEND, BROKER, BROKER_LOGGER, CLIENT_METRICS, DELETE, GROUP, SET, SUBTRACT, TOPIC, Change
from tests.conformance.batches import Rec, plain
from tests.conformance.holding import each_holding, on_cluster, on_group
from tests.conformance.world import World, case

ALL = ""
LIMIT = "message.max.bytes"


@case("KIP-226", restarts=True)
def one_broker_and_all(w: World) -> None:
    """What is set on one broker counts before what is set on all, and that before what it started with."""
    me, topic = str(w.nodes[0]), w.topic()
    w.until_set(BROKER, me, LIMIT, "1048588", label="before")
    w.alter(BROKER, ALL, [(LIMIT, SET, "2000")], worded=True, label="all")
    w.until_set(BROKER, me, LIMIT, "2000", label="all are set")
    w.until_set(BROKER, ALL, LIMIT, "2000", label="all, described at once")
    w.until_set(TOPIC, topic.name, "max.message.bytes", "2000", label="a topic, then")
    w.alter(BROKER, me, [(LIMIT, SET, " 3000 ")], worded=True, label="one")
    w.until_set(BROKER, me, LIMIT, "3000", label="one is set")
    w.until_set(TOPIC, topic.name, "max.message.bytes", "3000", label="a topic of that broker")
    w.until_set(BROKER, ALL, LIMIT, "2000", label="all, as before")
    big = plain(Rec(value=bytes(5000)))
    w.until_refused(big, topic, label="a large batch")
    w.alter(TOPIC, topic.name, [("max.message.bytes", SET, "9000")], label="the topic's own")
    w.until_set(TOPIC, topic.name, "max.message.bytes", "9000", label="the topic's own is set")
    w.produce(big, topic, label="a large batch, then")
    w.alter(BROKER, me, [(LIMIT, DELETE, None)], worded=True, label="no longer one")
    w.until_set(BROKER, me, LIMIT, "2000", label="one is deleted")
    w.alter(BROKER, ALL, [(LIMIT, DELETE, None)], worded=True, label="no longer all")
    w.until_set(BROKER, me, LIMIT, "1048588", label="all are deleted")
    w.until_set(BROKER, ALL, LIMIT, None, label="all, not described")
    w.alter(BROKER, me, [(LIMIT, SET, "77")], validate_only=True, worded=True, label="only validated")
    w.until_set(BROKER, me, LIMIT, "1048588", label="nothing changed")


DYNAMIC: Mapping[str, str] = {
    "background.threads": "12",
    "compression.type": "gzip",
    "follower.replication.throttled.rate": "5000",
    "leader.replication.throttled.rate": "6000",
    "log.cleaner.backoff.ms": "16000",
    "log.cleaner.io.buffer.load.factor": "0.8",
    "log.cleanup.policy": "compact,delete",
    "log.flush.interval.ms": "7",
    "log.preallocate": "true",
    "log.retention.ms": "86400001",
    "log.roll.ms": "3600000",
    "max.connections": "2000",
    "max.connections.per.ip": "3000",
    "producer.id.expiration.ms": "86400002",
    "replica.alter.log.dirs.io.max.bytes.per.second": "7000",
    "transaction.partition.verification.enable": "false",
    "unclean.leader.election.enable": "true",
}


@case("KIP-226", restarts=True)
def many_configs_of_brokers(w: World) -> None:
    """Configs of each part of a broker are set, described with their synonyms and types, and deleted."""
    me = str(w.nodes[0])
    for name, value in DYNAMIC.items():
        w.alter(BROKER, me, [(name, SET, value)], worded=True, label=name)
        w.until_set(BROKER, me, name, value, label=f"{name} is set")
    w.alter(BROKER, me, [(name, DELETE, None) for name in DYNAMIC], worded=True, label="deleted")
    for name in ("replica.alter.log.dirs.io.max.bytes.per.second", "log.cleaner.threads", "max.connections"):
        w.alter(BROKER, me, [(name, SET, "0")], validate_only=True, worded=True, label=f"{name}=0")
    for name, value in DYNAMIC.items():
        w.alter(BROKER, ALL, [(name, SET, value)], worded=True, label=f"{name} of all")
        w.until_set(BROKER, ALL, name, value, label=f"{name} of all is set")
    w.alter(BROKER, ALL, [(name, DELETE, None) for name in DYNAMIC], worded=True, label="deleted for all")
    w.until_set(BROKER, ALL, LIMIT, None, label="all are deleted")


@case("KIP-226", restarts=True)
def names_that_no_config_has(w: World) -> None:
    """Such a config is kept, because it could be a plugin's, and described without its value, because it could be a password."""
    me = str(w.nodes[0])
    w.alter(BROKER, ALL, [("no.such.config", SET, "1")], worded=True, label="of all")
    w.alter(BROKER, me, [("nor.this", SET, "2")], worded=True, label="of one")
    w.alter(BROKER, me, [(LIMIT, SET, "2000")], label="a config")
    w.until_set(BROKER, me, LIMIT, "2000", label="the config is set")
    w.describe_configs(BROKER, me, keys=["no.such.config", "nor.this"], synonyms=True, label="described")
    w.describe_configs(BROKER, ALL, keys=["no.such.config", "nor.this"], synonyms=True, label="all, described")
    w.alter(BROKER, ALL, [("no.such.config", DELETE, None)], worded=True, label="of all, deleted")
    w.alter(BROKER, me, [("nor.this", DELETE, None), (LIMIT, DELETE, None)], worded=True, label="of one, deleted")
    w.alter(BROKER, me, [("nor.this", DELETE, None)], worded=True, label="deleted again")


@case("KIP-226", restarts=True)
def changes_of_brokers_that_are_refused(w: World) -> None:
    """Configs that do not change while a broker runs, values that it cannot have, and operations that they do not have."""
    me = str(w.nodes[0])
    refused: dict[str, Sequence[Change]] = {
        "static": [("broker.id", SET, "2")],
        "static, of the log": [("log.retention.hours", SET, "2")],
        "static, of groups": [("group.max.size", SET, "2")],
        "static, of the quorum": [("controller.quorum.voters", SET, "1@localhost:9093")],
        "static and a bad value": [("num.partitions", SET, "2"), (LIMIT, SET, "x")],
        "not a number": [(LIMIT, SET, "x")],
        "below": [(LIMIT, SET, "-1")],
        "no boolean": [("log.preallocate", SET, "perhaps")],
        "no word of the list": [("log.cleanup.policy", SET, "shred")],
        "no word": [("compression.type", SET, "rar")],
        "no ratio": [("log.cleaner.min.cleanable.ratio", SET, "2")],
        "a segment too small": [("log.segment.bytes", SET, "1")],
        "retention": [("log.retention.ms", SET, "-2")],
        "no retention": [("log.retention.ms", SET, "0")],
        "retention, no number": [("log.retention.ms", SET, "soon")],
        "roll": [("log.roll.ms", SET, "0")],
        "jitter": [("log.roll.jitter.ms", SET, "-1")],
        "interval": [("group.consumer.assignment.interval.ms", SET, "-1")],
        "cleaner": [("log.cleaner.dedupe.buffer.size", SET, "1")],
        "many threads": [("background.threads", SET, "100")],
        "no threads": [("background.threads", SET, "0")],
        "few threads": [("background.threads", SET, "1")],
        "negative rate": [("leader.replication.throttled.rate", SET, "-1")],
        "security": [("ssl.keystore.location", SET, "/x")],
        "null": [(LIMIT, SET, None)],
        "twice": [(LIMIT, SET, "1"), (LIMIT, SET, "2")],
        "operation 4": [(LIMIT, 4, "1")],
        "append to a number": [(LIMIT, APPEND, "1")],
        "subtract from a number": [(LIMIT, SUBTRACT, "1")],
        "append to no config": [("no.such.config", APPEND, "1")],
        "append to a limit": [("leader.replication.throttled.rate", APPEND, "1")],
        "append what is no policy": [("log.cleanup.policy", APPEND, "shred")],
        "a good and a bad one": [(LIMIT, SET, "2000"), ("log.preallocate", SET, "perhaps")],
        "a reporter that is not there": [("metric.reporters", SET, "no.such.Class")],
        "no log directory": [("cordoned.log.dirs", SET, "/nowhere")],
        "min.insync.replicas": [("min.insync.replicas", SET, "2")],
        "min.insync.replicas deleted": [("min.insync.replicas", DELETE, None)],
    }
    for label, changes in refused.items():
        for name, who in ((me, "one"), (ALL, "all")):
            if (label, who) != ("min.insync.replicas", "all"):
                w.alter(BROKER, name, changes, worded=True, label=f"{label}, {who}")
    w.alter(BROKER, me, [(LIMIT, SET, "x")], validate_only=True, worded=True, label="only validated")
    w.alter(BROKER, "77", [(LIMIT, SET, "x")], worded=True, label="another broker")
    w.alter(BROKER, "one", [(LIMIT, SET, "x")], worded=True, label="no number")
    w.alter(BROKER, me, [(LIMIT, SET, "2000")], times=2, worded=True, label="named twice")
    w.until_set(BROKER, me, LIMIT, "1048588", label="nothing changed")
    w.until_set(TOPIC, w.topic().name, "retention.ms", "-1", label="a negative retention is none")
    w.alter(BROKER, me, [("log.retention.ms", DELETE, None)], label="no longer one")
    w.alter(BROKER, ALL, [("log.retention.ms", DELETE, None)], label="no longer all")


@case("KIP-966", restarts=True)
def in_sync_replicas_of_all_brokers(w: World) -> None:
    """min.insync.replicas can be set for all brokers, and not be deleted."""
    topic = w.topic()
    w.alter(BROKER, ALL, [("min.insync.replicas", SET, "2")], worded=True, label="set")
    w.until_set(BROKER, ALL, "min.insync.replicas", "2", label="is set")
    w.until_set(TOPIC, topic.name, "min.insync.replicas", "2", label="of a topic")
    w.replace_configs(BROKER, ALL, {}, worded=True, label="replaced by nothing")
    w.replace_configs(BROKER, ALL, {"min.insync.replicas": "1"}, worded=True, label="replaced")
    w.until_set(BROKER, ALL, "min.insync.replicas", "1", label="is set again")


@case("KIP-226", restarts=True)
def lists_of_brokers(w: World) -> None:
    """Lists grow from their default, and shrink."""
    me, policy = str(w.nodes[0]), "log.cleanup.policy"
    w.alter(BROKER, me, [(policy, APPEND, "compact")], worded=True, label="append")
    w.until_set(BROKER, me, policy, "delete,compact", label="is appended")
    w.alter(BROKER, me, [(policy, SUBTRACT, "delete")], worded=True, label="subtract")
    w.until_set(BROKER, me, policy, "compact", label="is subtracted")
    w.alter(BROKER, me, [(policy, DELETE, None)], worded=True, label="delete")
    w.until_set(BROKER, me, policy, "delete", label="is deleted")


@case("KIP-226", restarts=True)
def replaced_at_once(w: World) -> None:
    """AlterConfigs replaces all dynamic configs of a broker, of a group and of a subscription."""
    me, group, metrics = str(w.nodes[0]), w.group(), w.fresh_name()
    w.alter(BROKER, me, [("log.cleaner.backoff.ms", SET, "16000")], label="before")
    w.replace_configs(BROKER, me, {LIMIT: "2000"}, worded=True, label="one broker")
    w.until_set(BROKER, me, LIMIT, "2000", label="one broker is set")
    w.until_set(BROKER, me, "log.cleaner.backoff.ms", "15000", label="what was set before")
    w.replace_configs(BROKER, me, {"broker.id": "2"}, worded=True, label="static")
    w.replace_configs(BROKER, me, {LIMIT: "x"}, worded=True, label="bad")
    w.replace_configs(BROKER, me, {LIMIT: None}, worded=True, label="null")
    w.replace_configs(BROKER, "77", {LIMIT: "1"}, worded=True, label="another broker")
    w.replace_configs(BROKER, me, {}, worded=True, label="nothing left")
    w.until_set(BROKER, me, LIMIT, "1048588", label="one broker is not set")
    w.replace_configs(GROUP, group, {"consumer.session.timeout.ms": "50000"}, worded=True, label="group")
    w.until_set(GROUP, group, "consumer.session.timeout.ms", "50000", label="group is set")
    w.replace_configs(GROUP, group, {"consumer.session.timeout.ms": "1"}, worded=True, label="group, too short")
    w.replace_configs(GROUP, group, {}, worded=True, label="group, nothing")
    w.until_set(GROUP, group, "consumer.session.timeout.ms", "45000", label="group is not set")
    w.replace_configs(CLIENT_METRICS, metrics, {"interval.ms": "5000"}, worded=True, label="metrics")
    w.until_set(CLIENT_METRICS, metrics, "interval.ms", "5000", label="metrics is set")
    w.replace_configs(CLIENT_METRICS, metrics, {}, worded=True, label="metrics, nothing")
    w.until_set(CLIENT_METRICS, metrics, "interval.ms", "300000", label="metrics is not set")
    w.replace_configs(BROKER_LOGGER, me, {"kafka": "INFO"}, worded=True, label="loggers")


@case("KIP-848")
def configs_of_groups(w: World) -> None:
    """Any name of a group has configs: its own, then the broker's."""
    group = w.group()
    w.describe_configs(GROUP, group, names_only=True, label="names")
    keys = ["consumer.session.timeout.ms", "share.auto.offset.reset", "share.renew.acknowledge.enable", "streams.num.standby.replicas"]
    w.describe_configs(GROUP, group, keys=keys, synonyms=True, label="without its own")
    w.describe_configs(GROUP, ALL, label="no name")
    values = {
        "consumer.session.timeout.ms": "50000",
        "consumer.heartbeat.interval.ms": "6000",
        "consumer.assignment.interval.ms": "1500",
        "share.session.timeout.ms": "46000",
        "share.heartbeat.interval.ms": "7000",
        "share.record.lock.duration.ms": "20000",
        "share.delivery.count.limit": "3",
        "share.partition.max.record.locks": "300",
        "share.auto.offset.reset": "earliest",
        "share.isolation.level": "read_committed",
        "share.renew.acknowledge.enable": "false",
        "share.assignment.interval.ms": "1500",
        "streams.session.timeout.ms": "46000",
        "streams.heartbeat.interval.ms": "7000",
        "streams.num.standby.replicas": "1",
        "streams.initial.rebalance.delay.ms": "100",
        "streams.assignment.interval.ms": "1500",
    }
    w.alter(GROUP, group, [(name, SET, value) for name, value in values.items()], worded=True, label="set")
    for name, value in values.items():
        if name not in ("consumer.assignment.interval.ms", "share.assignment.interval.ms"):  # whose defaults differ
            w.until_set(GROUP, group, name, value, label=name)
    w.alter(GROUP, group, [(name, DELETE, None) for name in values], worded=True, label="deleted")
    w.until_set(GROUP, group, "consumer.session.timeout.ms", "45000", label="is deleted")


@case("KIP-848")
def changes_of_groups_that_are_refused(w: World) -> None:
    """Unknown names, values that no group can have, and values that the brokers do not allow."""
    group = w.group()
    refused: dict[str, Sequence[Change]] = {
        "unknown": [("no.such.config", SET, "1")],
        "of topics": [("retention.ms", SET, "1")],
        "no number": [("consumer.session.timeout.ms", SET, "x")],
        "below all": [("consumer.session.timeout.ms", SET, "0")],
        "below the bound": [("consumer.session.timeout.ms", SET, "44999")],
        "above the bound": [("consumer.session.timeout.ms", SET, "60001")],
        "heartbeat below": [("consumer.heartbeat.interval.ms", SET, "4999")],
        "heartbeat above": [("consumer.heartbeat.interval.ms", SET, "15001")],
        "assignment above": [("consumer.assignment.interval.ms", SET, "15001")],
        "assignment below": [("consumer.assignment.interval.ms", SET, "-1")],
        "locks below": [("share.record.lock.duration.ms", SET, "14999")],
        "locks above": [("share.record.lock.duration.ms", SET, "60001")],
        "locks, far below": [("share.record.lock.duration.ms", SET, "1")],
        "deliveries below": [("share.delivery.count.limit", SET, "1")],
        "deliveries above": [("share.delivery.count.limit", SET, "11")],
        "many locks": [("share.partition.max.record.locks", SET, "4001")],
        "reset": [("share.auto.offset.reset", SET, "somewhere")],
        "reset by no duration": [("share.auto.offset.reset", SET, "by_duration:1h")],
        "isolation": [("share.isolation.level", SET, "read_all")],
        "renew": [("share.renew.acknowledge.enable", SET, "perhaps")],
        "standbys": [("streams.num.standby.replicas", SET, "3")],
        "null": [("consumer.session.timeout.ms", SET, None)],
        "twice": [("consumer.session.timeout.ms", SET, "50000"), ("consumer.session.timeout.ms", SET, "50001")],
        "append": [("consumer.session.timeout.ms", APPEND, "1")],
        "append to no config": [("no.such.config", APPEND, "1")],
        "operation 4": [("consumer.session.timeout.ms", 4, "1")],
        "a good and a bad one": [("consumer.session.timeout.ms", SET, "50000"), ("consumer.heartbeat.interval.ms", SET, "1")],
    }
    for label, changes in refused.items():
        w.alter(GROUP, group, changes, worded=True, label=label)
    w.alter(GROUP, ALL, [("consumer.session.timeout.ms", SET, "50000")], worded=True, label="no name")
    w.alter(GROUP, group, [("consumer.session.timeout.ms", SET, "50000")], validate_only=True, worded=True, label="only validated")
    w.alter(GROUP, group, [("share.auto.offset.reset", SET, "by_duration:PT1H")], validate_only=True, worded=True, label="a duration")
    w.alter(GROUP, group, [], worded=True, label="nothing")
    w.until_set(GROUP, group, "consumer.session.timeout.ms", "45000", label="nothing changed")


@case("KIP-848")
def a_group_obeys_its_configs(w: World) -> None:
    """A member is told the group's own heartbeat interval."""
    topic, group = w.topic(), w.group()
    member = w.consumer(group, "m1", topic)
    member.join(label="joins")
    w.alter(GROUP, group, [("consumer.heartbeat.interval.ms", SET, "6000")], worded=True, label="set")
    w.until_set(GROUP, group, "consumer.heartbeat.interval.ms", "6000", label="is set")
    member.beat(label="lives")
    member.leave(label="leaves")


@case("KIP-714")
def configs_of_client_metrics(w: World) -> None:
    """A subscription has metrics, an interval and a match. Any name has them."""
    name = w.fresh_name()
    w.describe_configs(CLIENT_METRICS, name, synonyms=True, label="without its own")
    w.describe_configs(CLIENT_METRICS, ALL, label="no name")
    changes = [("metrics", SET, "org.apache.kafka.consumer., org.apache.kafka.producer."), ("interval.ms", SET, "5000")]
    w.alter(CLIENT_METRICS, name, [*changes, ("match", SET, "client_id=x.*,client_software_name=java")], worded=True, label="set")
    w.until_set(CLIENT_METRICS, name, "interval.ms", "5000", label="is set")
    w.describe_configs(CLIENT_METRICS, name, synonyms=True, label="described")
    for operation, how in ((APPEND, "append"), (SUBTRACT, "subtract")):
        for config in ("metrics", "match", "no.such.config"):
            w.alter(CLIENT_METRICS, name, [(config, operation, "client_id=x.*")], worded=True, label=f"{how} {config}")
    w.alter(CLIENT_METRICS, name, [(each, DELETE, None) for each in ("metrics", "interval.ms", "match")], worded=True, label="deleted")
    w.until_set(CLIENT_METRICS, name, "interval.ms", "300000", label="is deleted")


@case("KIP-714")
def changes_of_client_metrics_that_are_refused(w: World) -> None:
    """Unknown names, intervals out of range, and patterns that are none."""
    name = w.fresh_name()
    refused: dict[str, Sequence[Change]] = {
        "unknown": [("no.such.config", SET, "1")],
        "no number": [("interval.ms", SET, "x")],
        "short": [("interval.ms", SET, "99")],
        "long": [("interval.ms", SET, "3600001")],
        "no pattern": [("match", SET, "client_id")],
        "no selector": [("match", SET, "client_name=x")],
        "no value": [("match", SET, "client_id=")],
        "two values": [("match", SET, "client_id=a=b")],
        "no expression": [("match", SET, "client_id=[")],
        "metrics twice": [("metrics", SET, "a,a")],
        "empty metric": [("metrics", SET, "a,,b")],
        "null": [("metrics", SET, None)],
        "append to a number": [("interval.ms", APPEND, "1")],
        "operation 4": [("metrics", 4, "a")],
    }
    for label, changes in refused.items():
        w.alter(CLIENT_METRICS, name, changes, worded=True, label=label)
    w.alter(CLIENT_METRICS, ALL, [("interval.ms", SET, "5000")], worded=True, label="no name")
    w.alter(CLIENT_METRICS, name, [("metrics", SET, "")], validate_only=True, worded=True, label="no metrics")
    w.alter(CLIENT_METRICS, name, [("metrics", SET, "*")], validate_only=True, worded=True, label="all metrics")
    w.until_set(CLIENT_METRICS, name, "interval.ms", "300000", label="nothing changed")


@case("KIP-412")
def loggers_of_a_broker(w: World) -> None:
    """Loggers that are not there, and operations that loggers do not have."""
    me, unknown = str(w.nodes[0]), "no.such.logger"
    refused: dict[str, Sequence[Change]] = {
        "set": [(unknown, SET, "INFO")],
        "set to no level": [(unknown, SET, "LOUD")],
        "delete": [(unknown, DELETE, None)],
        "append": [(unknown, APPEND, "INFO")],
        "subtract": [(unknown, SUBTRACT, "INFO")],
        "operation 4": [(unknown, 4, "INFO")],
        "null": [(unknown, SET, None)],
        "nothing": [],
    }
    for label, changes in refused.items():
        w.alter(BROKER_LOGGER, me, changes, worded=True, label=label)
    for name in (ALL, "77", "one"):
        w.alter(BROKER_LOGGER, name, [(unknown, SET, "INFO")], worded=True, label=f"at {name or 'all'}")


@case(guarded=True)
def permissions_to_change_them(w: World) -> None:
    """ALTER_CONFIGS on the cluster, or on the group. A broker says what is wrong with its configs before that."""
    w.no_acls()
    me, group, name = str(w.nodes[0]), w.group(), w.fresh_name()
    for kind, resource, (config, good, bad), held in (
        (BROKER, me, (LIMIT, "2000", "x"), on_cluster(Operation.ALTER_CONFIGS)),
        (GROUP, group, ("consumer.session.timeout.ms", "50000", "1"), on_group(group, Operation.ALTER_CONFIGS)),
        (CLIENT_METRICS, name, ("interval.ms", "5000", "1"), on_cluster(Operation.ALTER_CONFIGS)),
        (BROKER_LOGGER, me, ("no.such.logger", "INFO", "LOUD"), on_cluster(Operation.ALTER_CONFIGS)),
    ):
        for value, how in ((good, "good"), (bad, "bad")):
            changes = [incremental_configs.AlterableConfig(name=config, value=value)]
            targets = [incremental_configs.AlterConfigsResource(resource_type=kind, resource_name=resource, configs=changes)]
            request = incremental_configs.IncrementalAlterConfigsRequest(resources=targets, validate_only=True)
            each_holding(w, request, 1, held, what=f"type {kind}, {how}")
    for kind, resource in ((GROUP, group), (CLIENT_METRICS, name)):
        asked = [configs.DescribeConfigsResource(resource_type=kind, resource_name=resource, configuration_keys=["none"])]
        request_to_describe = configs.DescribeConfigsRequest(resources=asked)
        sets = on_group(group, Operation.DESCRIBE_CONFIGS) if kind == GROUP else on_cluster(Operation.DESCRIBE_CONFIGS)
        each_holding(w, request_to_describe, 4, sets, what=f"describe type {kind}")


@case("KIP-226", restarts=True)
def junk_for_brokers(w: World) -> None:
    """Numbers as only Java writes or reads them, limits that depend on each other, and lists of nothing. Nothing is changed."""
    me = str(w.nodes[0])
    ratio, overrides = "log.cleaner.min.cleanable.ratio", "max.connections.per.ip.overrides"
    junk: dict[str, Sequence[str]] = {
        ratio: ("1d", "0.5f", "0x1p-1", "0x1p3", "1_000", "9223372036854775807", "-2147483649", "1e-5", "-1e-5", "NaN", "-Infinity", ".5."),
        "log.cleaner.io.max.bytes.per.second": ("1_000", "1e3f", "d", "Infinityf"),
        overrides: ("", "127.0.0.1:5", "127.0.0.1:5 , ::1:6", "127.0.0.1", "a:", "a:x", ":1", ",", "a:1.5"),
        "max.connection.creation.rate": ("0", "1"),
        "remote.log.manager.follower.thread.pool.size": ("0", "1", "4", "5"),
        "remote.log.reader.threads": ("4", "21"),
        "log.local.retention.ms": ("-2", "-1", "604800000", "604800001"),
        "log.local.retention.bytes": ("-1", "5"),
        "log.cleaner.threads": ("-1", "0", "2"),
    }
    for kind in ("consumer", "share", "streams"):
        junk[f"group.{kind}.assignment.interval.ms"] = ("15000", "15001")
    for name, values in junk.items():
        for value in values:
            w.alter(BROKER, me, [(name, SET, value)], worded=True, validate_only=True, label=f"{name} {value!r}")
    for operation in (APPEND, SUBTRACT):
        for name in ("advertised.listeners", "log.dirs", "broker.id"):
            w.alter(BROKER, me, [(name, operation, "x")], worded=True, validate_only=True, label=f"{name} {operation}")
        for value in ("a,,b", ",,", ",delete", ""):
            w.alter(BROKER, me, [("log.cleanup.policy", operation, value)], worded=True, validate_only=True, label=f"{operation} {value!r}")
    w.alter(BROKER, me, [(ratio, SET, "0x1p-1d")], worded=True, label="half, in hexadecimal")
    w.describe_configs(BROKER, me, keys=[ratio], synonyms=True, label="half, described")
    w.alter(BROKER, me, [(ratio, DELETE, None)], worded=True, label="half, deleted")


@case("KIP-848")
def junk_for_topics_and_groups(w: World) -> None:
    """Values with blanks around them, numbers as only Java reads them, and lists with nothing in them. Nothing is changed."""
    topic, group = w.topic().name, w.group()
    junk: dict[str, Sequence[str]] = {
        "min.cleanable.dirty.ratio": ("1d", "0.5f", "0x1p-1", "0x1p3", "1_000", "2147483648", "NaN"),
        "cleanup.policy": ("a,,b", "delete,,a", ","),
        "leader.replication.throttled.replicas": (",", "0:1,", "0:1,,1:2", "0:1:2", "\u0660:1", "*,0:1"),
    }
    for name, values in junk.items():
        for value in values:
            w.alter(TOPIC, topic, [(name, SET, value)], worded=True, validate_only=True, label=f"{name} {value!r}")
    for value in (" latest ", " 5 ", "by_duration:PT1H ", ""):
        change = ("share.auto.offset.reset", SET, value)
        w.alter(GROUP, group, [change], worded=True, validate_only=True, label=f"group {value!r}")
    w.alter(TOPIC, topic, [("cleanup.policy", APPEND, ",,")], worded=True, label="commas appended")
    w.alter(TOPIC, topic, [("min.cleanable.dirty.ratio", SET, "0x1p-1d")], worded=True, label="half, in hexadecimal")
    w.describe_configs(TOPIC, topic, keys=["min.cleanable.dirty.ratio", "cleanup.policy"], label="described")
