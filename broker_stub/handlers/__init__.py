"""One file per API. Each registers its handler with the router, and begins with its versions, its behaviour and what it leaves out.

The APIs that every client uses at its start are imported with the stub, the others at their first request.
"""

from importlib import import_module

from fencepost.broker_stub.requests.router import announce
from fencepost.producer.wire import Api

_AT_START = (
    "api_versions",
    "create_topics",
    "describe_producers",
    "fetch",
    "find_coordinator",
    "init_producer_id",
    "list_offsets",
    "metadata",
    "produce",
)

_WHEN_ASKED = {
    Api.OFFSET_COMMIT: ("offset_commit", range(2, 11)),
    Api.OFFSET_FETCH: ("offset_fetch", range(1, 11)),
    Api.JOIN_GROUP: ("join_group", range(10)),
    Api.HEARTBEAT: ("heartbeat", range(5)),
    Api.LEAVE_GROUP: ("leave_group", range(6)),
    Api.SYNC_GROUP: ("sync_group", range(6)),
    Api.DESCRIBE_GROUPS: ("describe_groups", range(7)),
    Api.LIST_GROUPS: ("list_groups", range(6)),
    Api.SASL_HANDSHAKE: ("sasl_handshake", range(2)),
    Api.DELETE_TOPICS: ("delete_topics", range(1, 7)),
    Api.DELETE_RECORDS: ("delete_records", range(3)),
    Api.OFFSET_FOR_LEADER_EPOCH: ("offset_for_leader_epoch", range(2, 5)),
    Api.ADD_PARTITIONS_TO_TXN: ("add_partitions_to_txn", range(6)),
    Api.ADD_OFFSETS_TO_TXN: ("add_offsets_to_txn", range(5)),
    Api.END_TXN: ("end_txn", range(6)),
    Api.WRITE_TXN_MARKERS: ("write_txn_markers", range(1, 3)),
    Api.TXN_OFFSET_COMMIT: ("txn_offset_commit", range(6)),
    Api.DESCRIBE_ACLS: ("describe_acls", range(1, 4)),
    Api.CREATE_ACLS: ("create_acls", range(1, 4)),
    Api.DELETE_ACLS: ("delete_acls", range(1, 4)),
    Api.DESCRIBE_CONFIGS: ("describe_configs", range(1, 5)),
    Api.ALTER_CONFIGS: ("alter_configs", range(3)),
    Api.ALTER_REPLICA_LOG_DIRS: ("alter_replica_log_dirs", range(1, 3)),
    Api.DESCRIBE_LOG_DIRS: ("describe_log_dirs", range(1, 6)),
    Api.SASL_AUTHENTICATE: ("sasl_authenticate", range(3)),
    Api.CREATE_PARTITIONS: ("create_partitions", range(4)),
    Api.DELETE_GROUPS: ("delete_groups", range(3)),
    Api.ELECT_LEADERS: ("elect_leaders", range(3)),
    Api.INCREMENTAL_ALTER_CONFIGS: ("incremental_alter_configs", range(2)),
    Api.ALTER_PARTITION_REASSIGNMENTS: ("alter_partition_reassignments", range(2)),
    Api.LIST_PARTITION_REASSIGNMENTS: ("list_partition_reassignments", range(1)),
    Api.OFFSET_DELETE: ("offset_delete", range(1)),
    Api.DESCRIBE_CLIENT_QUOTAS: ("describe_client_quotas", range(2)),
    Api.ALTER_CLIENT_QUOTAS: ("alter_client_quotas", range(2)),
    Api.DESCRIBE_USER_SCRAM_CREDENTIALS: ("describe_user_scram_credentials", range(1)),
    Api.ALTER_USER_SCRAM_CREDENTIALS: ("alter_user_scram_credentials", range(1)),
    Api.DESCRIBE_QUORUM: ("describe_quorum", range(3)),
    Api.UPDATE_FEATURES: ("update_features", range(3)),
    Api.DESCRIBE_CLUSTER: ("describe_cluster", range(3)),
    Api.UNREGISTER_BROKER: ("unregister_broker", range(1)),
    Api.DESCRIBE_TRANSACTIONS: ("describe_transactions", range(1)),
    Api.LIST_TRANSACTIONS: ("list_transactions", range(3)),
    Api.CONSUMER_GROUP_HEARTBEAT: ("consumer_group_heartbeat", range(2)),
    Api.CONSUMER_GROUP_DESCRIBE: ("consumer_group_describe", range(2)),
    Api.GET_TELEMETRY_SUBSCRIPTIONS: ("get_telemetry_subscriptions", range(1)),
    Api.PUSH_TELEMETRY: ("push_telemetry", range(1)),
    Api.LIST_CONFIG_RESOURCES: ("list_config_resources", range(2)),
    Api.DESCRIBE_TOPIC_PARTITIONS: ("describe_topic_partitions", range(1)),
    Api.SHARE_GROUP_HEARTBEAT: ("share_group_heartbeat", range(1, 2)),
    Api.SHARE_GROUP_DESCRIBE: ("share_group_describe", range(1, 2)),
    Api.SHARE_FETCH: ("share_fetch", range(1, 3)),
    Api.SHARE_ACKNOWLEDGE: ("share_acknowledge", range(1, 3)),
    Api.INITIALIZE_SHARE_GROUP_STATE: ("initialize_share_group_state", range(1)),
    Api.READ_SHARE_GROUP_STATE: ("read_share_group_state", range(1)),
    Api.WRITE_SHARE_GROUP_STATE: ("write_share_group_state", range(2)),
    Api.DELETE_SHARE_GROUP_STATE: ("delete_share_group_state", range(1)),
    Api.READ_SHARE_GROUP_STATE_SUMMARY: ("read_share_group_state_summary", range(2)),
    Api.DESCRIBE_SHARE_GROUP_OFFSETS: ("describe_share_group_offsets", range(2)),
    Api.ALTER_SHARE_GROUP_OFFSETS: ("alter_share_group_offsets", range(1)),
    Api.DELETE_SHARE_GROUP_OFFSETS: ("delete_share_group_offsets", range(1)),
}


def register() -> None:
    """Registers or announces every handler. A second call does nothing."""
    for api, (name, versions) in _WHEN_ASKED.items():
        announce(api, f"{__name__}.{name}", versions)
    for name in _AT_START:
        import_module(f"{__name__}.{name}")
