"""The configs of topics and brokers as DescribeConfigs shows them: value, source, synonyms, and type.

It changes nothing. Those of groups and client metrics are in `group_config_entries`.
"""

from __future__ import annotations

from enum import IntEnum

from msgspec.structs import replace

from fencepost.broker_stub.cluster.broker import Broker
from fencepost.broker_stub.cluster.cluster import Cluster
from fencepost.broker_stub.cluster.topics import Topic
from fencepost.broker_stub.configs.described_configs import COARSER, OTHERS
from fencepost.broker_stub.configs.dynamic_broker_configs import DYNAMIC, DYNAMIC_ONLY, WITHOUT_BROKER, kind_of
from fencepost.broker_stub.configs.topic_configs import (
    ALL_BROKERS,
    AUTHORIZER_CONFIGS,
    BROKER_CONFIGS,
    CORDONED,
    INTERNAL_CONFIGS,
    TOPIC_CONFIGS,
)
from fencepost.broker_stub.configs.types import Type, formed, in_kafkas_form, type_of
from fencepost.broker_stub.network.addresses import spelled
from fencepost.producer.wire.messages.configs import DescribeConfigsResourceResult, DescribeConfigsSynonym


class Source(IntEnum):
    """Kafka's ConfigSource."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    CLIENT_METRICS = 7
    GROUP = 8


_BROKER_TYPES = {
    "authorizer.class.name": Type.STRING,
    "auto.create.topics.enable": Type.BOOLEAN,
    "connections.max.idle.ms": Type.LONG,
    "connections.max.reauth.ms": Type.LONG,
    "delete.topic.enable": Type.BOOLEAN,
    "group.consumer.assignors": Type.LIST,
    "group.consumer.migration.policy": Type.STRING,
    "log.retention.check.interval.ms": Type.LONG,
    "offsets.retention.check.interval.ms": Type.LONG,
    "offsets.topic.replication.factor": Type.SHORT,
    "replica.lag.time.max.ms": Type.LONG,
    "transaction.state.log.replication.factor": Type.SHORT,
    "transaction.two.phase.commit.enable": Type.BOOLEAN,
    "unclean.leader.election.interval.ms": Type.LONG,
    "unstable.api.versions.enable": Type.BOOLEAN,
}  # the others are INT, or in DYNAMIC


def topic_entries(cluster: Cluster, topic: Topic, broker: Broker) -> list[DescribeConfigsResourceResult]:
    """Every config of the topic, as that broker knows it."""
    in_force = cluster.config.of_topic(topic.overrides, broker.node_id)
    return [_topic_entry(cluster, topic, name, in_force[name], broker.node_id) for name in sorted(TOPIC_CONFIGS)]


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
        if topic_name not in WITHOUT_BROKER:
            entries.append(_entry(definition.broker, _broker_synonyms(cluster, topic_name, broker.node_id), type_of(topic_name)))
            entries += [
                _entry(name, [_synonym(name, value, Source.DEFAULT)] if value is not None else [], kind, read_only=True)
                for name, value, kind in COARSER.get(definition.broker, ())
            ]
    for name in BROKER_CONFIGS:
        if name in AUTHORIZER_CONFIGS or name in INTERNAL_CONFIGS - config.given.keys():
            continue
        kind = kind_of(name) or _BROKER_TYPES.get(name, Type.INT)
        entries.append(_entry(name, broker_synonyms(cluster, name, broker.node_id), kind, read_only=name not in DYNAMIC))
    for name, (value, kind) in OTHERS.items():
        entries.append(_entry(name, [_synonym(name, value, Source.DEFAULT)], kind, read_only=True))
    told = {entry.name for entry in entries}
    always = [CORDONED] if cluster.release.differs.directories_are_cordoned else []
    set_here = dict.fromkeys(name for which in (str(broker.node_id), ALL_BROKERS) for name in config.dynamic.get(which, {}))
    for name in dict.fromkeys([*always, *set_here]):
        if name not in told:
            synonyms = _dynamic_synonyms(cluster, name, broker.node_id)
            synonyms += [_synonym(name, DYNAMIC[name].default, Source.DEFAULT)] if name in DYNAMIC and name not in DYNAMIC_ONLY else []
            entries.append(_set_entry(name, synonyms))
    return sorted(entries, key=lambda entry: entry.name)


def cluster_entries(cluster: Cluster) -> list[DescribeConfigsResourceResult]:
    """The configs that are set for all brokers at once."""
    set_for_all = cluster.config.dynamic.get(ALL_BROKERS, {})
    return [_set_entry(name, [_synonym(name, value, Source.DYNAMIC_DEFAULT_BROKER)]) for name, value in sorted(set_for_all.items())]


def _topic_entry(cluster: Cluster, topic: Topic, name: str, value: str, node_id: int) -> DescribeConfigsResourceResult:
    value = in_kafkas_form(name, value, once=cluster.release.differs.lists_have_words_once)
    synonyms = [_synonym(name, value, Source.TOPIC)] if name in topic.overrides else []
    if name not in WITHOUT_BROKER:
        synonyms += _broker_synonyms(cluster, name, node_id)
    return DescribeConfigsResourceResult(
        name=name,
        value=value,
        config_source=synonyms[0].source if synonyms else Source.DEFAULT,
        synonyms=synonyms,
        config_type=type_of(name),
        documentation=None,
    )


def _broker_synonyms(cluster: Cluster, topic_config: str, node_id: int) -> list[DescribeConfigsSynonym]:
    """The broker configs from which a topic config has its default."""
    name, given = TOPIC_CONFIGS[topic_config].broker, cluster.config.given
    value = given.get(name, given.get(topic_config))
    synonyms = _dynamic_synonyms(cluster, name, node_id)
    synonyms += [_synonym(name, value, Source.STATIC_BROKER)] if value is not None else []
    if name not in COARSER:
        synonyms.append(_synonym(name, cluster.config.kafka_default(topic_config), Source.DEFAULT))
    elif synonyms:
        synonyms += [_synonym(each, default, Source.DEFAULT) for each, default, _ in COARSER[name] if default is not None]
    return synonyms


def broker_synonyms(cluster: Cluster, name: str, node_id: int) -> list[DescribeConfigsSynonym]:
    """The values of a broker's own config, in the order in which they count."""
    given = cluster.config.given
    synonyms = _dynamic_synonyms(cluster, name, node_id)
    synonyms += [_synonym(name, given[name], Source.STATIC_BROKER)] if name in given else []
    return [*synonyms, _synonym(name, BROKER_CONFIGS[name].default, Source.DEFAULT)]


