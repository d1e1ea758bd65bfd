"""Features that change while a cluster runs, and brokers that are unregistered.

tests/conformance/cases/controllers.py compares the answers with Apache Kafka's.
"""

from __future__ import annotations

from pathlib import Path

from fencepost.broker_stub import BrokerStub
from fencepost.producer.wire import ApiVersionsRequest, ErrorCode
from fencepost.producer.wire.messages.cluster_admin import FeatureUpdateKey, UnregisterBrokerRequest, UpdateFeaturesRequest
from tests.broker_stub.stub_calls import Inside, Talker, batch


def updating(name: str, level: int, kind: int = 2) -> UpdateFeaturesRequest:
    return UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)])


def levels(world: Inside) -> dict[str, int]:
    answer = world.ask(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 4, node=1)
    return {each.name: each.max_version_level for each in answer.finalized_features}


def test_transactions_obey_the_new_level() -> None:
    """The coordinator bumps epochs at level 2, and no more at level 1."""
    world = Inside()
    assert world.services.transactions.version == 2
    assert world.ask(updating("transaction.version", 1), 2, node=1).error_code == ErrorCode.NONE
    assert (world.services.transactions.version, levels(world)["transaction.version"]) == (1, 1)


def test_replicas_are_eligible_while_the_feature_says_so() -> None:
    """Without eligible.leader.replicas.version min.insync.replicas of all brokers can be deleted (KIP-966)."""
    world = Inside()
    assert world.cluster.has_eligible
    world.ask(updating("eligible.leader.replicas.version", 0), 2, node=1)
    assert not world.cluster.has_eligible


def test_levels_last(tmp_path: Path) -> None:
    """A stub that is started again with its data directory has the levels that were finalized."""
    with BrokerStub(data_dir=tmp_path) as stub, Talker(stub) as talker:
        talker.ask(updating("transaction.version", 1), 2)
    with BrokerStub(data_dir=tmp_path) as stub:
        assert stub.cluster.features["transaction.version"][2] == 1


def test_an_unregistered_broker_that_runs() -> None:
    """It leads nothing, and is no broker for clients, until it starts again."""
    world = Inside(brokers=2)
    world.topic("t", replicas=2)
    leader = world.leader()
    other = 3 - leader
    assert world.ask(UnregisterBrokerRequest(broker_id=leader), 0, node=other).error_code == ErrorCode.NONE
    assert (world.leader(), world.cluster.live) == (other, [other])
    assert world.produce(batch(b"v")).error_code == ErrorCode.NONE
    world.cluster.stop_broker(leader)
    world.cluster.start_broker(leader)
    assert world.cluster.live == [1, 2]
