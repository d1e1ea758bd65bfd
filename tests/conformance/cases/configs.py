"""DescribeConfigs, IncrementalAlterConfigs and AlterConfigs."""

from tests.conformance.asks_configs import APPEND, BROKER, DELETE, SET, SUBTRACT, TOPIC, Change
from tests.conformance.batches import Rec, plain
from tests.conformance.world import World, case


@case()
def every_topic_config(w: World) -> None:
    """Each config with value, source, type and synonyms, in every version."""
    topic = w.topic(config={"retention.ms": "1000", "cleanup.policy": "compact, delete", "preallocate": "TRUE"})
    for version in range(1, 5):
        w.describe_configs(TOPIC, topic.name, version=version, label=f"v{version}")
    w.describe_configs(TOPIC, topic.name, synonyms=True, label="with synonyms")


@case()
def some_topic_configs(w: World) -> None:
    """A request may name configs. The broker ignores unknown ones, and an empty list means all."""
    topic = w.topic()
    for label, keys in (("two", ["retention.ms", "cleanup.policy"]), ("unknown", ["no.such.config"]), ("none", [])):
        w.describe_configs(TOPIC, topic.name, keys=keys, names_only=True, label=label)


@case()
def topics_that_are_none(w: World) -> None:
    """Unknown topics, illegal names."""
    w.describe_configs(TOPIC, w.missing_topic().name, label="unknown")
    for name in ("", ".", "a b"):
        w.describe_configs(TOPIC, name, label=repr(name))


@case()
def some_broker_configs(w: World) -> None:
    """A broker describes its own configs and the cluster-wide defaults, but not another broker's."""
    keys = [
        "auto.create.topics.enable",
        "delete.topic.enable",
        "group.max.session.timeout.ms",
        "group.min.session.timeout.ms",
        "log.cleanup.policy",
        "log.flush.interval.ms",
        "log.message.timestamp.type",
        "log.retention.bytes",
        "log.retention.hours",
        "log.retention.minutes",
        "log.retention.ms",
        "log.roll.ms",
        "log.segment.bytes",
        "message.max.bytes",
        "min.insync.replicas",
        "num.partitions",
        "offset.metadata.max.bytes",
        "offsets.commit.timeout.ms",
        "offsets.retention.check.interval.ms",
        "offsets.retention.minutes",
        "producer.id.expiration.ms",
        "transaction.max.timeout.ms",
        "transaction.partition.verification.enable",
        "transaction.two.phase.commit.enable",
        "unclean.leader.election.enable",
        "unstable.api.versions.enable",
    ]
    me = str(w.nodes[0])
    w.describe_configs(BROKER, me, keys=keys, label="itself")
    w.describe_configs(BROKER, me, keys=keys, synonyms=True, label="itself, with synonyms")
    w.describe_configs(BROKER, "", label="all brokers")
    w.describe_configs(BROKER, "77", label="another")
    w.describe_configs(BROKER, "one", label="no number")


@case()
def configs_of_internal_topics(w: World) -> None:
    """The configs with which brokers create the coordinators' topics."""
    w.coordinator_of(w.group())
    w.begun()
    keys = ["cleanup.policy", "compression.type", "min.insync.replicas", "segment.bytes", "unclean.leader.election.enable"]
    for name in ("__consumer_offsets", "__transaction_state"):
        w.describe_configs(TOPIC, name, keys=keys, label=name)


@case()
def broker_configs_of_replication(w: World) -> None:
    """The defaults for topics and for the coordinators' topics."""
    keys = [
        "num.partitions",
        "offsets.topic.replication.factor",
        "transaction.state.log.min.isr",
        "transaction.state.log.replication.factor",
        "unclean.leader.election.interval.ms",
    ]
    w.describe_configs(BROKER, str(w.nodes[0]), keys=keys, synonyms=True, label="itself")


@case()
def other_resources(w: World) -> None:
    """Unknown resource types."""
    for kind in (0, 1, 3, 64):
        w.describe_configs(kind, "x", label=str(kind))
    w.describe_configs(8, "", label="8, empty name")
    w.describe_configs(8, "77", label="8, another broker")


