"""ListConfigResources (KIP-714, KIP-1142)."""

from __future__ import annotations

from fencepost.broker_stub.security.operations import Operation
from fencepost.producer.wire.messages.config_resources import ListConfigResourcesRequest
from tests.conformance.asks_configs import CLIENT_METRICS, DELETE, GROUP, SET
from tests.conformance.holding import each_holding, on_cluster
from tests.conformance.world import World, case


@case("KIP-1142")
def resources_with_configs(w: World) -> None:
    """Groups and subscriptions while they have configs, brokers, their loggers, and topics."""
    topic, group, metrics = w.topic().name, w.group(), w.fresh_name()
    only = (topic, group, metrics)
    w.list_resources(only=only, label="before")
    w.alter(GROUP, group, [("consumer.session.timeout.ms", SET, "50000")], label="group set")
    w.alter(CLIENT_METRICS, metrics, [("interval.ms", SET, "5000")], label="metrics set")
    w.until_set(CLIENT_METRICS, metrics, "interval.ms", "5000", label="metrics are set")
    w.list_resources(only=only, version=0, label="v0")
    w.list_resources(only=only, label="all")
    for kind in (2, 4, 8, 16, 32, 0, 1, 64, -1):
        w.list_resources(kind, only=only, label=f"type {kind}")
    w.list_resources(2, 32, only=only, label="types 2 and 32")
    w.list_resources(2, 99, only=only, label="types 2 and 99")
    w.alter(GROUP, group, [("consumer.session.timeout.ms", DELETE, None)], label="group deleted")
    w.alter(CLIENT_METRICS, metrics, [("interval.ms", DELETE, None)], label="metrics deleted")
    w.until_set(CLIENT_METRICS, metrics, "interval.ms", "300000", label="metrics are deleted")
    w.list_resources(only=only, label="after")


@case(guarded=True)
def permissions_to_list_them(w: World) -> None:
    """DESCRIBE_CONFIGS on the cluster."""
    w.no_acls()
    for version in range(2):
        request = ListConfigResourcesRequest(resource_types=[CLIENT_METRICS] if version else [])
        each_holding(w, request, version, on_cluster(Operation.DESCRIBE), on_cluster(Operation.DESCRIBE_CONFIGS), what=f"v{version}")
