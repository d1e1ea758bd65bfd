"""DescribeQuorum, UnregisterBroker and UpdateFeatures."""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.broker_stub.security.operations import Operation
from fencepost.producer.wire.messages.cluster_admin import FeatureUpdateKey, UnregisterBrokerRequest, UpdateFeaturesRequest
from fencepost.producer.wire.messages.quorum import DescribeQuorumRequest, PartitionData, TopicData
from tests.conformance.holding import each_holding, on_cluster
from tests.conformance.world import World, case

METADATA = ("__cluster_metadata", 0)
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


@case("KIP-595")
def the_quorum(w: World) -> None:
    """The leader, the voters and the observers, in every version, and partitions that are not the metadata's."""
    for version in range(3):
        w.describe_quorum(METADATA, version=version, label=f"v{version}")
        w.describe_quorum(("__cluster_metadata", 1), version=version, label=f"v{version}, another partition")
        w.describe_quorum(("no-topic", 0), version=version, label=f"v{version}, another topic")
    w.describe_quorum(label="nothing")
    w.describe_quorum(METADATA, ("no-topic", 0), label="both")


@case("KIP-595", brokers=3, restarts=True)
def a_quorum_of_three(w: World) -> None:
    """Each broker is a controller, too."""
    w.describe_quorum(METADATA, label="all are up")


@case("KIP-500", brokers=3, restarts=True)
def unregistered(w: World) -> None:
    """A stopped broker is forgotten, until it starts again. One that is not there is refused."""
    w.say(UnregisterBrokerRequest(broker_id=77), 0, label="unknown")
    w.say(UnregisterBrokerRequest(broker_id=-1), 0, label="negative")
    w.target.stop(3, clean=True)
    w.until_brokers({1: False, 2: False, 3: True})
    w.say(UnregisterBrokerRequest(broker_id=3), 0, label="unregistered")
    w.until_brokers({1: False, 2: False})
    w.say(UnregisterBrokerRequest(broker_id=3), 0, label="again")
    w.target.start(3)
    w.until_brokers({1: False, 2: False, 3: False})
    w.note_brokers(label="started again")


def updating(*updates: tuple[str, int, int], validate_only: bool = False) -> UpdateFeaturesRequest:
    """A request for these features, levels and upgrade types."""
    keys = [FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind) for name, level, kind in updates]
    return UpdateFeaturesRequest(feature_updates=keys, validate_only=validate_only)


@case("KIP-584", restarts=True)
def features_that_change(w: World) -> None:
    """Levels fall and rise, and ApiVersions names them."""
    w.say(updating(("transaction.version", 1, SAFE_DOWNGRADE)), 2, label="down")
    w.until_feature("transaction.version", 1)
    w.features_in_force(label="after it")
    w.say(updating(("transaction.version", 0, UNSAFE_DOWNGRADE)), 1, label="to nothing, v1")
    w.until_feature("transaction.version", 0)
    w.features_in_force(label="after that")
    w.say(updating(("transaction.version", 2, UPGRADE)), 2, label="up")
    w.until_feature("transaction.version", 2)
    w.say(updating(("group.version", 0, SAFE_DOWNGRADE), ("group.version", 1, UPGRADE)), 2, label="twice")
    w.say(updating(("transaction.version", 1, SAFE_DOWNGRADE), validate_only=True), 2, label="only validated")
    w.features_in_force(label="as before")


@case("KIP-584")
def features_that_do_not_change(w: World) -> None:
    """Unknown features and levels, levels that would fall without saying so, and the same level again."""
    refused: dict[str, Sequence[tuple[str, int, int]]] = {
        "unknown": [("no.such.feature", 1, UPGRADE)],
        "too high": [("transaction.version", 3, UPGRADE)],
        "negative": [("transaction.version", -1, SAFE_DOWNGRADE)],
        "falls": [("transaction.version", 1, UPGRADE)],
        "upgrade type 0": [("transaction.version", 1, 0)],
        "upgrade type 7": [("transaction.version", 1, 7)],
        "metadata too high": [("metadata.version", 99, UPGRADE)],
        "metadata falls": [("metadata.version", 29, UPGRADE)],
        "metadata falls safely": [("metadata.version", 7, SAFE_DOWNGRADE)],
        "metadata falls unsafely": [("metadata.version", 7, UNSAFE_DOWNGRADE)],
        "metadata too low": [("metadata.version", 3, UNSAFE_DOWNGRADE)],
        "quorum rises": [("kraft.version", 1, UPGRADE)],
        "a good and a bad one": [("transaction.version", 2, UPGRADE), ("no.such.feature", 1, UPGRADE)],
        "the same": [("transaction.version", 2, UPGRADE)],
        "the same, as a downgrade": [("transaction.version", 2, SAFE_DOWNGRADE)],
        "the same metadata": [("metadata.version", 30, UPGRADE)],
        "nothing": [],
    }
    for version in (1, 2):
        for label, updates in refused.items():
            w.say(updating(*updates, validate_only=True), version, label=f"v{version} {label}")
    keys = [FeatureUpdateKey(feature="transaction.version", max_version_level=level) for level in (3, 2)]
    for key in keys:
        w.say(UpdateFeaturesRequest(feature_updates=[key]), 0, label=f"v0 {key.max_version_level}")


@case(guarded=True)
def permissions_of_the_controller(w: World) -> None:
    """DESCRIBE on the cluster for the quorum, ALTER for the rest."""
    w.no_acls()
    described = DescribeQuorumRequest(topics=[TopicData(topic_name="no-topic", partitions=[PartitionData()])])
    for version in range(3):
        each_holding(w, described, version, on_cluster(Operation.ALTER), on_cluster(Operation.DESCRIBE), what=f"quorum v{version}")
    unregister = UnregisterBrokerRequest(broker_id=77)
    each_holding(w, unregister, 0, on_cluster(Operation.DESCRIBE), on_cluster(Operation.ALTER), what="unregister")
    for version in (1, 2):
        update = updating(("no.such.feature", 1, UPGRADE))
        each_holding(w, update, version, on_cluster(Operation.DESCRIBE), on_cluster(Operation.ALTER), what=f"features v{version}")