@case()
def set_and_deleted(w: World) -> None:
    """A topic config is set, set again and deleted, in every version."""
    topic = w.topic()
    for version in range(2):
        w.alter(TOPIC, topic.name, [("retention.ms", SET, "5000")], version=version, label=f"v{version} set")
        w.until_config(topic, "retention.ms", "5000", label=f"v{version} is set")
        w.alter(TOPIC, topic.name, [("retention.ms", DELETE, None)], version=version, label=f"v{version} delete")
        w.until_config(topic, "retention.ms", "604800000", label=f"v{version} is deleted")
    w.alter(TOPIC, topic.name, [("retention.ms", DELETE, None)], label="delete what is not set")
    w.alter(TOPIC, topic.name, [("retention.ms", DELETE, "7")], label="delete with a value")
    w.alter(TOPIC, topic.name, [], label="nothing")


@case()
def appended_and_subtracted(w: World) -> None:
    """Lists grow and shrink. Other types refuse these operations."""
    topic = w.topic()
    w.alter(TOPIC, topic.name, [("cleanup.policy", APPEND, "compact")], label="append")
    w.until_config(topic, "cleanup.policy", "delete,compact", label="appended to the default")
    w.alter(TOPIC, topic.name, [("cleanup.policy", APPEND, "compact")], label="append again")
    w.alter(TOPIC, topic.name, [("cleanup.policy", SUBTRACT, "delete")], label="subtract")
    w.until_config(topic, "cleanup.policy", "compact", label="subtracted")
    w.alter(TOPIC, topic.name, [("cleanup.policy", SUBTRACT, "delete")], label="subtract what is not there")
    w.alter(TOPIC, topic.name, [("cleanup.policy", APPEND, "shred")], label="append what is no policy")
    for operation in (APPEND, SUBTRACT):
        w.alter(TOPIC, topic.name, [("retention.ms", operation, "1")], label=f"no list {operation}")
        w.alter(TOPIC, topic.name, [("no.such.config", operation, "1")], label=f"unknown {operation}")


