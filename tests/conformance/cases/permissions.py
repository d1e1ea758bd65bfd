"""The permissions that each API needs: every response without any permission, and then with one after the other."""

from fencepost.broker_stub.security.operations import Operation, Resource
from fencepost.producer import wire
from fencepost.producer.wire.messages import (
    cluster,
    configs,
    group_admin,
    incremental_configs,
    log_dirs,
    offset_for_leader_epoch,
    replicas,
    topic_admin,
)
from tests.conformance.asks_acls import creation
from tests.conformance.batches import TRANSACTIONAL, Batch, plain
from tests.conformance.holding import Held, each_holding, on_cluster, on_group, on_topic
from tests.conformance.world import World, case


@case(guarded=True)
def metadata(w: World) -> None:
    """Metadata leaves out topics without DESCRIBE, or names them without a description. To create a topic, it needs CREATE."""
    w.no_acls()
    topic, missing = w.topic(), w.missing_topic()
    named = [wire.MetadataRequestTopic(name=name) for name in (topic.name, missing.name, "__consumer_offsets", "a b")]
    wild = creation(Operation.DESCRIBE, Resource.TOPIC, "*")
    for version in (0, 4, 12):
        request = wire.MetadataRequest(topics=named, allow_auto_topic_creation=version < 4)
        each_holding(w, request, version, on_topic(topic, Operation.DESCRIBE), what=f"v{version}")
    quiet = wire.MetadataRequest(topics=named[:2] + named[3:], allow_auto_topic_creation=False)
    each_holding(w, quiet, 12, [wild], on_topic(missing, Operation.DESCRIBE), on_topic(topic, Operation.WRITE), what="not created")
    each_holding(w, wire.MetadataRequest(topics=[]), 12, what="no topics")
    for version, everything in ((0, []), (1, None), (12, None)):
        request = wire.MetadataRequest(topics=everything)
        each_holding(w, request, version, on_topic(topic, Operation.READ), what=f"v{version} every topic")
    by_id = wire.MetadataRequest(topics=[wire.MetadataRequestTopic(topic_id=each.id, name=None) for each in (topic, missing)])
    each_holding(w, by_id, 12, on_topic(topic, Operation.DESCRIBE), what="by id")


