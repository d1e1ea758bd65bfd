"""Every message that fencepost can send or read, one file per API or small group of APIs, with the names of Kafka's schemas.

Importing this package imports the messages of a producer. All others are imported from their own modules, or through REQUESTS and
RESPONSES.
"""

from __future__ import annotations

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from fencepost.producer.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from fencepost.producer.wire.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from fencepost.producer.wire.messages.fetch import FetchRequest, FetchResponse
from fencepost.producer.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from fencepost.producer.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from fencepost.producer.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from fencepost.producer.wire.messages.metadata import MetadataRequest, MetadataResponse
from fencepost.producer.wire.messages.produce import ProduceRequest, ProduceResponse
from fencepost.producer.wire.registry import Registry

__all__ = ["REQUESTS", "RESPONSES"]

# The modules and names of the messages that are imported on first use, without "Request" or "Response".
_LATER = {
    Api.OFFSET_COMMIT: ("group_offsets", "OffsetCommit"),
    Api.OFFSET_FETCH: ("group_offsets", "OffsetFetch"),
    Api.JOIN_GROUP: ("groups", "JoinGroup"),
    Api.HEARTBEAT: ("groups", "Heartbeat"),
    Api.LEAVE_GROUP: ("groups", "LeaveGroup"),
    Api.SYNC_GROUP: ("groups", "SyncGroup"),
    Api.DESCRIBE_GROUPS: ("group_admin", "DescribeGroups"),
    Api.LIST_GROUPS: ("group_admin", "ListGroups"),
    Api.SASL_HANDSHAKE: ("sasl", "SaslHandshake"),
    Api.DELETE_TOPICS: ("topic_admin", "DeleteTopics"),
    Api.DELETE_RECORDS: ("topic_admin", "DeleteRecords"),
    Api.OFFSET_FOR_LEADER_EPOCH: ("offset_for_leader_epoch", "OffsetForLeaderEpoch"),
    Api.ADD_PARTITIONS_TO_TXN: ("add_to_txn", "AddPartitionsToTxn"),
    Api.ADD_OFFSETS_TO_TXN: ("add_to_txn", "AddOffsetsToTxn"),
    Api.END_TXN: ("end_txn", "EndTxn"),
    Api.WRITE_TXN_MARKERS: ("end_txn", "WriteTxnMarkers"),
    Api.TXN_OFFSET_COMMIT: ("txn_offsets", "TxnOffsetCommit"),
    Api.DESCRIBE_ACLS: ("acls", "DescribeAcls"),
    Api.CREATE_ACLS: ("acls", "CreateAcls"),
    Api.DELETE_ACLS: ("acls", "DeleteAcls"),
    Api.DESCRIBE_CONFIGS: ("configs", "DescribeConfigs"),
    Api.ALTER_CONFIGS: ("configs", "AlterConfigs"),
    Api.ALTER_REPLICA_LOG_DIRS: ("log_dirs", "AlterReplicaLogDirs"),
    Api.DESCRIBE_LOG_DIRS: ("log_dirs", "DescribeLogDirs"),
    Api.SASL_AUTHENTICATE: ("sasl", "SaslAuthenticate"),
    Api.CREATE_PARTITIONS: ("topic_admin", "CreatePartitions"),
    Api.DELETE_GROUPS: ("group_admin", "DeleteGroups"),
    Api.DESCRIBE_USER_SCRAM_CREDENTIALS: ("scram_credentials", "DescribeUserScramCredentials"),
    Api.ALTER_USER_SCRAM_CREDENTIALS: ("scram_credentials", "AlterUserScramCredentials"),
    Api.ELECT_LEADERS: ("replicas", "ElectLeaders"),
    Api.INCREMENTAL_ALTER_CONFIGS: ("incremental_configs", "IncrementalAlterConfigs"),
    Api.ALTER_PARTITION_REASSIGNMENTS: ("replicas", "AlterPartitionReassignments"),
    Api.LIST_PARTITION_REASSIGNMENTS: ("replicas", "ListPartitionReassignments"),
    Api.OFFSET_DELETE: ("group_offsets", "OffsetDelete"),
    Api.DESCRIBE_CLIENT_QUOTAS: ("describe_quotas", "DescribeClientQuotas"),
    Api.ALTER_CLIENT_QUOTAS: ("alter_quotas", "AlterClientQuotas"),
    Api.DESCRIBE_QUORUM: ("quorum", "DescribeQuorum"),
    Api.UPDATE_FEATURES: ("cluster_admin", "UpdateFeatures"),
    Api.DESCRIBE_CLUSTER: ("cluster", "DescribeCluster"),
    Api.UNREGISTER_BROKER: ("cluster_admin", "UnregisterBroker"),
    Api.DESCRIBE_TRANSACTIONS: ("describe_transactions", "DescribeTransactions"),
    Api.LIST_TRANSACTIONS: ("list_transactions", "ListTransactions"),
    Api.CONSUMER_GROUP_HEARTBEAT: ("consumer_groups", "ConsumerGroupHeartbeat"),
    Api.CONSUMER_GROUP_DESCRIBE: ("consumer_group_admin", "ConsumerGroupDescribe"),
    Api.GET_TELEMETRY_SUBSCRIPTIONS: ("telemetry", "GetTelemetrySubscriptions"),
    Api.PUSH_TELEMETRY: ("telemetry", "PushTelemetry"),
    Api.LIST_CONFIG_RESOURCES: ("config_resources", "ListConfigResources"),
    Api.DESCRIBE_TOPIC_PARTITIONS: ("cluster", "DescribeTopicPartitions"),
    Api.SHARE_GROUP_HEARTBEAT: ("share_groups", "ShareGroupHeartbeat"),
    Api.SHARE_GROUP_DESCRIBE: ("share_groups", "ShareGroupDescribe"),
    Api.SHARE_FETCH: ("share_fetch", "ShareFetch"),
    Api.SHARE_ACKNOWLEDGE: ("share_fetch", "ShareAcknowledge"),
    Api.INITIALIZE_SHARE_GROUP_STATE: ("share_state", "InitializeShareGroupState"),
    Api.READ_SHARE_GROUP_STATE: ("share_state", "ReadShareGroupState"),
    Api.WRITE_SHARE_GROUP_STATE: ("share_state", "WriteShareGroupState"),
    Api.DELETE_SHARE_GROUP_STATE: ("share_state", "DeleteShareGroupState"),
    Api.READ_SHARE_GROUP_STATE_SUMMARY: ("share_state", "ReadShareGroupStateSummary"),
    Api.DESCRIBE_SHARE_GROUP_OFFSETS: ("share_offsets", "DescribeShareGroupOffsets"),
    Api.ALTER_SHARE_GROUP_OFFSETS: ("share_offsets", "AlterShareGroupOffsets"),
    Api.DELETE_SHARE_GROUP_OFFSETS: ("share_offsets", "DeleteShareGroupOffsets"),
}

REQUESTS = Registry(
    (
        ApiVersionsRequest,
        FindCoordinatorRequest,
        DescribeProducersRequest,
        FetchRequest,
        MetadataRequest,
        ListOffsetsRequest,
        ProduceRequest,
        CreateTopicsRequest,
        InitProducerIdRequest,
    ),
    later={api: (f"{__name__}.{module}", f"{name}Request") for api, (module, name) in _LATER.items()},
)
"""The request of each API, by API key."""

RESPONSES = Registry(
    (
        ApiVersionsResponse,
        FindCoordinatorResponse,
        DescribeProducersResponse,
        FetchResponse,
        MetadataResponse,
        ListOffsetsResponse,
        ProduceResponse,
        CreateTopicsResponse,
        InitProducerIdResponse,
    ),
    later={api: (f"{__name__}.{module}", f"{name}Response") for api, (module, name) in _LATER.items()},
)
"""The response of each API, by API key."""
