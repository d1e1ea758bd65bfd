"""An administrator's questions about topics and the cluster: DeleteTopics, CreatePartitions, DeleteRecords, ElectLeaders and descriptions.

Messages are noted in Kafka's words, with the case's own names in place of topics and brokers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from fencepost.producer import wire
from fencepost.producer.wire import error_name
from fencepost.producer.wire.messages import cluster, offset_for_leader_epoch, replicas, topic_admin
from tests.conformance.stage import READY_TIMEOUT_S, Stage, Topic
from tests.waiting import until

TIMEOUT_MS = 10_000


class AdminAsks(Stage):
    """A part of the world of a case."""

    def worded(self, message: str | None) -> str:
        """A message without names and ids that differ in each run."""
        if message is None:
            return "without a message"
        for name in self._topics:
            message = message.replace(name, self.show_topic(name))
        message = re.sub(rf"case-{self._run}-\d+", "unknown", message)
        message = re.sub(r"\b(expected|received|broker|id) (\d+)", lambda found: f"{found[1]} {self._shown_id(found[2])}", message)
        return repr(message)

    def _shown_id(self, text: str) -> str:
        return self.show_node(int(text))

    def tried(
        self,
        *,
        label: str,
        config: Mapping[str, str] | None = None,
        placed: Sequence[tuple[int, Sequence[int]]] = (),
        replicas: int = -1,
    ) -> None:
        """The response about a topic that is not created."""
        wanted = wire.CreatableTopic(
            name=self.fresh_name(),
            num_partitions=-1,
            replication_factor=replicas,
            assignments=[wire.CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers)) for index, brokers in placed],
            configs=[wire.CreatableTopicConfig(name=name, value=value) for name, value in (config or {}).items()],
        )

        def show(answer: wire.CreateTopicsResponse) -> str:
            return _coded(self, answer.topics[0])

        self.note_answer(label, wire.CreateTopicsRequest(topics=[wanted], validate_only=True), 7, wire.CreateTopicsResponse, show)

    # -- DeleteTopics ------------------------------------------------------------------------------------------------------

    def delete_topics(self, *names: str, label: str, version: int = 5) -> None:
        request = topic_admin.DeleteTopicsRequest(topic_names=list(names), timeout_ms=TIMEOUT_MS)
        self._note_deleted(label, request, version)

    def delete_topics_by(self, *wanted: tuple[str | None, UUID], label: str) -> None:
        """Version 6: by name, by id, by both or neither."""
        states = [topic_admin.DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in wanted]
        self._note_deleted(label, topic_admin.DeleteTopicsRequest(topics=states, timeout_ms=TIMEOUT_MS), 6)

    def until_gone(self, topic: Topic) -> None:
        """Wait until the broker has forgotten the topic."""
        until(lambda: self.look_up(topic.name).error_code != 0, "the topic is gone", timeout_s=READY_TIMEOUT_S)

    def made_again(self, topic: Topic, *, label: str) -> None:
        """Create a topic of the same name, which must have another id."""
        wanted = wire.CreatableTopic(name=topic.name, num_partitions=1, replication_factor=1)
        created = until(
            lambda: self.ask(wire.CreateTopicsRequest(topics=[wanted]), 7, wire.CreateTopicsResponse).topics[0],
            "a topic of that name",
            good=lambda answer: answer.error_code != wire.ErrorCode.TOPIC_ALREADY_EXISTS,
            timeout_s=READY_TIMEOUT_S,
        )
        self.note(label, f"{error_name(created.error_code)} {'another id' if created.topic_id != topic.id else 'the same id'}")

    def _note_deleted(self, label: str, request: topic_admin.DeleteTopicsRequest, version: int) -> None:
        def show(answer: topic_admin.DeleteTopicsResponse) -> str:
            shown = []
            for each in answer.responses:
                has_id = " with id" if each.topic_id != wire.ZERO_UUID else ""
                why = f" {self.worded(each.error_message)}" if version >= 5 else ""
                shown.append(f"{self.show_topic(each.name)}{has_id} {error_name(each.error_code)}{why}")
            return "; ".join(sorted(shown)) or "nothing"

        self.note_answer(label, request, version, topic_admin.DeleteTopicsResponse, show)

    # -- CreatePartitions --------------------------------------------------------------------------------------------------

    def create_partitions(
        self,
        *wanted: tuple[str, int],
        label: str,
        assignments: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
        version: int = 3,
    ) -> None:
        """Brokers in `assignments` are counted from 1. A number above the last one stands for an unknown broker."""
        count = len(self.nodes)
        placed = [
            topic_admin.CreatePartitionsAssignment(broker_ids=[self.nodes[each - 1] if 0 < each <= count else each for each in brokers])
            for brokers in assignments or ()
        ]
        topics = [
            topic_admin.CreatePartitionsTopic(name=name, count=total, assignments=placed if assignments is not None else None)
            for name, total in wanted
        ]
        request = topic_admin.CreatePartitionsRequest(topics=topics, timeout_ms=TIMEOUT_MS, validate_only=validate_only)

        def show(answer: topic_admin.CreatePartitionsResponse) -> str:
            return "; ".join(sorted(f"{self.show_topic(each.name)} {_coded(self, each)}" for each in answer.results)) or "nothing"

        self.note_answer(label, request, version, topic_admin.CreatePartitionsResponse, show)

    def until_partitions(self, topic: Topic, total: int, *, label: str) -> None:
        """Wait until the topic has so many partitions with leaders, and note them."""

        def look() -> int:
            parts = self.look_up(topic.name).partitions
            return len(parts) if all(part.leader_id in self.nodes for part in parts) else 0

        self.note(label, f"{until(look, 'partitions', good=lambda found: found == total, timeout_s=READY_TIMEOUT_S)} partitions")

    def describe_placement(self, topic: Topic) -> None:
        """Where the partitions with given assignments are: all but the first."""
        for part in sorted(self.look_up(topic.name).partitions, key=lambda each: each.partition_index)[1:]:
            replicas = ",".join(self.show_node(node) for node in part.replica_nodes)
            self.note(f"p{part.partition_index} is", f"leader={self.show_node(part.leader_id)} replicas={replicas}")

    # -- DeleteRecords -----------------------------------------------------------------------------------------------------

    def delete_records(
        self, topic: Topic | str, offset: int, *, label: str, partition: int = 0, version: int = 2, node: int | None = None
    ) -> None:
        name = topic if isinstance(topic, str) else topic.name
        parts = [topic_admin.DeleteRecordsPartition(partition_index=partition, offset=offset)]
        request = topic_admin.DeleteRecordsRequest(
            topics=[topic_admin.DeleteRecordsTopic(name=name, partitions=parts)], timeout_ms=TIMEOUT_MS
        )

        def show(answer: topic_admin.DeleteRecordsResponse) -> str:
            (part,) = answer.topics[0].partitions
            return f"{error_name(part.error_code)} low={part.low_watermark}"

        leaders = {} if isinstance(topic, str) else topic.leaders
        self.note_answer(
            label, request, version, topic_admin.DeleteRecordsResponse, show, node=leaders.get(partition) if node is None else node
        )

    # -- leaders -----------------------------------------------------------------------------------------------------------

    def epoch_end(
        self,
        topic: Topic,
        epoch: int,
        *,
        label: str,
        partition: int = 0,
        current: int = -1,
        replica_id: int = -1,
        version: int = 4,
        node: int | None = None,
    ) -> None:
        """Ask where a leader epoch ended."""
        part = offset_for_leader_epoch.OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
        request = offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            replica_id=replica_id, topics=[offset_for_leader_epoch.OffsetForLeaderTopic(topic=topic.name, partitions=[part])]
        )

        def show(answer: offset_for_leader_epoch.OffsetForLeaderEpochResponse) -> str:
            (found,) = answer.topics[0].partitions
            return f"{error_name(found.error_code)} epoch={found.leader_epoch} end={found.end_offset}"

        self.note_answer(
            label,
            request,
            version,
            offset_for_leader_epoch.OffsetForLeaderEpochResponse,
            show,
            node=topic.leaders.get(partition) if node is None else node,
        )

    def until_in_sync(self, topic: Topic) -> None:
        """Wait until every replica of the first partition is in sync."""

        def missing() -> int:
            part = self.look_up(topic.name).partitions[0]
            return len(part.replica_nodes) - len(part.isr_nodes)

        until(missing, "every replica in sync", good=lambda found: found == 0, timeout_s=READY_TIMEOUT_S)

    def elect(
        self, wanted: Mapping[str, Sequence[int]] | None, *, label: str, kind: int = 0, version: int = 2, only: Topic | None = None
    ) -> None:
        """Ask for elections; with `only`, note no other topic."""
        parts = None
        if wanted is not None:
            parts = [replicas.TopicPartitions(topic=name, partitions=list(indexes)) for name, indexes in wanted.items()]
        request = replicas.ElectLeadersRequest(election_type=kind, topic_partitions=parts, timeout_ms=TIMEOUT_MS)

        def show(answer: replicas.ElectLeadersResponse) -> str:
            shown = [
                f"{self.show_topic(topic.topic)} p{each.partition_id} {_coded(self, each)}"
                for topic in answer.replica_election_results
                for each in topic.partition_result
                if only is None or topic.topic == only.name
            ]
            return f"{error_name(answer.error_code)} [{'; '.join(sorted(shown))}]"

        self.note_answer(label, request, version, replicas.ElectLeadersResponse, show)

    # -- descriptions ------------------------------------------------------------------------------------------------------

    def describe_cluster(self, *, label: str, version: int = 2, **asked: Any) -> None:
        def show(answer: cluster.DescribeClusterResponse) -> str:
            told = {each.broker_id: (each.host, each.port) for each in answer.brokers}
            addresses = "right" if told == dict(self.target.addresses) else "none" if not told else "wrong"
            others = {(each.rack, each.is_fenced) for each in answer.brokers}
            controller = "a broker" if answer.controller_id in told else str(answer.controller_id)
            return (
                f"{_coded(self, answer)} endpoints={answer.endpoint_type} cluster={'named' if answer.cluster_id else 'unnamed'}"
                f" controller={controller} brokers {addresses} {others or ''} operations={answer.cluster_authorized_operations}"
            )

        self.note_answer(label, cluster.DescribeClusterRequest(**asked), version, cluster.DescribeClusterResponse, show)

    def describe_topics(
        self, *names: str, label: str, limit: int = 2000, cursor: tuple[str, int] | None = None, hide_others: bool = False
    ) -> None:
        place = cluster.Cursor(topic_name=cursor[0], partition_index=cursor[1]) if cursor is not None else None
        request = cluster.DescribeTopicPartitionsRequest(
            topics=[cluster.TopicRequest(name=name) for name in names], response_partition_limit=limit, cursor=place
        )

        def show(answer: cluster.DescribeTopicPartitionsResponse) -> str:
            shown = []
            for topic in answer.topics:
                if hide_others and topic.name not in self._topics:
                    continue
                parts = [
                    f"p{each.partition_index} {error_name(each.error_code)} leader={self.show_node(each.leader_id)}"
                    f" epoch={each.leader_epoch} replicas={self.show_nodes(each.replica_nodes)} isr={self.show_nodes(each.isr_nodes)}"
                    f" elr={each.eligible_leader_replicas} last={each.last_known_elr} offline={self.show_nodes(each.offline_replicas)}"
                    for each in topic.partitions
                ]
                has_id = " with id" if topic.topic_id != wire.ZERO_UUID else ""
                internal = " internal" if topic.is_internal else ""
                shown.append(
                    f"{self.show_topic(topic.name)}{has_id}{internal} {error_name(topic.error_code)}"
                    f" operations={topic.topic_authorized_operations} {parts}"
                )
            after = answer.next_cursor
            rest = "the end" if after is None else f"then {self.show_topic(after.topic_name)} p{after.partition_index}"
            return f"{'; '.join(shown) or 'nothing'}; {rest}"

        self.note_answer(label, request, 0, cluster.DescribeTopicPartitionsResponse, show)


def _coded(stage: AdminAsks, answer: Any) -> str:
    return f"{error_name(answer.error_code)} {stage.worded(answer.error_message)}"
