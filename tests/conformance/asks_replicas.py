"""An administrator's questions about replicas: reassignments, and the directories of brokers.

Brokers are numbered from 1 here, as the cases do; a number above the last one stands for an unknown broker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fencepost.producer import wire
from fencepost.producer.wire import error_name
from fencepost.producer.wire.messages import log_dirs, replicas
from tests.conformance.asks_admin import TIMEOUT_MS, AdminAsks
from tests.conformance.stage import READY_TIMEOUT_S, Topic
from tests.waiting import until

Target = Mapping[str, Mapping[int, Sequence[int] | None]]
"""topic: partition: its new replicas. None cancels."""


class ReplicaAsks(AdminAsks):
    """A part of the world of a case."""

    def placed_topic(self, *brokers: int, config: Mapping[str, str] | None = None) -> Topic:
        """A topic with one partition on these brokers."""
        name = self.fresh_name()
        placed = [wire.CreatableReplicaAssignment(partition_index=0, broker_ids=self._ids(brokers))]
        configs = [wire.CreatableTopicConfig(name=key, value=value) for key, value in (config or {}).items()]
        wanted = wire.CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=placed, configs=configs)
        created = self.ask(wire.CreateTopicsRequest(topics=[wanted]), 7, wire.CreateTopicsResponse).topics[0]
        assert created.error_code == 0, f"{error_name(created.error_code)}: {created.error_message}"
        return self.known_topic(name)

    def reassign(self, wanted: Target, *, label: str, version: int = 1, factor_may_change: bool = True) -> None:
        """Ask for other replicas."""
        request = replicas.AlterPartitionReassignmentsRequest(
            timeout_ms=TIMEOUT_MS,
            allow_replication_factor_change=factor_may_change,
            topics=[
                replicas.ReassignableTopic(
                    name=name,
                    partitions=[
                        replicas.ReassignablePartition(partition_index=index, replicas=None if to is None else self._ids(to))
                        for index, to in partitions.items()
                    ],
                )
                for name, partitions in wanted.items()
            ],
        )

        def show(answer: replicas.AlterPartitionReassignmentsResponse) -> str:
            shown = [
                f"{self.show_topic(topic.name)} p{each.partition_index} {error_name(each.error_code)} {self.worded(each.error_message)}"
                for topic in answer.responses
                for each in topic.partitions
            ]
            whole = f"{error_name(answer.error_code)} {self.worded(answer.error_message)} factor={answer.allow_replication_factor_change}"
            return f"{whole} {shown}"

        self.note_answer(label, request, version, replicas.AlterPartitionReassignmentsResponse, show)

    def reassignments(self, topics: Mapping[str, Sequence[int]] | None, *, label: str) -> None:
        """The partitions that are being reassigned."""

        def show(answer: replicas.ListPartitionReassignmentsResponse) -> str:
            shown = [
                f"{self.show_topic(topic.name)} p{each.partition_index} {self._places(each.replicas)}"
                f" adding {self._places(each.adding_replicas)} removing {self._places(each.removing_replicas)}"
                for topic in answer.topics
                for each in topic.partitions
            ]
            return f"{error_name(answer.error_code)} {self.worded(answer.error_message)} {shown}"

        self.note_answer(label, _ongoing(topics), 0, replicas.ListPartitionReassignmentsResponse, show)

    def until_moved(self, topic: Topic, *brokers: int) -> None:
        """Wait until the replicas are these, and no others, and in sync."""
        wanted = self._ids(brokers)

        def there() -> tuple[list[int], list[int]]:
            part = self.look_up(topic.name).partitions[0]
            return part.replica_nodes, sorted(part.isr_nodes)

        until(there, f"replicas {wanted}", good=lambda found: found == (wanted, sorted(wanted)), timeout_s=READY_TIMEOUT_S)

    def until_isr(self, topic: Topic, *brokers: int) -> None:
        """Wait until these are the in-sync replicas."""
        wanted = sorted(self._ids(brokers))
        until(
            lambda: sorted(self.look_up(topic.name).partitions[0].isr_nodes),
            f"the ISR {wanted}",
            good=lambda found: found == wanted,
            timeout_s=READY_TIMEOUT_S,
        )

    def until_begun(self, topic: Topic) -> None:
        """Wait until the broker knows of the reassignment that the controller has in progress."""
        answer = self.ask(_ongoing({topic.name: [0]}), 0, replicas.ListPartitionReassignmentsResponse)
        wanted = answer.topics[0].partitions[0].replicas
        until(
            lambda: self.look_up(topic.name).partitions[0].replica_nodes,
            f"replicas {wanted}",
            good=lambda found: found == wanted,
            timeout_s=READY_TIMEOUT_S,
        )

    def until_logs_at(self, topic: Topic, *brokers: int) -> None:
        """Wait until these brokers have a log of the topic, and no others. Kafka deletes the logs of removed replicas a little later."""
        wanted = self._ids(brokers)
        request = log_dirs.DescribeLogDirsRequest(topics=[log_dirs.DescribableLogDirTopic(topic=topic.name, partitions=[0])])

        def there() -> list[int]:
            answers = {node: self.ask(request, 4, log_dirs.DescribeLogDirsResponse, node=node) for node in self.nodes}
            return [node for node, answer in answers.items() if any(each.topics for each in answer.results)]

        until(there, f"logs at {wanted}", good=lambda found: found == wanted, timeout_s=READY_TIMEOUT_S)

    def place(self, topic: Topic, *, label: str) -> None:
        """The replicas, leader, epoch and ISR of the first partition."""

        def show(answer: wire.MetadataResponse) -> str:
            part = answer.topics[0].partitions[0]
            return (
                f"{error_name(part.error_code)} {self._places(part.replica_nodes)} leader={self.show_node(part.leader_id)}"
                f" epoch={part.leader_epoch} isr={self.show_nodes(part.isr_nodes)} offline={self.show_nodes(part.offline_replicas)}"
            )

        request = wire.MetadataRequest(topics=[wire.MetadataRequestTopic(name=topic.name)], allow_auto_topic_creation=False)
        self.note_answer(label, request, 12, wire.MetadataResponse, show)

    def logs(self, topics: Mapping[str, Sequence[int]] | None, *, label: str, version: int = 5, broker: int = 1) -> None:
        """The directory of that broker, and the logs of the case's topics there."""
        asked = None
        if topics is not None:
            asked = [log_dirs.DescribableLogDirTopic(topic=name, partitions=list(indexes)) for name, indexes in topics.items()]

        def show(answer: log_dirs.DescribeLogDirsResponse) -> str:
            found = [
                f"{self.show_topic(topic.name)} p{each.partition_index} {each.partition_size} bytes lag={each.offset_lag}"
                f" future={each.is_future_key}"
                for directory in answer.results
                for topic in directory.topics
                for each in topic.partitions
                if topic.name in self._topics
            ]
            kinds = [
                f"{error_name(each.error_code)} {'absolute' if each.log_dir.startswith('/') else 'relative'}"
                f" fits={-1 <= each.usable_bytes <= each.total_bytes} cordoned={each.is_cordoned}"
                for each in answer.results
            ]
            return f"{error_name(answer.error_code)} {kinds} {sorted(found)}"

        request = log_dirs.DescribeLogDirsRequest(topics=asked)
        self.note_answer(label, request, version, log_dirs.DescribeLogDirsResponse, show, node=self.nodes[broker - 1])

    def log_dir(self, broker: int = 1) -> str:
        """The path of its only directory."""
        answer = self.ask(log_dirs.DescribeLogDirsRequest(topics=[]), 4, log_dirs.DescribeLogDirsResponse, node=self.nodes[broker - 1])
        (directory,) = answer.results
        return directory.log_dir

    def until_cordoned(self, *brokers: int) -> None:
        """Wait until these brokers, and no others, say that their directory is cordoned, and the controller knows it: a topic with more
        replicas than the others can have is refused."""
        request = log_dirs.DescribeLogDirsRequest(topics=[])

        def cordoned() -> list[int]:
            answers = [self.ask(request, 5, log_dirs.DescribeLogDirsResponse, node=node) for node in self.nodes]
            return [number for number, answer in enumerate(answers, 1) if answer.results[0].is_cordoned]

        until(cordoned, "cordoned", good=lambda found: found == sorted(brokers), timeout_s=READY_TIMEOUT_S)
        free = len(self.nodes) - len(brokers)

        def known() -> tuple[bool, bool]:
            return self._may_have(free), self._may_have(free + 1)

        until(known, "the controller knows it", good=lambda found: found == (free > 0, False), timeout_s=READY_TIMEOUT_S)

    def _may_have(self, replicas: int) -> bool:
        """Whether a topic with so many replicas can be created."""
        if not replicas:
            return False
        wanted = wire.CreatableTopic(name=self.fresh_name(), num_partitions=1, replication_factor=replicas)
        request = wire.CreateTopicsRequest(topics=[wanted], validate_only=True)
        return not self.ask(request, 7, wire.CreateTopicsResponse).topics[0].error_code

    def alter_log_dirs(self, *wanted: tuple[str, str, int], label: str, version: int = 2, broker: int = 1) -> None:
        """Ask that broker to move partitions. `wanted`: (path, topic, partition)."""
        dirs = [
            log_dirs.AlterReplicaLogDir(path=path, topics=[log_dirs.AlterReplicaLogDirTopic(name=name, partitions=[index])])
            for path, name, index in wanted
        ]

        def show(answer: log_dirs.AlterReplicaLogDirsResponse) -> str:
            found = [
                f"{self.show_topic(topic.topic_name)} p{each.partition_index} {error_name(each.error_code)}"
                for topic in answer.results
                for each in topic.partitions
            ]
            return f"{sorted(found)}"

        request = log_dirs.AlterReplicaLogDirsRequest(dirs=dirs)
        self.note_answer(label, request, version, log_dirs.AlterReplicaLogDirsResponse, show, node=self.nodes[broker - 1])

    def _ids(self, brokers: Sequence[int]) -> list[int]:
        return [self.nodes[number - 1] if 0 < number <= len(self.nodes) else self.nodes[-1] + number for number in brokers]

    def _places(self, nodes: Sequence[int]) -> str:
        """In their order."""
        return ",".join(map(self.show_node, nodes)) or "none"


def _ongoing(topics: Mapping[str, Sequence[int]] | None) -> replicas.ListPartitionReassignmentsRequest:
    named = None
    if topics is not None:
        named = [replicas.ListPartitionReassignmentsTopics(name=name, partition_indexes=list(parts)) for name, parts in topics.items()]
    return replicas.ListPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=named)
