"""Every message that is spoken here, one file per API or small group of APIs, under the names of Kafka's schemas."""

from __future__ import annotations

from producer.wire.message import Message
from producer.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from producer.wire.messages.common import (
    LeaderIdAndEpoch,
    NodeEndpoint,
)
from producer.wire.messages.coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from producer.wire.messages.describe import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicRequest,
    TopicResponse,
)
from producer.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
    SnapshotId,
)
from producer.wire.messages.metadata import (
    OPERATIONS_NOT_ASKED_FOR,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from producer.wire.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from producer.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from producer.wire.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from producer.wire.messages.transactions import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

__all__ = [
    "OPERATIONS_NOT_ASKED_FOR",
    "REQUESTS",
    "RESPONSES",
    "AbortedTransaction",
    "ApiVersion",
    "ApiVersionsRequest",
    "ApiVersionsResponse",
    "BatchIndexAndErrorMessage",
    "Coordinator",
    "CreatableReplicaAssignment",
    "CreatableTopic",
    "CreatableTopicConfig",
    "CreatableTopicConfigs",
    "CreatableTopicResult",
    "CreateTopicsRequest",
    "CreateTopicsResponse",
    "DescribeProducersRequest",
    "DescribeProducersResponse",
    "EpochEndOffset",
    "FetchPartition",
    "FetchRequest",
    "FetchResponse",
    "FetchTopic",
    "FetchableTopicResponse",
    "FinalizedFeatureKey",
    "FindCoordinatorRequest",
    "FindCoordinatorResponse",
    "ForgottenTopic",
    "InitProducerIdRequest",
    "InitProducerIdResponse",
    "LeaderIdAndEpoch",
    "ListOffsetsPartition",
    "ListOffsetsPartitionResponse",
    "ListOffsetsRequest",
    "ListOffsetsResponse",
    "ListOffsetsTopic",
    "ListOffsetsTopicResponse",
    "MetadataRequest",
    "MetadataRequestTopic",
    "MetadataResponse",
    "MetadataResponseBroker",
    "MetadataResponsePartition",
    "MetadataResponseTopic",
    "NodeEndpoint",
    "PartitionData",
    "PartitionProduceData",
    "PartitionProduceResponse",
    "PartitionResponse",
    "ProduceRequest",
    "ProduceResponse",
    "ProducerState",
    "ReplicaState",
    "SnapshotId",
    "SupportedFeatureKey",
    "TopicProduceData",
    "TopicProduceResponse",
    "TopicRequest",
    "TopicResponse",
]

REQUESTS: dict[int, type[Message]] = {
    int(cls.api): cls
    for cls in (
        ApiVersionsRequest,
        FindCoordinatorRequest,
        DescribeProducersRequest,
        FetchRequest,
        MetadataRequest,
        ListOffsetsRequest,
        ProduceRequest,
        CreateTopicsRequest,
        InitProducerIdRequest,
    )
}
"""The request of each API, by API key."""

RESPONSES: dict[int, type[Message]] = {
    int(cls.api): cls
    for cls in (
        ApiVersionsResponse,
        FindCoordinatorResponse,
        DescribeProducersResponse,
        FetchResponse,
        MetadataResponse,
        ListOffsetsResponse,
        ProduceResponse,
        CreateTopicsResponse,
        InitProducerIdResponse,
    )
}
"""The response of each API, by API key."""
