"""ElectLeaders starts leader elections. AlterPartitionReassignments moves replicas, and ListPartitionReassignments lists those that
move."""

from __future__ import annotations

from typing import Annotated

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import WireStruct, i8, i16, i32, ignorable, since


class TopicPartitions(WireStruct):
    """The partitions of one topic in the request."""

    topic: str = ""
    partitions: list[i32] = []


class ElectLeadersRequest(Message):
    """A client tells a broker to elect leaders. Election type 0 elects the preferred replica, 1 any replica that is up.

    A null list means every partition.
    """

    api = Api.ELECT_LEADERS
    versions = range(3)
    flexible = 2
    is_request = True

    election_type: Annotated[i8, since(1)] = 0
    topic_partitions: list[TopicPartitions] | None = []
    timeout_ms: i32 = 60000


class PartitionResult(WireStruct):
    """Whether one election succeeded; if not, the error."""

    partition_id: i32 = 0
    error_code: i16 = 0
    error_message: str | None = ""


class ReplicaElectionResult(WireStruct):
    """The results for the partitions of one topic."""

    topic: str = ""
    partition_result: list[PartitionResult] = []


class ElectLeadersResponse(Message):
    """The broker answers with one result per partition."""

    api = Api.ELECT_LEADERS
    versions = range(3)
    flexible = 2
    is_request = False

    throttle_time_ms: i32 = 0
    error_code: Annotated[i16, since(1)] = 0
    replica_election_results: list[ReplicaElectionResult] = []


class ReassignablePartition(WireStruct):
    """One partition and its new replicas. Null cancels the reassignment that is in progress."""

    partition_index: i32 = 0
    replicas: list[i32] | None = None


class ReassignableTopic(WireStruct):
    """The partitions of one topic in the request."""

    name: str = ""
    partitions: list[ReassignablePartition] = []


class AlterPartitionReassignmentsRequest(Message):
    """A client tells a broker which replicas partitions shall have."""

    api = Api.ALTER_PARTITION_REASSIGNMENTS
    versions = range(2)
    flexible = 0
    is_request = True

    timeout_ms: i32 = 60000
    allow_replication_factor_change: Annotated[bool, since(1)] = True
    topics: list[ReassignableTopic] = []


class ReassignablePartitionResponse(WireStruct):
    """Whether the reassignment of one partition began or was cancelled; if not, the error."""

    partition_index: i32 = 0
    error_code: i16 = 0
    error_message: str | None = ""


class ReassignableTopicResponse(WireStruct):
    """The results for the partitions of one topic."""

    name: str = ""
    partitions: list[ReassignablePartitionResponse] = []


class AlterPartitionReassignmentsResponse(Message):
    """The broker answers with one result per partition."""

    api = Api.ALTER_PARTITION_REASSIGNMENTS
    versions = range(2)
    flexible = 0
    is_request = False

    throttle_time_ms: i32 = 0
    allow_replication_factor_change: Annotated[bool, since(1), ignorable] = True
    error_code: i16 = 0
    error_message: str | None = ""
    responses: list[ReassignableTopicResponse] = []


class ListPartitionReassignmentsTopics(WireStruct):
    """The partitions of one topic in the request."""

    name: str = ""
    partition_indexes: list[i32] = []


class ListPartitionReassignmentsRequest(Message):
    """A client asks a broker which partitions are being reassigned. A null list means every partition."""

    api = Api.LIST_PARTITION_REASSIGNMENTS
    versions = range(1)
    flexible = 0
    is_request = True

    timeout_ms: i32 = 60000
    topics: list[ListPartitionReassignmentsTopics] | None = None


class OngoingPartitionReassignment(WireStruct):
    """A partition that is being reassigned, and its replicas."""

    partition_index: i32 = 0
    replicas: list[i32] = []
    adding_replicas: list[i32] = []
    removing_replicas: list[i32] = []


class OngoingTopicReassignment(WireStruct):
    """The partitions of one topic that are being reassigned."""

    name: str = ""
    partitions: list[OngoingPartitionReassignment] = []


class ListPartitionReassignmentsResponse(Message):
    """The broker answers with the partitions that are being reassigned."""

    api = Api.LIST_PARTITION_REASSIGNMENTS
    versions = range(1)
    flexible = 0
    is_request = False

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = ""
    topics: list[OngoingTopicReassignment] = []
