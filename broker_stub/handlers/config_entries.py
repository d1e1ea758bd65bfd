"""The configs of topics and brokers as DescribeConfigs shows them: value, source, synonyms, and type.

It changes nothing.
"""

from __future__ import annotations

from enum import IntEnum

from fencepost.broker_stub.cluster.broker import Broker
from fencepost.broker_stub.cluster.cluster import Cluster
from fencepost.broker_stub.cluster.topics import Topic
from fencepost.broker_stub.configs.described_configs import COARSER, OTHERS
from fencepost.broker_stub.configs.group_configs import GROUP_CONFIGS
from fencepost.broker_stub.configs.topic_configs import AUTHORIZER_CONFIGS, BROKER_CONFIGS, INTERNAL_CONFIGS, TOPIC_CONFIGS
from fencepost.broker_stub.configs.types import Type, in_kafkas_form, type_of
from fencepost.broker_stub.network.addresses import spelled
from fencepost.producer.wire.messages.configs import DescribeConfigsResourceResult, DescribeConfigsSynonym


class Source(IntEnum):
    """Kafka's ConfigSource."""

    TOPIC = 1
    GROUP = 8
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


MIN_ISR = "min.insync.replicas"  # Kafka's controller sets it for the whole cluster when a cluster is formatted, as part of KIP-966


# Topic configs whose default comes from no broker config.
_WITHOUT_BROKER = frozenset(name for name in TOPIC_CONFIGS if name.startswith("remote.") or name.endswith(".throttled.replicas"))

_BROKER_TYPES = {
    "authorizer.class.name": Type.STRING,
    "auto.create.topics.enable": Type.BOOLEAN,
    "connections.max.idle.ms": Type.LONG,
    "delete.topic.enable": Type.BOOLEAN,
    "group.consumer.assignors": Type.LIST,
    "group.consumer.migration.policy": Type.STRING,
    "log.retention.check.interval.ms": Type.LONG,
    "offsets.retention.check.interval.ms": Type.LONG,
    "offsets.topic.replication.factor": Type.SHORT,
    "replica.lag.time.max.ms": Type.LONG,
    "share.coordinator.state.topic.min.isr": Type.SHORT,
    "share.coordinator.state.topic.replication.factor": Type.SHORT,
    "transaction.partition.verification.enable": Type.BOOLEAN,
    "transaction.state.log.replication.factor": Type.SHORT,
    "transaction.two.phase.commit.enable": Type.BOOLEAN,
    "unclean.leader.election.interval.ms": Type.LONG,
    "unstable.api.versions.enable": Type.BOOLEAN,
}  # the others are INT
# Broker configs that can be changed while the broker runs, besides the topics' defaults.
_CHANGEABLE = frozenset(
    (
        "group.consumer.assignment.interval.ms",
        "group.share.assignment.interval.ms",
        "max.connections",
        "max.connections.per.ip",
        "producer.id.expiration.ms",
        "transaction.partition.verification.enable",
    )
)


def topic_entries(cluster: Cluster, topic: Topic) -> list[DescribeConfigsResourceResult]:
    """Every config of the topic."""
    return [_topic_entry(cluster, topic, name) for name in sorted(TOPIC_CONFIGS)]


def broker_entries(cluster: Cluster, broker: Broker) -> list[DescribeConfigsResourceResult]:
    """The configs of one broker that a client may describe."""
    config = cluster.config
    advertised, listener = (f"PLAINTEXT://{spelled(host, broker.port)}" for host in (broker.host, broker.listens_on or broker.host))
    own = {
        "advertised.listeners": advertised,
        "broker.id": str(broker.node_id),
        "listeners": listener,
        "log.dirs": ",".join(each.path for each in broker.logs.dirs),
        "node.id": str(broker.node_id),
    }
    entries = [_entry(name, [_synonym(name, value, Source.STATIC_BROKER)], _own_type(name), read_only=True) for name, value in own.items()]
    for topic_name, definition in TOPIC_CONFIGS.items():
        if topic_name not in _WITHOUT_BROKER:
            entries.append(_entry(definition.broker, _broker_synonyms(cluster, topic_name), type_of(topic_name)))
            entries += [
                _entry(name, [_synonym(name, value, Source.DEFAULT)] if value is not None else [], kind, read_only=True)
                for name, value, kind in COARSER.get(definition.broker, ())
            ]
    for name, definition in BROKER_CONFIGS.items():
        if name in AUTHORIZER_CONFIGS or name in INTERNAL_CONFIGS - config.given.keys():
            continue
        synonyms = [_synonym(name, config.given[name], Source.STATIC_BROKER)] if name in config.given else []
        synonyms.append(_synonym(name, definition.default, Source.DEFAULT))
        entries.append(_entry(name, synonyms, _BROKER_TYPES.get(name, Type.INT), read_only=name not in _CHANGEABLE))
    for name, (value, kind) in OTHERS.items():
        entries.append(_entry(name, [_synonym(name, value, Source.DEFAULT)], kind, read_only=name not in _CHANGEABLE))
    return sorted(entries, key=lambda entry: entry.name)


