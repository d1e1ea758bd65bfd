"""Questions about the resources with configs, the quorum of controllers, and the metrics of clients."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from uuid import UUID

from fencepost.producer import wire
from fencepost.producer.wire import error_name
from fencepost.producer.wire.messages import cluster, config_resources, quorum, quorum_state, telemetry
from tests.conformance.asks_configs import ConfigAsks
from tests.conformance.raw import RawConnection
from tests.conformance.stage import READY_TIMEOUT_S
from tests.waiting import until

A_MINUTE_MS = 60_000
FEATURES = ("eligible.leader.replicas.version", "group.version", "metadata.version", "transaction.version")


class ControllerAsks(ConfigAsks):
    """A part of the world of a case."""

    def list_resources(self, *kinds: int, label: str, version: int = 1, only: Sequence[str] = ()) -> None:
        """The resources of these types, of the case itself and brokers. `only`: note these names, in their order, as n1, n2."""
        request = config_resources.ListConfigResourcesRequest(resource_types=list(kinds))
        names = {name: f"name{number}" for number, name in enumerate(only, 1)}

        def show(answer: config_resources.ListConfigResourcesResponse) -> str:
            known = {**names, **{str(node): self.show_node(node) for node in self.nodes}}
            told = [f"{each.resource_type} {known[each.resource_name]}" for each in answer.config_resources if each.resource_name in known]
            return f"{error_name(answer.error_code)} {sorted(told)}"

        self.note_answer(label, request, version, config_resources.ListConfigResourcesResponse, show)

    def describe_quorum(self, *partitions: tuple[str, int], label: str, version: int = 2) -> None:
        topics = [
            quorum.TopicData(topic_name=topic, partitions=[quorum.PartitionData(partition_index=index)]) for topic, index in partitions
        ]
        request = quorum.DescribeQuorumRequest(topics=topics)

        def show(answer: quorum.DescribeQuorumResponse) -> str:
            parts = [
                f"{topic.topic_name}:{part.partition_index} {error_name(part.error_code)} {part.error_message!r}"
                f" leader={self._leader(part)}"
                f" epoch={part.leader_epoch > 0} hw={part.high_watermark > 0}"
                f" voters={self._replicas(part.current_voters)} observers={self._replicas(part.observers)}"
                for topic in answer.topics
                for part in topic.partitions
            ]
            nodes = [f"{each.node_id} {[listener.name for listener in each.listeners]}" for each in answer.nodes]
            return f"{error_name(answer.error_code)} {answer.error_message!r} {parts} nodes={nodes}"

        self.note_answer(label, request, version, quorum.DescribeQuorumResponse, show)

    def _leader(self, part: quorum_state.PartitionData) -> str:
        """Controllers elect one of themselves."""
        return "a voter" if part.leader_id in [each.replica_id for each in part.current_voters] else str(part.leader_id)

    def note_brokers(self, *, label: str) -> None:
        """The registered brokers, and whether they are fenced."""
        self.note(
            label, ", ".join(f"{self.show_node(node)}{' fenced' if fenced else ''}" for node, fenced in sorted(self._brokers().items()))
        )

    def until_brokers(self, expected: Mapping[int, bool]) -> None:
        """Wait until these brokers are registered, and fenced or not."""
        until(self._brokers, f"brokers {expected}", good=lambda found: found == expected, timeout_s=READY_TIMEOUT_S)

    def _brokers(self) -> dict[int, bool]:
        request = cluster.DescribeClusterRequest(include_fenced_brokers=True)
        return {each.broker_id: each.is_fenced for each in self.ask(request, 2, cluster.DescribeClusterResponse).brokers}

    def features_in_force(self, *, label: str) -> None:
        """Note the finalized levels of these features."""
        self.note(label, ", ".join(f"{name}={level}" for name, level in sorted(self._features().items()) if name in FEATURES))

    def until_feature(self, name: str, level: int) -> None:
        """Wait until the broker has that level; 0 for none."""
        until(lambda: self._features().get(name, 0), f"{name}={level}", good=lambda found: found == level, timeout_s=READY_TIMEOUT_S)

    def _features(self) -> dict[str, int]:
        request = wire.ApiVersionsRequest(client_software_name="conformance", client_software_version="1")
        return {each.name: each.max_version_level for each in self.ask(request, 4, wire.ApiVersionsResponse).finalized_features}

    def _replicas(self, replicas: Sequence[quorum_state.ReplicaState]) -> list[str]:
        now_ms = time.time() * 1000

        def recently(at_ms: int) -> str:
            return str(at_ms) if at_ms <= 0 else "now" if abs(now_ms - at_ms) < A_MINUTE_MS else "long ago"

        return sorted(
            f"{each.replica_id} directory={each.replica_directory_id.int != 0} end={each.log_end_offset > 0}"
            f" fetched={recently(each.last_fetch_timestamp)} caught up={recently(each.last_caught_up_timestamp)}"
            for each in replicas
        )


class MetricsClient:
    """A client with metrics, on a connection of its own. It remembers its instance id and its subscription."""

    def __init__(self, w: ControllerAsks, *, client_id: str = "metrics", software: str | None = None) -> None:
        self._w = w
        self.connection: RawConnection = w.open()
        self.connection.client_id = client_id
        w.keep(self.connection)
        self.id = wire.ZERO_UUID
        self.subscription_id = 0
        if software is not None:
            self.connection.ask(wire.ApiVersionsRequest(client_software_name=software, client_software_version="1.2"), 3)

    def ask(self, *, label: str, instance_id: UUID | None = None) -> None:
        request = telemetry.GetTelemetrySubscriptionsRequest(client_instance_id=self.id if instance_id is None else instance_id)
        answer = self.connection.ask(request, 0)
        assert isinstance(answer, telemetry.GetTelemetrySubscriptionsResponse)
        whose = "the same id" if answer.client_instance_id == self.id else "an id" if answer.client_instance_id.int else "no id"
        same = "the same subscription" if answer.subscription_id == self.subscription_id else "another subscription"
        if not answer.error_code:
            self.id, self.subscription_id = answer.client_instance_id, answer.subscription_id
        self._w.note(
            label,
            f"{error_name(answer.error_code)} {whose}, {same}, codecs={answer.accepted_compression_types}"
            f" every {answer.push_interval_ms} ms, at most {answer.telemetry_max_bytes} bytes, delta={answer.delta_temporality}"
            f" {sorted(answer.requested_metrics)}",
        )

    def push(
        self,
        metrics: bytes = b"",
        *,
        label: str,
        terminating: bool = False,
        codec: int = 0,
        instance_id: UUID | None = None,
        subscription_id: int | None = None,
    ) -> None:
        request = telemetry.PushTelemetryRequest(
            client_instance_id=self.id if instance_id is None else instance_id,
            subscription_id=self.subscription_id if subscription_id is None else subscription_id,
            terminating=terminating,
            compression_type=codec,
            metrics=metrics,
        )
        answer = self.connection.ask(request, 0)
        assert isinstance(answer, telemetry.PushTelemetryResponse)
        self._w.note(label, error_name(answer.error_code))
