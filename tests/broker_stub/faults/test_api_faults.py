"""Faults at the APIs of groups and administrators: an injected code is where a client looks for it, and what was not begun is not done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from fencepost.broker_stub.faults.groups_and_transactional_ids import groups_of
from fencepost.broker_stub.faults.rules import Fault, Rule
from fencepost.broker_stub.faults.topics_and_partitions import ASKED, asks_for_all
from fencepost.broker_stub.groups.state.pending_offsets import Committed
from fencepost.broker_stub.requests.router import served
from fencepost.broker_stub.security.acls import Acl
from fencepost.producer import wire
from fencepost.producer.wire import Api, ErrorCode
from fencepost.producer.wire.messages import (
    acls,
    add_to_txn,
    alter_quotas,
    cluster,
    cluster_admin,
    config_resources,
    configs,
    consumer_group_admin,
    consumer_groups,
    describe_quotas,
    describe_transactions,
    end_txn,
    group_admin,
    group_offsets,
    groups,
    incremental_configs,
    list_transactions,
    log_dirs,
    offset_for_leader_epoch,
    quorum,
    replicas,
    scram_credentials,
    share_fetch,
    share_groups,
    share_offsets,
    share_state,
    telemetry,
    topic_admin,
    txn_offsets,
)
from fencepost.producer.wire.schema.declarations import describe
from fencepost.producer.wire.schema.fields import NEVER
from tests.broker_stub.groups.group_calls import Groups
from tests.drawn import drawn

CODE = ErrorCode.REQUEST_TIMED_OUT
TOPIC = 2

REQUESTS: dict[Api, wire.Message] = {
    Api.OFFSET_COMMIT: group_offsets.OffsetCommitRequest(
        group_id="g",
        topics=[
            group_offsets.OffsetCommitRequestTopic(name="t", partitions=[group_offsets.OffsetCommitRequestPartition(committed_offset=1)])
        ],
    ),
    Api.OFFSET_FETCH: group_offsets.OffsetFetchRequest(
        groups=[
            group_offsets.OffsetFetchRequestGroup(
                group_id="g", topics=[group_offsets.OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
            )
        ]
    ),
    Api.OFFSET_DELETE: group_offsets.OffsetDeleteRequest(
        group_id="empty",
        topics=[group_offsets.OffsetDeleteRequestTopic(name="t", partitions=[group_offsets.OffsetDeleteRequestPartition()])],
    ),
    Api.JOIN_GROUP: groups.JoinGroupRequest(
        group_id="new",
        session_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[groups.JoinGroupRequestProtocol(name="range")],
    ),
    Api.SYNC_GROUP: groups.SyncGroupRequest(group_id="g", protocol_type="consumer", protocol_name="range"),
    Api.HEARTBEAT: groups.HeartbeatRequest(group_id="g"),
    Api.LEAVE_GROUP: groups.LeaveGroupRequest(group_id="g", members=[groups.MemberIdentity(member_id="x")]),
    Api.CONSUMER_GROUP_HEARTBEAT: consumer_groups.ConsumerGroupHeartbeatRequest(
        group_id="new", member_id="m", rebalance_timeout_ms=1, subscribed_topic_names=["t"], topic_partitions=[]
    ),
    Api.CONSUMER_GROUP_DESCRIBE: consumer_group_admin.ConsumerGroupDescribeRequest(group_ids=["g"]),
    Api.DESCRIBE_GROUPS: group_admin.DescribeGroupsRequest(groups=["g"]),
    Api.LIST_GROUPS: group_admin.ListGroupsRequest(),
    Api.DELETE_GROUPS: group_admin.DeleteGroupsRequest(groups_names=["empty"]),
    Api.DELETE_TOPICS: topic_admin.DeleteTopicsRequest(topics=[topic_admin.DeleteTopicState(name="t")]),
    Api.DELETE_RECORDS: topic_admin.DeleteRecordsRequest(
        topics=[topic_admin.DeleteRecordsTopic(name="t", partitions=[topic_admin.DeleteRecordsPartition(offset=0)])]
    ),
    Api.CREATE_PARTITIONS: topic_admin.CreatePartitionsRequest(
        topics=[topic_admin.CreatePartitionsTopic(name="t", count=2, assignments=None)]
    ),
    Api.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch.OffsetForLeaderEpochRequest(
        topics=[offset_for_leader_epoch.OffsetForLeaderTopic(topic="t", partitions=[offset_for_leader_epoch.OffsetForLeaderPartition()])]
    ),
    Api.ADD_PARTITIONS_TO_TXN: add_to_txn.AddPartitionsToTxnRequest(
        transactions=[
            add_to_txn.AddPartitionsToTxnTransaction(
                transactional_id="x", topics=[add_to_txn.AddPartitionsToTxnTopic(name="t", partitions=[0])]
            )
        ]
    ),
    Api.ADD_OFFSETS_TO_TXN: add_to_txn.AddOffsetsToTxnRequest(transactional_id="x", group_id="g"),
    Api.END_TXN: end_txn.EndTxnRequest(transactional_id="x"),
    Api.WRITE_TXN_MARKERS: end_txn.WriteTxnMarkersRequest(
        markers=[end_txn.WritableTxnMarker(topics=[end_txn.WritableTxnMarkerTopic(name="t", partition_indexes=[0])])]
    ),
    Api.TXN_OFFSET_COMMIT: txn_offsets.TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        topics=[txn_offsets.TxnOffsetCommitRequestTopic(name="t", partitions=[txn_offsets.TxnOffsetCommitRequestPartition()])],
    ),
    Api.DESCRIBE_TRANSACTIONS: describe_transactions.DescribeTransactionsRequest(transactional_ids=["x"]),
    Api.LIST_TRANSACTIONS: list_transactions.ListTransactionsRequest(),
    Api.DESCRIBE_ACLS: acls.DescribeAclsRequest(
        resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1, operation=1, permission_type=1
    ),
    Api.CREATE_ACLS: acls.CreateAclsRequest(
        creations=[acls.AclCreation(resource_type=TOPIC, resource_name="t", principal="User:bob", host="*", operation=3, permission_type=3)]
    ),
    Api.DELETE_ACLS: acls.DeleteAclsRequest(
        filters=[
            acls.DeleteAclsFilter(
                resource_type_filter=TOPIC,
                resource_name_filter="t",
                principal_filter=None,
                host_filter=None,
                operation=1,
                permission_type=1,
            )
        ]
    ),
    Api.DESCRIBE_CLIENT_QUOTAS: describe_quotas.DescribeClientQuotasRequest(),
    Api.DESCRIBE_USER_SCRAM_CREDENTIALS: scram_credentials.DescribeUserScramCredentialsRequest(),
    Api.ALTER_USER_SCRAM_CREDENTIALS: scram_credentials.AlterUserScramCredentialsRequest(
        upsertions=[scram_credentials.ScramCredentialUpsertion(name="bob", mechanism=1, iterations=4096, salt=b"s", salted_password=b"p")]
    ),
    Api.ALTER_CLIENT_QUOTAS: alter_quotas.AlterClientQuotasRequest(
        entries=[
            alter_quotas.EntryData(
                entity=[alter_quotas.EntityData(entity_type="user", entity_name="bob")],
                ops=[alter_quotas.OpData(key="producer_byte_rate", value=1e9)],
            )
        ]
    ),
    Api.DESCRIBE_CONFIGS: configs.DescribeConfigsRequest(
        resources=[configs.DescribeConfigsResource(resource_type=TOPIC, resource_name="t", configuration_keys=None)]
    ),
    Api.ALTER_CONFIGS: configs.AlterConfigsRequest(
        resources=[
            configs.AlterConfigsResource(
                resource_type=TOPIC, resource_name="t", configs=[configs.AlterableConfig(name="retention.ms", value="1")]
            )
        ]
    ),
    Api.INCREMENTAL_ALTER_CONFIGS: incremental_configs.IncrementalAlterConfigsRequest(
        resources=[
            incremental_configs.AlterConfigsResource(
                resource_type=TOPIC, resource_name="t", configs=[incremental_configs.AlterableConfig(name="retention.ms", value="1")]
            )
        ]
    ),
    Api.ELECT_LEADERS: replicas.ElectLeadersRequest(topic_partitions=[replicas.TopicPartitions(topic="t", partitions=[0])]),
    Api.ALTER_PARTITION_REASSIGNMENTS: replicas.AlterPartitionReassignmentsRequest(
        topics=[replicas.ReassignableTopic(name="t", partitions=[replicas.ReassignablePartition(replicas=[1])])]
    ),
    Api.ALTER_REPLICA_LOG_DIRS: log_dirs.AlterReplicaLogDirsRequest(
        dirs=[log_dirs.AlterReplicaLogDir(path="/d", topics=[log_dirs.AlterReplicaLogDirTopic(name="t", partitions=[0])])]
    ),
    Api.DESCRIBE_LOG_DIRS: log_dirs.DescribeLogDirsRequest(topics=[log_dirs.DescribableLogDirTopic(topic="t", partitions=[0])]),
    Api.LIST_PARTITION_REASSIGNMENTS: replicas.ListPartitionReassignmentsRequest(),
    Api.DESCRIBE_CLUSTER: cluster.DescribeClusterRequest(),
    Api.DESCRIBE_QUORUM: quorum.DescribeQuorumRequest(
        topics=[quorum.TopicData(topic_name="__cluster_metadata", partitions=[quorum.PartitionData()])]
    ),
    Api.UPDATE_FEATURES: cluster_admin.UpdateFeaturesRequest(
        feature_updates=[cluster_admin.FeatureUpdateKey(feature="transaction.version", max_version_level=1, upgrade_type=2)]
    ),
    Api.UNREGISTER_BROKER: cluster_admin.UnregisterBrokerRequest(broker_id=2),
    Api.GET_TELEMETRY_SUBSCRIPTIONS: telemetry.GetTelemetrySubscriptionsRequest(),
    Api.PUSH_TELEMETRY: telemetry.PushTelemetryRequest(client_instance_id=UUID(int=7)),
    Api.LIST_CONFIG_RESOURCES: config_resources.ListConfigResourcesRequest(),
    Api.DESCRIBE_TOPIC_PARTITIONS: cluster.DescribeTopicPartitionsRequest(topics=[cluster.TopicRequest(name="t")]),
    Api.SHARE_GROUP_HEARTBEAT: share_groups.ShareGroupHeartbeatRequest(group_id="new", member_id="m", subscribed_topic_names=["t"]),
    Api.SHARE_GROUP_DESCRIBE: share_groups.ShareGroupDescribeRequest(group_ids=["g"]),
    Api.SHARE_FETCH: share_fetch.ShareFetchRequest(
        group_id="new", member_id="m", max_records=1, topics=[share_fetch.FetchTopic(partitions=[share_fetch.FetchPartition()])]
    ),
    Api.SHARE_ACKNOWLEDGE: share_fetch.ShareAcknowledgeRequest(group_id="new", member_id="m", share_session_epoch=1),
    Api.INITIALIZE_SHARE_GROUP_STATE: share_state.InitializeShareGroupStateRequest(
        group_id="new", topics=[share_state.InitializedTopic(partitions=[share_state.InitializedPartition()])]
    ),
    Api.READ_SHARE_GROUP_STATE: share_state.ReadShareGroupStateRequest(
        group_id="new", topics=[share_state.ReadTopic(partitions=[share_state.ReadPartition()])]
    ),
    Api.WRITE_SHARE_GROUP_STATE: share_state.WriteShareGroupStateRequest(
        group_id="new", topics=[share_state.WrittenTopic(partitions=[share_state.WrittenPartition()])]
    ),
    Api.DELETE_SHARE_GROUP_STATE: share_state.DeleteShareGroupStateRequest(
        group_id="new", topics=[share_state.DeletedTopic(partitions=[share_state.DeletedPartition()])]
    ),
    Api.READ_SHARE_GROUP_STATE_SUMMARY: share_state.ReadShareGroupStateSummaryRequest(
        group_id="new", topics=[share_state.ReadTopic(partitions=[share_state.ReadPartition()])]
    ),
    Api.DESCRIBE_SHARE_GROUP_OFFSETS: share_offsets.DescribeShareGroupOffsetsRequest(
        groups=[share_offsets.DescribeShareGroupOffsetsRequestGroup(group_id="shared", topics=None)]
    ),
    Api.ALTER_SHARE_GROUP_OFFSETS: share_offsets.AlterShareGroupOffsetsRequest(
        group_id="shared",
        topics=[
            share_offsets.AlterShareGroupOffsetsRequestTopic(
                topic_name="t", partitions=[share_offsets.AlterShareGroupOffsetsRequestPartition()]
            )
        ],
    ),
    Api.DELETE_SHARE_GROUP_OFFSETS: share_offsets.DeleteShareGroupOffsetsRequest(
        group_id="shared", topics=[share_offsets.DeleteShareGroupOffsetsRequestTopic(topic_name="t")]
    ),
}

ELSEWHERE = {Api.SASL_HANDSHAKE, Api.SASL_AUTHENTICATE}
AT_START = {
    Api.PRODUCE,
    Api.FETCH,
    Api.LIST_OFFSETS,
    Api.METADATA,
    Api.FIND_COORDINATOR,
    Api.API_VERSIONS,
    Api.CREATE_TOPICS,
    Api.INIT_PRODUCER_ID,
    Api.DESCRIBE_PRODUCERS,
}
"""These are tested in test_faults."""

BY_NAME = {Api.OFFSET_COMMIT: 9, Api.OFFSET_FETCH: 9}
POINTS = pytest.mark.parametrize("point", ["before", "after_append", "reply"])
ONE_POINT = drawn(3, kind=lambda row: row["api"])
"""A run takes each API at one point."""
ABOUT_TOPICS = [
    api
    for api in REQUESTS
    if api not in (Api.ELECT_LEADERS, Api.CREATE_ACLS, Api.DELETE_ACLS, Api.CONSUMER_GROUP_HEARTBEAT, Api.SHARE_GROUP_HEARTBEAT)
    and "'t'" in repr(REQUESTS[api])
]


@pytest.fixture
def world() -> Groups:
    """A topic, a group with a member, and one and a share group without; everybody may do everything."""
    world = Groups(super_users=["ANONYMOUS"], acls=[Acl.allow("alice", "READ", topic="t")])
    world.topic()
    world.stable("a")
    world.commit("t", 1, group="empty")
    world.start(REQUESTS[Api.ALTER_SHARE_GROUP_OFFSETS], 0)
    return world


def faulty(world: Groups, api: Api, point: str, *, topic: str | None = None) -> Fault:
    rule: Rule = world.cluster.faults.on(api)
    rule = rule.where(topic=topic) if topic is not None else rule
    placed: Rule = getattr(rule, point)()
    return placed.error(CODE)


def ask(world: Groups, api: Api) -> Any:
    """In the newest version that goes by names."""
    version = next(each.highest for each in served() if each.api == api) if api not in BY_NAME else BY_NAME[api]
    return world.start(REQUESTS[api], version).answer


def codes(answer: Any) -> Iterator[int]:
    """Every error code in an answer."""
    if isinstance(answer, list):
        for each in answer:
            yield from codes(each)
    for name in getattr(answer, "__struct_fields__", ()):
        value = getattr(answer, name)
        if name in ("error_code", "partition_error_code"):
            yield value
        else:
            yield from codes(value)


def state(world: Groups) -> Any:
    """What these requests could change."""
    topics = {topic.name: (len(topic.partitions), dict(topic.overrides)) for topic in world.cluster.topics}
    shards = world.services.groups.shards_of(1)
    known = {group for shard in shards for group in shard.groups.groups}
    shared = {group.id: group.kept for shard in shards for group in shard.shares.groups.values()}
    authorizer = world.cluster.authorizer
    assert authorizer is not None
    return (
        topics,
        known,
        shared,
        world.committed("t"),
        world.committed("t", group="empty"),
        authorizer.acls,
        dict(world.cluster.quotas.entries),
        [*world.cluster.scram_credentials.users()],
        dict(world.cluster.features),
        world.cluster.live,
        [*world.services.telemetry.pushes],
    )


def test_every_api_is_here() -> None:
    """Every API of the stub is tested here or in test_faults.py."""
    assert {each.api for each in served()} == set(REQUESTS) | AT_START | ELSEWHERE


@ONE_POINT
@POINTS
@pytest.mark.parametrize("api", REQUESTS, ids=lambda api: api.name)
def test_every_api_can_be_made_to_fail(world: Groups, api: Api, point: str) -> None:
    """The code is in the answer; refused at the door, the request changes nothing; and the next one is served."""
    before = state(world)
    fault = faulty(world, api, point)
    answer = ask(world, api)
    assert CODE in codes(answer)
    assert fault.hits == 1
    if point == "before":
        assert state(world) == before
    assert CODE not in codes(ask(world, api))


@ONE_POINT
@POINTS
@pytest.mark.parametrize("api", ABOUT_TOPICS, ids=lambda api: api.name)
def test_faults_find_their_topic(world: Groups, api: Api, point: str) -> None:
    """A rule for one topic is about requests that name it, and about no others, wherever it acts."""
    before = state(world)
    other = faulty(world, api, point, topic="other")
    fault = faulty(world, api, point, topic="t")
    assert CODE in codes(ask(world, api))
    assert (fault.hits, other.hits) == (1, 0)
    if point == "before":
        assert state(world) == before


FOR_ALL: list[tuple[wire.Message, int]] = [
    (wire.MetadataRequest(topics=None), 12),
    (wire.MetadataRequest(topics=[]), 0),
    (group_offsets.OffsetFetchRequest(group_id="empty", topics=None), 7),
    (group_offsets.OffsetFetchRequest(groups=[group_offsets.OffsetFetchRequestGroup(group_id="empty", topics=None)]), 9),
    (replicas.ElectLeadersRequest(topic_partitions=None), 2),
    (replicas.ListPartitionReassignmentsRequest(topics=None), 0),
    (log_dirs.DescribeLogDirsRequest(topics=None), 5),
    (cluster.DescribeTopicPartitionsRequest(topics=[]), 0),
]
"""Requests that name no topic because they are about every one, as null or an empty list says there."""


@POINTS
@pytest.mark.parametrize(("request_", "version"), FOR_ALL, ids=lambda value: getattr(value, "api", value))
def test_a_request_for_all_is_about_each(point: str, request_: wire.Message, version: int) -> None:
    """A rule for one topic, or one partition of it, meets a request for all topics where that topic is there: the error is where the topic
    is told, and the others are told as they are. A topic that is not there is not asked for."""
    world = Groups(brokers=2)
    for name in ("t", "u"):
        world.topic(name, replicas=2)
        partition = world.cluster.find(name, 0)
        assert partition is not None
        world.cluster.move_leader(partition)
        world.commit(name, 3, group="empty")
    other = faulty(world, request_.api, point, topic="other")
    elsewhere: Fault = getattr(world.cluster.faults.on().where(topic="t", partition=7), point)().error(CODE)
    fault = faulty(world, request_.api, point, topic="t")
    answer = world.start(request_, version, node=world.coordinator("empty")).answer
    assert (fault.hits, other.hits, elsewhere.hits) == (1, 0, 0)
    told = {name: set(codes(entry)) for name, entry in entries(answer)}
    if request_.api in (Api.LIST_PARTITION_REASSIGNMENTS, Api.DESCRIBE_LOG_DIRS):
        assert answer.error_code == CODE
    else:
        assert CODE in told["t"]
        assert told["u"] == {0}


def entries(answer: Any) -> Iterator[tuple[str, Any]]:
    """What an answer tells of each topic."""
    for group in getattr(answer, "groups", []) or [answer]:
        for entry in getattr(group, "topics", []) or getattr(group, "replica_election_results", []):
            yield getattr(entry, "name", None) or entry.topic, getattr(entry, "partition_result", entry)


def test_every_list_that_may_be_null_asks_for_all() -> None:
    """For every message with a list of topics that may be null, a request whose list is null is for all topics. It holds for messages that
    are added later."""
    found: set[int] = set()
    for api, (topics, _, _) in ASKED.items():
        for field in describe(wire.REQUESTS[api]):
            if field.name == topics and field.nullable != NEVER:
                assert asks_for_all(replace(wire.REQUESTS[api](), **{topics: None}), wire.REQUESTS[api].versions.stop - 1)
                found.add(api)
    assert found == {request.api for request, _ in FOR_ALL} - {Api.DESCRIBE_TOPIC_PARTITIONS}


@ONE_POINT
@POINTS
@pytest.mark.parametrize("api", [api for api in REQUESTS if groups_of(REQUESTS[api])], ids=lambda api: api.name)
def test_faults_find_their_group(world: Groups, api: Api, point: str) -> None:
    """A rule for one group is about requests that name it, and about no others."""
    (group,) = groups_of(REQUESTS[api])
    other: Fault = getattr(world.cluster.faults.on(api).where(group=f"not {group}"), point)().error(CODE)
    fault: Fault = getattr(world.cluster.faults.on().where(group=group), point)().error(CODE)
    assert CODE in codes(ask(world, api))
    assert (fault.hits, other.hits) == (1, 0)


@POINTS
@pytest.mark.parametrize("version", [1, 5, 7, 8, 10])
def test_one_partition_of_many_offsets_fails(world: Groups, point: str, version: int) -> None:
    """OffsetFetch answers for each partition, in groups or without: the rule's partition has the code and no offset, its neighbour is as
    it was; and a rule that names none is about all of it."""
    world.topic("two", partitions=2)
    topic = world.cluster.topics.named("two")
    assert topic is not None
    for partition in (0, 1):
        world.services.groups.shard_for("g", world.coordinator()).offsets.commit(
            {("g", "two", partition): Committed(5, -1, "", topic.id)}, lambda code: None
        )
    getattr(world.cluster.faults.on(Api.OFFSET_FETCH).where(topic="two", partition=1), point)().error(CODE)
    assert offsets(world, version) == [(5, 0), (-1, CODE)]
    assert offsets(world, version) == [(5, 0), (5, 0)]
    getattr(world.cluster.faults.on(Api.OFFSET_FETCH), point)().error(CODE)
    assert CODE in codes(world.start(offset_fetch(world, version), version).answer)


def offsets(world: Groups, version: int) -> list[tuple[int, int]]:
    """Offset and code of each of the two partitions."""
    answer = world.start(offset_fetch(world, version), version).answer
    (topic,) = answer.groups[0].topics if answer.groups else answer.topics
    return [(each.committed_offset, each.error_code) for each in topic.partitions]


def offset_fetch(world: Groups, version: int) -> wire.Message:
    if version < 8:
        topics = [group_offsets.OffsetFetchRequestTopic(name="two", partition_indexes=[0, 1])]
        return group_offsets.OffsetFetchRequest(group_id="g", topics=topics)
    topic = world.cluster.topics.named("two")
    assert topic is not None
    asked = group_offsets.OffsetFetchRequestTopics(name="two", topic_id=topic.id, partition_indexes=[0, 1])
    return group_offsets.OffsetFetchRequest(groups=[group_offsets.OffsetFetchRequestGroup(group_id="g", topics=[asked])])


@POINTS
@pytest.mark.parametrize("version", range(6))
def test_one_topic_of_many_in_a_transaction_fails(world: Groups, point: str, version: int) -> None:
    """AddPartitionsToTxn answers for each partition, from version 4 on in transactions: only the rule's topic has the code."""
    world.topic("other")
    topics = [add_to_txn.AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in ("t", "other")]
    getattr(world.cluster.faults.on(Api.ADD_PARTITIONS_TO_TXN).where(topic="t"), point)().error(CODE)
    asked = add_to_txn.AddPartitionsToTxnTransaction(transactional_id="nobody", topics=topics)
    request = (
        add_to_txn.AddPartitionsToTxnRequest(v3_and_below_transactional_id="nobody", v3_and_below_topics=topics)
        if version < 4
        else add_to_txn.AddPartitionsToTxnRequest(transactions=[asked])
    )
    answer: Any = world.start(request, version).answer
    results = answer.results_by_topic_v3_and_below if version < 4 else answer.results_by_transaction[0].topic_results
    assert answer.error_code == 0
    assert {each.name: CODE in codes(each) for each in results} == {"t": True, "other": False}


@POINTS
def test_a_topic_that_is_deleted_by_its_id_is_found(world: Groups, point: str) -> None:
    """A rule finds the topic also if it acts after the deletion, when the id has no topic any more."""
    world.topic("other")
    ids = {topic.name: topic.id for topic in world.cluster.topics}
    fault = getattr(world.cluster.faults.on(Api.DELETE_TOPICS).where(topic="t"), point)().error(CODE)
    request = topic_admin.DeleteTopicsRequest(topics=[topic_admin.DeleteTopicState(topic_id=ids[name]) for name in ("t", "other")])
    answer: Any = world.start(request, 6).answer
    assert fault.hits == 1
    assert {each.topic_id: each.error_code for each in answer.responses} == {ids["t"]: CODE, ids["other"]: 0}