def cluster_entries(cluster: Cluster) -> list[DescribeConfigsResourceResult]:
    """The configs that are set for all brokers at once."""
    if not cluster.release.differs.cluster_min_isr:
        return []
    return [_entry(MIN_ISR, _broker_synonyms(cluster, MIN_ISR)[:1], type_of(MIN_ISR))]


def group_entries(cluster: Cluster, group_id: str) -> list[DescribeConfigsResourceResult]:
    """Every config of the group, whether there is such a group or not."""
    return [_group_entry(cluster, group_id, name) for name in sorted(GROUP_CONFIGS)]


def _group_entry(cluster: Cluster, group_id: str, name: str) -> DescribeConfigsResourceResult:
    definition, config = GROUP_CONFIGS[name], cluster.config
    own = cluster.group_configs.of(group_id)
    synonyms = [_synonym(name, own[name].strip(), Source.GROUP)] if name in own else []
    broker = definition.broker
    if broker is None:
        synonyms.append(_synonym(name, definition.default, Source.DEFAULT))
    else:
        if broker in config.given:
            synonyms.append(_synonym(broker, config.given[broker], Source.STATIC_BROKER))
        default = BROKER_CONFIGS[broker].default if broker in BROKER_CONFIGS else definition.default
        synonyms.append(_synonym(broker, default, Source.DEFAULT))
    return DescribeConfigsResourceResult(
        name=name,
        value=cluster.group_configs.value(group_id, name),
        config_source=synonyms[0].source,
        synonyms=synonyms,
        config_type=definition.kind,
        documentation=None,
    )


def _topic_entry(cluster: Cluster, topic: Topic, name: str) -> DescribeConfigsResourceResult:
    value = in_kafkas_form(name, topic.config[name], once=cluster.release.differs.lists_have_words_once)
    synonyms = [_synonym(name, value, Source.TOPIC)] if name in topic.overrides else []
    if name not in _WITHOUT_BROKER:
        synonyms += _broker_synonyms(cluster, name)
    return DescribeConfigsResourceResult(
        name=name,
        value=value,
        config_source=synonyms[0].source if synonyms else Source.DEFAULT,
        synonyms=synonyms,
        config_type=type_of(name),
        documentation=None,
    )


def _broker_synonyms(cluster: Cluster, topic_config: str) -> list[DescribeConfigsSynonym]:
    """The broker configs from which a topic config has its default."""
    name, given = TOPIC_CONFIGS[topic_config].broker, cluster.config.given
    value = given.get(name, given.get(topic_config))
    synonyms = [_synonym(name, value, Source.STATIC_BROKER)] if value is not None else []
    if name == MIN_ISR and cluster.release.differs.cluster_min_isr:
        in_force = value if value is not None else cluster.config.kafka_default(MIN_ISR)
        synonyms.insert(0, _synonym(name, in_force, Source.DYNAMIC_DEFAULT_BROKER))
    if name not in COARSER:
        synonyms.append(_synonym(name, cluster.config.kafka_default(topic_config), Source.DEFAULT))
    elif value is not None:
        synonyms += [_synonym(each, default, Source.DEFAULT) for each, default, _ in COARSER[name] if default is not None]
    return synonyms


def _entry(name: str, synonyms: list[DescribeConfigsSynonym], kind: Type, *, read_only: bool = False) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=name,
        value=synonyms[0].value if synonyms else None,
        read_only=read_only,
        config_source=synonyms[0].source if synonyms else Source.DEFAULT,
        synonyms=synonyms,
        config_type=kind,
        documentation=None,
    )


def _own_type(name: str) -> Type:
    return Type.INT if name.endswith(".id") else Type.LIST


def _synonym(name: str, value: str, source: Source) -> DescribeConfigsSynonym:
    return DescribeConfigsSynonym(name=name, value=value, source=source)
