"""The permissions for transactions: WRITE and DESCRIBE on the transactional id, WRITE on topics, READ on groups, and those of brokers.

No producer has the identity in the requests: the broker checks it after the permissions.
"""

from fencepost.broker_stub.security.operations import Operation, Resource
from fencepost.producer.wire.messages import add_to_txn, describe_transactions, end_txn, list_transactions, txn_offsets
from fencepost.producer.wire.messages.acls import AclCreation
from tests.conformance.asks_acls import creation
from tests.conformance.holding import each_holding, on_cluster, on_group, on_topic
from tests.conformance.world import World, case

PID, EPOCH = 10**15, 3


def on_id(name: str, *operations: Operation) -> list[AclCreation]:
    return [creation(each, Resource.TRANSACTIONAL_ID, name) for each in operations]


@case(guarded=True)
def partitions(w: World) -> None:
    """WRITE on the id and on every topic for clients, CLUSTER_ACTION for brokers."""
    w.no_acls()
    topic, missing, txn = w.topic(), w.missing_topic(), w.txn()
    topics = [add_to_txn.AddPartitionsToTxnTopic(name=each.name, partitions=[0, 1]) for each in (topic, missing)]
    internal = [add_to_txn.AddPartitionsToTxnTopic(name="__consumer_offsets", partitions=[0])]
    own, write = on_id(txn.name, Operation.WRITE), on_topic(topic, Operation.WRITE)
    held = (own, write, [*own, *write], [*own, *write, *on_topic(missing, Operation.WRITE)])
    for asked, what in ((topics, "two topics"), (topics[:1], "one"), (internal, "an internal one")):
        request = add_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=txn.name,
            v3_and_below_producer_id=PID,
            v3_and_below_producer_epoch=EPOCH,
            v3_and_below_topics=asked,
        )
        for version in (1, 3):
            each_holding(w, request, version, *held, what=f"v{version} {what}")
    of_broker = add_to_txn.AddPartitionsToTxnTransaction(transactional_id=txn.name, producer_id=PID, producer_epoch=EPOCH, topics=topics)
    for version in (4, 5):
        request = add_to_txn.AddPartitionsToTxnRequest(transactions=[of_broker])
        each_holding(w, request, version, *held, on_cluster(Operation.CLUSTER_ACTION), what=f"v{version}")


@case(guarded=True)
def ends(w: World) -> None:
    """WRITE on the id."""
    w.no_acls()
    txn = w.txn()
    for version in (0, 5):
        request = end_txn.EndTxnRequest(transactional_id=txn.name, producer_id=PID, producer_epoch=EPOCH)
        each_holding(w, request, version, on_id(txn.name, Operation.DESCRIBE), on_id(txn.name, Operation.WRITE), what=f"v{version}")


@case(guarded=True)
def offsets(w: World) -> None:
    """WRITE on the id, READ on the group, and READ on each topic whose offset is committed."""
    w.no_acls()
    topic, missing, txn, group = w.topic(), w.missing_topic(), w.txn(), w.group()
    of_group, own, read = on_group(group, Operation.READ), on_id(txn.name, Operation.WRITE), on_topic(topic, Operation.READ)
    held = (of_group, own, [*of_group, *own])
    added = add_to_txn.AddOffsetsToTxnRequest(transactional_id=txn.name, producer_id=PID, producer_epoch=EPOCH, group_id=group)
    for version in (1, 4):
        each_holding(w, added, version, *held, what=f"AddOffsetsToTxn v{version}")
    commit = txn_offsets.TxnOffsetCommitRequest(
        transactional_id=txn.name,
        group_id=group,
        producer_id=PID,
        producer_epoch=EPOCH,
        topics=[
            txn_offsets.TxnOffsetCommitRequestTopic(name=each.name, partitions=[txn_offsets.TxnOffsetCommitRequestPartition()])
            for each in (topic, missing)
        ],
    )
    for version in (0, 3, 5):
        some, all_of_it = [*of_group, *own, *read], [*of_group, *own, *read, *on_topic(missing, Operation.READ)]
        each_holding(w, commit, version, *held, some, all_of_it, what=f"TxnOffsetCommit v{version}")


@case(guarded=True)
def markers(w: World) -> None:
    """ALTER or CLUSTER_ACTION on the cluster."""
    w.no_acls()
    topic, missing = w.topic(), w.missing_topic()
    topics = [end_txn.WritableTxnMarkerTopic(name=each.name, partition_indexes=[0]) for each in (topic, missing)]
    request = end_txn.WriteTxnMarkersRequest(markers=[end_txn.WritableTxnMarker(producer_id=1, topics=topics)])
    for version in (1, 2):
        each_holding(w, request, version, on_cluster(Operation.ALTER), what=f"v{version} alter")
        each_holding(w, request, version, on_cluster(Operation.CLUSTER_ACTION), what=f"v{version} cluster action")
    each_holding(w, end_txn.WriteTxnMarkersRequest(), 1, on_cluster(Operation.ALTER), what="none")


@case(guarded=True)
def admins(w: World) -> None:
    """DESCRIBE on the id, to list and to describe a transaction; on a topic, to see that the transaction wrote to it."""
    w.no_acls()
    txn = w.begun()
    topic = w.topic()
    w.add(txn, {topic: [0]}, label="add")
    held = (on_topic(topic, Operation.DESCRIBE), on_id(txn.name, Operation.DESCRIBE))
    for pattern in held:
        w.permit(*pattern)
        with w.as_user("alice"):
            w.describe_txn(txn, label=f"describe, with {len(w.notes)} answers before")
            w.list_txns(label=f"list, with {len(w.notes)} answers before")
    w.forbid_again(*held[0])
    with w.as_user("alice"):
        w.describe_txn(txn, label="describe without the topic")
    w.no_acls()
    request = describe_transactions.DescribeTransactionsRequest(transactional_ids=["", "nobody"])
    each_holding(w, request, 0, on_id("nobody", Operation.WRITE), what="ids that nobody uses")
    each_holding(w, list_transactions.ListTransactionsRequest(state_filters=["Nowhere"]), 0, what="a state that is none")
    w.end(txn, commit=False, version=4, label="abort")
