"""The configs of groups and of client metrics subscriptions as DescribeConfigs shows them: value, source, synonyms, and type.

It changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from fencepost.broker_stub.cluster.broker import Broker
from fencepost.broker_stub.cluster.cluster import Cluster
from fencepost.broker_stub.configs.client_metrics_configs import CLIENT_METRICS_CONFIGS
from fencepost.broker_stub.configs.group_configs import GROUP_CONFIGS, default_of
from fencepost.broker_stub.configs.resource_types import ResourceType
from fencepost.broker_stub.configs.topic_configs import BROKER_CONFIGS
from fencepost.broker_stub.configs.types import Type, formed
from fencepost.broker_stub.handlers.config_entries import Source, broker_synonyms
from fencepost.producer.wire.messages.configs import DescribeConfigsResourceResult, DescribeConfigsSynonym


def group_entries(cluster: Cluster, broker: Broker, group: str) -> list[DescribeConfigsResourceResult]:
    """Every config of the group, as that broker knows it. The group need not exist."""
    own = cluster.dynamic_configs.of(ResourceType.GROUP, group)
    entries = []
    for name, defined in sorted(GROUP_CONFIGS.items()):
        value = formed(defined.kind, own.get(name, default_of(name, cluster.config, broker.node_id)))
        synonyms = _own(own, name, value, Source.GROUP)
        if defined.broker is None:
            synonyms.append(DescribeConfigsSynonym(name=name, value=defined.default, source=Source.DEFAULT))
        elif defined.broker in BROKER_CONFIGS:
            synonyms += broker_synonyms(cluster, defined.broker, broker.node_id)
        else:
            synonyms.append(DescribeConfigsSynonym(name=defined.broker, value=defined.default, source=Source.DEFAULT))
        entries.append(_entry(name, value, defined.kind, synonyms))
    return entries


def client_metrics_entries(cluster: Cluster, name: str) -> list[DescribeConfigsResourceResult]:
    """Every config of the subscription. It need not exist."""
    own = cluster.dynamic_configs.of(ResourceType.CLIENT_METRICS, name)
    entries = []
    for config, defined in sorted(CLIENT_METRICS_CONFIGS.items()):
        value = formed(defined.kind, own.get(config, defined.default))
        entries.append(_entry(config, value, defined.kind, _own(own, config, value, Source.CLIENT_METRICS)))
    return entries


def _own(own: Mapping[str, str], name: str, value: str, source: Source) -> list[DescribeConfigsSynonym]:
    return [DescribeConfigsSynonym(name=name, value=value, source=source)] if name in own else []


def _entry(name: str, value: str, kind: Type, synonyms: list[DescribeConfigsSynonym]) -> DescribeConfigsResourceResult:
    source = synonyms[0].source if synonyms else Source.DEFAULT
    return DescribeConfigsResourceResult(
        name=name, value=value, config_source=source, synonyms=synonyms, config_type=kind, documentation=None
    )