@case(guarded=True)
def topics_on_demand(w: World) -> None:
    """Metadata creates a topic for a client with DESCRIBE and CREATE on it, or with CREATE on the cluster."""
    w.no_acls()
    describe, create = Operation.DESCRIBE, Operation.CREATE
    for version in (0, 4, 12):
        name = w.fresh_name()
        request = wire.MetadataRequest(topics=[wire.MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)
        each_holding(w, request, version, on_topic(name, create), on_topic(name, describe), on_cluster(create), what=f"v{version}")
        each_holding(w, request, version, on_topic(name, describe, create), what=f"v{version} at last")
        name = w.fresh_name()
        request = wire.MetadataRequest(topics=[wire.MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)
        w.permit(*on_topic(name, describe), *on_cluster(create))
        w.say(request, version, user="alice", label=f"v{version} by CREATE on the cluster")
        w.known_topic(name)
        w.no_acls()


@case(guarded=True)
def authorized_operations(w: World) -> None:
    """With DESCRIBE a client gets its operations on the resource. Operations on the cluster are 0 without DESCRIBE on the cluster."""
    w.no_acls()
    topic, missing = w.topic(), w.missing_topic()
    some = on_topic(topic, Operation.READ, Operation.ALTER_CONFIGS)
    asked = [wire.MetadataRequestTopic(name=each.name) for each in (topic, missing)]
    request = wire.MetadataRequest(
        topics=asked,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    held = (some, on_topic(missing, Operation.READ), on_cluster(Operation.CREATE), on_cluster(Operation.CREATE, Operation.DESCRIBE))
    each_holding(w, request, 10, *held, what="Metadata")
    of_cluster = cluster.DescribeClusterRequest(include_cluster_authorized_operations=True)
    each_holding(w, of_cluster, 1, on_cluster(Operation.CREATE), on_cluster(Operation.ALTER), what="DescribeCluster")
    pages = cluster.DescribeTopicPartitionsRequest(topics=[cluster.TopicRequest(name=each.name) for each in (topic, missing)])
    each_holding(w, pages, 0, some, on_topic(missing, Operation.READ), what="DescribeTopicPartitions")
    each_holding(w, cluster.DescribeTopicPartitionsRequest(), 0, some, what="DescribeTopicPartitions of all")
    group = w.group()
    described = group_admin.DescribeGroupsRequest(groups=[group], include_authorized_operations=True)
    each_holding(w, described, 5, on_group(group, Operation.READ), on_group(group, Operation.ALL), what="DescribeGroups")


@case(guarded=True)
def produce(w: World) -> None:
    """WRITE on the topic, before the topic and the records are checked. Transactional records also need WRITE on the id."""
    w.no_acls()
    topic, missing = w.topic(), w.missing_topic()
    good, bad = plain().encode(), b"\0" * 70
    for version in (3, 12, 13):
        data = [
            wire.TopicProduceData(
                name=each.name if version < 13 else "",
                topic_id=each.id if version >= 13 else wire.ZERO_UUID,
                partition_data=[wire.PartitionProduceData(index=index, records=good) for index in (0, 7)],
            )
            for each in (topic, missing)
        ]
        request = wire.ProduceRequest(acks=-1, timeout_ms=1000, topic_data=data)
        each_holding(w, request, version, on_topic(topic, Operation.READ), on_topic(missing, Operation.WRITE), what=f"v{version}")
    damaged = wire.TopicProduceData(name=topic.name, partition_data=[wire.PartitionProduceData(records=bad)])
    each_holding(w, wire.ProduceRequest(acks=-1, topic_data=[damaged]), 9, what="damaged")
    each_holding(w, wire.ProduceRequest(acks=5, topic_data=[damaged]), 9, what="acks 5")
    silent = wire.TopicProduceData(name=topic.name, partition_data=[wire.PartitionProduceData(records=good)])
    w.say_into_the_dark(wire.ProduceRequest(acks=0, topic_data=[silent]), 9, user="alice", label="acks 0")
    name = w.fresh_name()
    within = wire.TopicProduceData(
        name=topic.name,
        partition_data=[wire.PartitionProduceData(records=Batch(pid=w.pid(), epoch=0, sequence=0, attributes=TRANSACTIONAL).encode())],
    )
    request = wire.ProduceRequest(transactional_id=name, acks=-1, timeout_ms=1000, topic_data=[within])
    each_holding(
        w,
        request,
        9,
        [creation(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, name)],
        [creation(Operation.WRITE, Resource.TRANSACTIONAL_ID, name)],
        what="transactional",
    )


@case(guarded=True)
def reading(w: World) -> None:
    """READ to fetch and to describe producers, DESCRIBE for offsets and epochs, DELETE for DeleteRecords."""
    w.no_acls()
    topic, missing = w.topic(), w.missing_topic()
    both = (topic, missing)
    for version in (4, 12, 13):
        fetch = wire.FetchRequest(
            max_wait_ms=0,
            max_bytes=1 << 20,
            topics=[
                wire.FetchTopic(
                    topic=each.name if version < 13 else "",
                    topic_id=each.id if version >= 13 else wire.ZERO_UUID,
                    partitions=[wire.FetchPartition(partition_max_bytes=1 << 20)],
                )
                for each in both
            ],
        )
        each_holding(w, fetch, version, on_topic(topic, Operation.DESCRIBE), on_topic(topic, Operation.READ), what=f"Fetch v{version}")
    parts = [wire.ListOffsetsPartition(timestamp=-1)]
    for version in (1, 7):
        offsets = wire.ListOffsetsRequest(topics=[wire.ListOffsetsTopic(name=each.name, partitions=parts) for each in both])
        each_holding(w, offsets, version, on_topic(topic, Operation.DESCRIBE), what=f"ListOffsets v{version}")
    twice = wire.ListOffsetsRequest(topics=[wire.ListOffsetsTopic(name=topic.name, partitions=parts * 2)])
    each_holding(w, twice, 7, on_topic(topic, Operation.DESCRIBE), what="ListOffsets twice")
    asked = [
        offset_for_leader_epoch.OffsetForLeaderTopic(topic=each.name, partitions=[offset_for_leader_epoch.OffsetForLeaderPartition()])
        for each in both
    ]
    ends = offset_for_leader_epoch.OffsetForLeaderEpochRequest(topics=asked)
    held: tuple[Held, ...] = (on_topic(topic, Operation.DESCRIBE), on_cluster(Operation.DESCRIBE), on_cluster(Operation.CLUSTER_ACTION))
    each_holding(w, ends, 4, *held, what="OffsetForLeaderEpoch")
    producers = wire.DescribeProducersRequest(topics=[wire.TopicRequest(name=each.name, partition_indexes=[0]) for each in both])
    each_holding(w, producers, 0, on_topic(topic, Operation.DESCRIBE), on_topic(topic, Operation.READ), what="DescribeProducers")
    illegal = wire.DescribeProducersRequest(topics=[wire.TopicRequest(name=name, partition_indexes=[0]) for name in ("", "a b")])
    each_holding(w, illegal, 0, what="DescribeProducers of illegal names")
    records = topic_admin.DeleteRecordsRequest(
        topics=[
            topic_admin.DeleteRecordsTopic(name=each.name, partitions=[topic_admin.DeleteRecordsPartition(offset=-1)]) for each in both
        ],
        timeout_ms=10_000,
    )
    each_holding(w, records, 2, on_topic(topic, Operation.WRITE), on_topic(topic, Operation.DELETE), what="DeleteRecords")


@case(guarded=True)
def topics(w: World) -> None:
    """CREATE and DELETE on the topic or the cluster, ALTER for more partitions. Topics without DESCRIBE look like unknown ones."""
    w.no_acls()
    taken, missing = w.topic(), w.missing_topic()
    for version in (4, 7):
        names = [w.fresh_name(), w.fresh_name()]
        wanted = [wire.CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in (*names, taken.name, "a b")]
        request = wire.CreateTopicsRequest(topics=wanted, timeout_ms=10_000)
        held: tuple[Held, ...] = (on_topic(names[0], Operation.CREATE), on_topic(names[0], Operation.ALL), on_cluster(Operation.CREATE))
        each_holding(w, request, version, *held, what=f"CreateTopics v{version}")
        name = w.fresh_name()
        one = wire.CreateTopicsRequest(topics=[wire.CreatableTopic(name=name, num_partitions=1, replication_factor=1)], timeout_ms=10_000)
        each_holding(
            w, one, version, on_topic(name, Operation.CREATE, Operation.DESCRIBE_CONFIGS), what=f"CreateTopics v{version} with configs"
        )
        twice = wire.CreateTopicsRequest(topics=wanted[:1] * 2, timeout_ms=10_000)
        each_holding(w, twice, version, what=f"CreateTopics v{version} twice")
    more = topic_admin.CreatePartitionsRequest(
        topics=[topic_admin.CreatePartitionsTopic(name=each.name, count=2) for each in (taken, missing)], timeout_ms=10_000
    )
    each_holding(
        w,
        more,
        3,
        on_topic(taken, Operation.CREATE),
        on_topic(missing, Operation.ALTER),
        on_topic(taken, Operation.ALTER),
        what="CreatePartitions",
    )
    by_name = topic_admin.DeleteTopicsRequest(
        topics=[topic_admin.DeleteTopicState(name=each.name) for each in (taken, missing)], timeout_ms=10_000
    )
    by_id = topic_admin.DeleteTopicsRequest(
        topics=[topic_admin.DeleteTopicState(topic_id=each.id) for each in (taken, missing)], timeout_ms=10_000
    )
    for delete, how in ((by_name, "by name"), (by_id, "by id")):
        each_holding(
            w,
            delete,
            6,
            on_topic(taken, Operation.DESCRIBE),
            on_topic(missing, Operation.DESCRIBE),
            on_topic(missing, Operation.DELETE),
            what=f"DeleteTopics {how}",
        )
    each_holding(w, by_name, 6, on_topic(taken, Operation.DELETE), on_cluster(Operation.DELETE), what="DeleteTopics at last")


@case(guarded=True)
def configs_of_topics_and_brokers(w: World) -> None:
    """DESCRIBE_CONFIGS and ALTER_CONFIGS, on the topic or for brokers on the cluster."""
    w.no_acls()
    topic, missing = w.topic(), w.missing_topic()
    asked = [(2, topic.name), (2, missing.name), (2, "a b"), (4, str(w.nodes[0])), (4, "99"), (8, str(w.nodes[0]))]
    describe = configs.DescribeConfigsRequest(
        resources=[configs.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=[]) for kind, name in asked]
    )
    held: tuple[Held, ...] = (
        on_topic(topic, Operation.DESCRIBE),
        on_topic(topic, Operation.DESCRIBE_CONFIGS),
        on_topic(topic, Operation.ALTER_CONFIGS),
        on_topic(missing, Operation.DESCRIBE_CONFIGS),
        on_cluster(Operation.DESCRIBE_CONFIGS),
    )
    each_holding(w, describe, 4, *held, what="DescribeConfigs")
    targets = [(2, topic.name), (2, missing.name)]
    change = [configs.AlterableConfig(name="retention.ms", value="1000")]
    alter = configs.AlterConfigsRequest(
        resources=[configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=change) for kind, name in targets]
    )
    changes = [incremental_configs.AlterableConfig(name="retention.ms", value="1000")]
    incremental = incremental_configs.IncrementalAlterConfigsRequest(
        resources=[
            incremental_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes) for kind, name in targets
        ]
    )
    wrong = [incremental_configs.AlterableConfig(name="no.such.config", value="1000")]
    invalid = incremental_configs.IncrementalAlterConfigsRequest(
        resources=[incremental_configs.AlterConfigsResource(resource_type=2, resource_name=topic.name, configs=wrong)]
    )
    held = (on_topic(topic, Operation.ALTER), on_topic(missing, Operation.ALTER_CONFIGS), on_topic(topic, Operation.ALTER_CONFIGS))
    each_holding(w, alter, 2, *held, what="AlterConfigs")
    each_holding(w, incremental, 1, *held, what="IncrementalAlterConfigs")
    each_holding(w, invalid, 1, what="a config that is none")
    others = [(4, str(w.nodes[0])), (4, ""), (16, "metrics"), (32, w.group())]
    alter = configs.AlterConfigsRequest(
        resources=[configs.AlterConfigsResource(resource_type=kind, resource_name=name) for kind, name in others], validate_only=True
    )
    each_holding(w, alter, 2, what="AlterConfigs of others")
    incremental = incremental_configs.IncrementalAlterConfigsRequest(
        resources=[incremental_configs.AlterConfigsResource(resource_type=kind, resource_name=name) for kind, name in others],
        validate_only=True,
    )
    each_holding(w, incremental, 1, what="IncrementalAlterConfigs of others")


