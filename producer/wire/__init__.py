"""Kafka's wire protocol: messages, frames, record batches, compression.

It converts values to bytes and back, and refuses invalid bytes. It does no I/O. Other layers decide what an error code means, when to
send, and to which broker.
"""

from __future__ import annotations

from fencepost.producer.wire.codes import Api, ErrorCode, api_name, error_name
from fencepost.producer.wire.errors import FrameTooLarge, Malformed, UnsupportedFieldValue, UnsupportedVersion, WireError
from fencepost.producer.wire.frame import (
    FRAME_BYTES_MAX,
    FrameSplitter,
    RequestHeader,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from fencepost.producer.wire.message import Message, decode, encode, encode_parts
from fencepost.producer.wire.messages import REQUESTS, RESPONSES
from fencepost.producer.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from fencepost.producer.wire.messages.common import LeaderIdAndEpoch, NodeEndpoint
from fencepost.producer.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from fencepost.producer.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicRequest,
    TopicResponse,
)
from fencepost.producer.wire.messages.fetch import (
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
from fencepost.producer.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from fencepost.producer.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from fencepost.producer.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from fencepost.producer.wire.messages.metadata import (
    OPERATIONS_NOT_ASKED_FOR,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from fencepost.producer.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from fencepost.producer.wire.schema.fields import NEVER, ZERO_UUID, Buffer, Records, WireStruct

__all__ = [
    "FRAME_BYTES_MAX",
    "NEVER",
    "OPERATIONS_NOT_ASKED_FOR",
    "REQUESTS",
    "RESPONSES",
    "ZERO_UUID",
    "AbortedTransaction",
    "Api",
    "ApiVersion",
    "ApiVersionsRequest",
    "ApiVersionsResponse",
    "BatchIndexAndErrorMessage",
    "Buffer",
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
    "ErrorCode",
    "FetchPartition",
    "FetchRequest",
    "FetchResponse",
    "FetchTopic",
    "FetchableTopicResponse",
    "FinalizedFeatureKey",
    "FindCoordinatorRequest",
    "FindCoordinatorResponse",
    "ForgottenTopic",
    "FrameSplitter",
    "FrameTooLarge",
    "InitProducerIdRequest",
    "InitProducerIdResponse",
    "LeaderIdAndEpoch",
    "ListOffsetsPartition",
    "ListOffsetsPartitionResponse",
    "ListOffsetsRequest",
    "ListOffsetsResponse",
    "ListOffsetsTopic",
    "ListOffsetsTopicResponse",
    "Malformed",
    "Message",
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
    "Records",
    "ReplicaState",
    "RequestHeader",
    "SnapshotId",
    "SupportedFeatureKey",
    "TopicProduceData",
    "TopicProduceResponse",
    "TopicRequest",
    "TopicResponse",
    "UnsupportedFieldValue",
    "UnsupportedVersion",
    "WireError",
    "WireStruct",
    "api_name",
    "decode",
    "decode_request",
    "decode_request_header",
    "decode_response",
    "encode",
    "encode_parts",
    "encode_request",
    "encode_response",
    "error_name",
]