@case()
def changes_that_are_refused(w: World) -> None:
    """Unknown names, bad values, nulls, duplicates. The broker applies no part of such a change."""
    topic = w.topic()
    refused: dict[str, list[Change]] = {
        "unknown name": [("no.such.config", SET, "1")],
        "bad value": [("retention.ms", SET, "soon")],
        "null": [("retention.ms", SET, None)],
        "null append": [("cleanup.policy", APPEND, None)],
        "twice": [("retention.ms", SET, "1"), ("retention.ms", SET, "2")],
        "a good and a bad one": [("retention.ms", SET, "77"), ("segment.bytes", SET, "1")],
        "contradiction": [("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "5")],
        "tiered storage": [("remote.storage.enable", SET, "true")],
        "operation 4": [("retention.ms", 4, "1")],
        "operation -1": [("retention.ms", -1, "1")],
    }
    for label, changes in refused.items():
        w.alter(TOPIC, topic.name, changes, label=label)
    w.alter(TOPIC, topic.name, [("retention.ms", SET, "1")], times=2, label="resource twice")
    w.alter(TOPIC, topic.name, [("retention.ms", SET, "77")], validate_only=True, label="only validated")
    w.alter(TOPIC, topic.name, [("retention.ms", SET, "soon")], validate_only=True, label="only validated, and bad")
    w.until_config(topic, "retention.ms", "604800000", label="nothing changed")


@case()
def resources_that_cannot_be_changed(w: World) -> None:
    """Unknown topics, illegal names, unknown types. The broker finds bad values before it finds an unknown topic."""
    missing = w.missing_topic().name
    for name, label in ((missing, "unknown"), ("", "empty"), ("a b", "illegal")):
        w.alter(TOPIC, name, [("retention.ms", SET, "1")], label=label)
        w.alter(TOPIC, name, [("retention.ms", SET, "soon")], label=f"{label}, bad value")
        w.alter(TOPIC, name, [], label=f"{label}, nothing")
    for kind in (0, 1, 3, 64):
        w.alter(kind, "x", [("retention.ms", SET, "1")], label=f"type {kind}")


@case()
def replaced_at_once(w: World) -> None:
    """AlterConfigs replaces all configs of a resource, in every version."""
    topic = w.topic(config={"retention.ms": "1000", "segment.ms": "2000"})
    for version in range(3):
        value = str(5000 + version)
        w.replace_configs(TOPIC, topic.name, {"retention.ms": value}, version=version, label=f"v{version}")
        w.until_config(topic, "retention.ms", value, label=f"v{version} is set")
    w.until_config(topic, "segment.ms", "604800000", label="what was not named")
    w.replace_configs(TOPIC, topic.name, {"retention.ms": "1"}, validate_only=True, label="only validated")
    w.replace_configs(TOPIC, topic.name, {"no.such.config": "1"}, label="unknown name")
    w.replace_configs(TOPIC, topic.name, {"retention.ms": "soon"}, label="bad value")
    w.replace_configs(TOPIC, topic.name, {"retention.ms": None}, label="null")
    w.replace_configs(TOPIC, w.missing_topic().name, {"retention.ms": "1"}, label="unknown topic")
    w.replace_configs(TOPIC, "", {}, label="empty name")
    w.replace_configs(64, "x", {}, label="unknown type")
    w.replace_configs(TOPIC, topic.name, {}, label="nothing left")
    w.until_config(topic, "retention.ms", "604800000", label="is the default again")


@case()
def a_log_obeys_what_was_changed(w: World) -> None:
    """The broker checks the next batch with the new configs."""
    topic = w.topic()
    big = plain(Rec(value=bytes(5000)))
    w.produce(big, topic, label="before")
    w.alter(TOPIC, topic.name, [("max.message.bytes", SET, "1000")], label="smaller batches")
    w.until_refused(big, topic, label="after")
    w.alter(TOPIC, topic.name, [("max.message.bytes", DELETE, None)], label="as before")
    w.until_config(topic, "max.message.bytes", "1048588", label="is the default again")


NUMBERS = ("x", "", "1.5", "-1", "-2", "0", " 7 ", "+7", "18", "2147483648", "99999999999999999999")
RATIOS = ("x", "", "1.5", "-1", "0.5", " 1 ")
WORDS = ("x", "", " gzip", "GZIP", "TRUE", " true ", "delete,", "delete,compact,x", "compact, compact", "CreateTime", "0:1", "0:1,x", "*")


@case()
def what_is_wrong_with_a_value(w: World) -> None:
    """The message says why the topic cannot have this value."""
    numbers: tuple[str, ...] = (
        "retention.ms",
        "retention.bytes",
        "segment.bytes",
        "segment.ms",
        "max.message.bytes",
        "min.insync.replicas",
    )
    numbers += ("compression.gzip.level", "compression.lz4.level", "local.retention.ms")
    words = ("cleanup.policy", "compression.type", "message.timestamp.type", "preallocate", "leader.replication.throttled.replicas", "nope")
    for names, values in ((numbers, NUMBERS), (("min.cleanable.dirty.ratio",), RATIOS), (words, WORDS)):
        for name in names:
            for value in values:
                w.tried(config={name: value}, label=f"{name}={value!r}")


@case()
def throttles_of_replicas(w: World) -> None:
    """kafka-reassign-partitions deletes them at its end, also those that are not set."""
    names = ("leader.replication.throttled.rate", "follower.replication.throttled.rate", "replica.alter.log.dirs.io.max.bytes.per.second")
    changes: list[Change] = [(name, DELETE, None) for name in names]
    for broker in (str(w.nodes[0]), "", "77", "one"):
        for version in range(2):
            w.alter(BROKER, broker, changes, version=version, label=f"v{version} at {broker or 'all'}")
    w.alter(BROKER, str(w.nodes[0]), changes[:1], validate_only=True, label="only validated")
    w.alter(BROKER, str(w.nodes[0]), [*changes, changes[0]], label="one twice")
    w.alter(BROKER, str(w.nodes[0]), [(names[0], DELETE, "5")], label="with a value")
    w.alter(BROKER, str(w.nodes[0]), [], label="nothing")