@case(guarded=True)
def the_cluster(w: World) -> None:
    """ALTER for elections, reassignments and moves between directories, DESCRIBE for lists of both."""
    w.no_acls()
    topic, missing = w.topic(), w.missing_topic()
    parts = [replicas.TopicPartitions(topic=each.name, partitions=[0]) for each in (topic, missing)]
    for version in range(3):
        request = replicas.ElectLeadersRequest(topic_partitions=parts, timeout_ms=10_000)
        each_holding(w, request, version, on_cluster(Operation.ALTER), on_topic(topic, Operation.ALTER), what=f"ElectLeaders v{version}")
    each_holding(w, replicas.ElectLeadersRequest(topic_partitions=None, timeout_ms=10_000), 2, what="ElectLeaders of all")
    moving = replicas.ListPartitionReassignmentsRequest(topics=None, timeout_ms=10_000)
    each_holding(w, moving, 0, on_topic(topic, Operation.DESCRIBE), on_cluster(Operation.DESCRIBE), what="ListPartitionReassignments")
    some = [replicas.ListPartitionReassignmentsTopics(name=each.name, partition_indexes=[0, 7]) for each in (topic, missing)]
    moving = replicas.ListPartitionReassignmentsRequest(topics=some, timeout_ms=10_000)
    each_holding(w, moving, 0, on_cluster(Operation.DESCRIBE), what="ListPartitionReassignments of some")
    partitions = [replicas.ReassignablePartition(partition_index=index, replicas=None) for index in (0, 7)]
    moves = [replicas.ReassignableTopic(name=each.name, partitions=partitions) for each in (topic, missing)]
    for version in range(2):
        move = replicas.AlterPartitionReassignmentsRequest(topics=moves, timeout_ms=10_000)
        held = on_topic(topic, Operation.ALTER), on_cluster(Operation.DESCRIBE), on_cluster(Operation.ALTER)
        each_holding(w, move, version, *held, what=f"AlterPartitionReassignments v{version}")
    there = [log_dirs.AlterReplicaLogDirTopic(name=each.name, partitions=[0]) for each in (topic, missing)]
    for version in (1, 2):
        shift = log_dirs.AlterReplicaLogDirsRequest(dirs=[log_dirs.AlterReplicaLogDir(path="/nowhere", topics=there)])
        each_holding(w, shift, version, *held[1:], what=f"AlterReplicaLogDirs v{version}")
    for version in range(1, 6):
        look = log_dirs.DescribeLogDirsRequest(topics=None)
        each_holding(w, look, version, on_topic(topic, Operation.DESCRIBE), what=f"DescribeLogDirs v{version}")