def _dynamic_synonyms(cluster: Cluster, name: str, node_id: int) -> list[DescribeConfigsSynonym]:
    """What clients have set: on that broker, then on all."""
    sources = ((str(node_id), Source.DYNAMIC_BROKER), (ALL_BROKERS, Source.DYNAMIC_DEFAULT_BROKER))
    dynamic = cluster.config.dynamic
    return [_synonym(name, dynamic[which][name], source) for which, source in sources if name in dynamic.get(which, {})]


def _set_entry(name: str, synonyms: list[DescribeConfigsSynonym]) -> DescribeConfigsResourceResult:
    """A dynamic config. As in Kafka, one of an unknown name is secret, because it could be a password."""
    kind = kind_of(name)
    if kind is None:
        hidden = [replace(each, value=None) for each in synonyms]
        return replace(_entry(name, hidden, Type.UNKNOWN, read_only=True), is_sensitive=True)
    return _entry(name, synonyms, kind)


def _entry(name: str, synonyms: list[DescribeConfigsSynonym], kind: Type, *, read_only: bool = False) -> DescribeConfigsResourceResult:
    value = synonyms[0].value if synonyms else None
    if value is not None and synonyms[0].source == Source.DYNAMIC_BROKER:
        value = formed(kind, value)
    return DescribeConfigsResourceResult(
        name=name,
        value=value,
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
