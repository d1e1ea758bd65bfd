"""Transactions: InitProducerId with a transactional id, AddPartitionsToTxn, EndTxn, and the checks of Produce with the coordinator."""

from dataclasses import replace

from tests.conformance.batches import TRANSACTIONAL, of, plain
from tests.conformance.stage import Topic
from tests.conformance.world import World, case


def read_committed(w: World, topic: Topic, label: str) -> None:
    """What a `read_committed` consumer reads of the first partition, and where it stops."""
    w.fetch(topic, 0, isolation=1, label=f"{label}: committed")
    w.list_offsets(topic, -1, isolation=1, label=f"{label}: last stable offset")


@case("F3", "F4", "F7", "F8", "A6", "I5")
def with_bumps(w: World) -> None:
    """Transaction version 2 from beginning to end: each end raises the epoch, by which the coordinator tells retries from new ends."""
    topic, txn = w.topic(partitions=2), w.txn()
    w.describe_txn(txn, label="nobody")
    w.init(txn, label="init")
    first = txn.identity
    w.describe_txn(txn, label="empty")
    w.write(txn, topic, 0, label="first record")
    w.write(txn, topic, 1, label="second record")
    w.write(txn, topic, 0, partition=1, label="another partition")
    w.describe_txn(txn, label="ongoing")
    read_committed(w, topic, "ongoing")
    w.end(txn, label="commit")
    w.describe_txn(txn, label="complete")
    w.describe(topic, label="the producer after its commit")
    read_committed(w, topic, "complete")
    w.end(txn, identity=first, label="the same commit again")
    w.end(txn, identity=first, commit=False, label="an abort after the commit")
    w.end(txn, label="a commit of nothing")
    w.write(txn, topic, 0, identity=first, label="a record of the last epoch")
    w.write(txn, topic, 2, label="the next sequence")
    w.write(txn, topic, 0, label="sequence 0")
    w.end(txn, identity=first, label="the first commit again, in the next transaction")
    w.end(txn, commit=False, label="abort")
    read_committed(w, topic, "aborted")
    w.end(txn, commit=False, label="an abort of nothing")
    w.describe(topic, label="the producer after aborts")
    w.end(txn, label="a commit after an abort")
    w.describe_txn(txn, label="at the end")


@case("E4", "E5", "E7", "A5", "A6")
def without_bumps(w: World) -> None:
    """Transaction version 0 from beginning to end: the epoch stays, and a repeated commit looks like an empty one."""
    topic, txn = w.topic(partitions=2), w.txn()
    w.init(txn, label="init")
    w.end(txn, version=4, label="commit of an empty one")
    w.end(txn, version=4, commit=False, label="abort of an empty one")
    w.add(txn, {topic: [0]}, label="add")
    w.add(txn, {topic: [0]}, label="add again")
    w.describe_txn(txn, label="ongoing")
    w.write(txn, topic, 0, version=11, label="first record")
    w.add(txn, {topic: [0, 1]}, label="add another")
    w.write(txn, topic, 0, version=11, partition=1, label="another partition")
    w.end(txn, version=4, label="commit")
    w.describe_txn(txn, label="complete")
    w.describe(topic, label="the producer after its commit")
    read_committed(w, topic, "complete")
    w.end(txn, version=4, label="the same commit again")
    w.end(txn, version=4, commit=False, label="an abort after the commit")
    w.add(txn, {topic: [0]}, label="add to the next")
    w.write(txn, topic, 1, version=11, label="the next sequence")
    w.end(txn, version=4, commit=False, label="abort")
    w.end(txn, version=4, commit=False, label="the same abort again")
    w.end(txn, version=4, label="a commit after the abort")
    read_committed(w, topic, "aborted")


@case("E1", "E2", "F2", "F3", "F8")
def ends_of_others(w: World) -> None:
    """A producer that does not own the id can end nothing, in every version."""
    topic = w.topic()
    for version in range(6):
        txn = w.begun()
        pid, epoch = txn.identity
        tag = f"v{version}"
        w.end(txn, version=version, identity=(pid + 10**9, epoch), label=f"{tag} another producer, empty")
        w.add(txn, {topic: [0]}, label=f"{tag} add")
        w.end(txn, version=version, identity=(pid + 10**9, epoch), label=f"{tag} another producer")
        w.end(txn, version=version, identity=(pid, epoch + 1), label=f"{tag} a later epoch")
        w.end(txn, version=version, identity=(pid, -1), label=f"{tag} no epoch")
        w.init(txn, expected=(pid, epoch), label=f"{tag} init while open")
        w.end(txn, version=version, identity=(pid, epoch), label=f"{tag} the one before the fence")
        w.end(txn, version=version, identity=(pid, epoch), commit=False, label=f"{tag} its abort")
        stranger = w.txn()
        w.end(stranger, version=version, identity=(pid, epoch), label=f"{tag} an id that nobody uses")
    empty = w.txn()
    empty.name = ""
    w.end(empty, identity=(1, 0), label="an empty id")


@case("I5", "I6", "I7", "I8", "I2")
def expected_identities(w: World) -> None:
    """KIP-360: a producer that sends its identity gets the next epoch, the same one again, or is fenced."""
    txn = w.txn()
    w.init(txn, expected=(10**9, 7), label="of an id that nobody uses")
    pid, _ = txn.identity
    w.init(txn, expected=(pid, 0), label="epoch 0")
    w.init(txn, expected=(pid, 0), label="epoch 0 again")
    w.init(txn, expected=(pid, 1), label="epoch 1")
    w.init(txn, expected=(pid, 0), label="epoch 0, late")
    w.init(txn, expected=(pid, 9), label="an epoch to come")
    w.init(txn, expected=(pid + 10**9, 2), label="another producer")
    for version in (3, 4, 5):
        w.init(txn, expected=(pid, 0), version=version, label=f"v{version} epoch 0")
    w.init(txn, label="nothing")
    w.init(txn, expected=(pid, 2), label="epoch 2 after nothing")
    w.init(txn, expected=(pid, 3), label="epoch 3")
    w.describe_txn(txn, label="in the end")


@case("I9", "I5", "I8", "F3", "F8", "A3")
def takeovers(w: World) -> None:
    """A second instance aborts the first one's open transaction. The first one is then refused everything."""
    topic, txn = w.topic(), w.begun()
    zombie = txn.identity
    w.write(txn, topic, 0, label="a record of the first")
    w.init(txn, label="the second comes")
    w.describe_txn(txn, label="aborted for it")
    w.describe(topic, label="the partition after that")
    w.end(txn, identity=zombie, commit=False, label="the first aborts, too")
    w.end(txn, identity=zombie, label="the first commits")
    w.init(txn, label="the second comes again")
    w.write(txn, topic, 1, identity=zombie, label="a record of the zombie")
    w.add(txn, {topic: [0]}, identity=zombie, label="the zombie adds")
    w.end(txn, identity=zombie, label="the zombie commits")
    w.end(txn, identity=zombie, commit=False, label="the zombie aborts")
    w.init(txn, expected=zombie, label="the zombie asks for its identity")
    w.write(txn, topic, 0, label="a record of the second")
    w.end(txn, label="the second commits")
    read_committed(w, topic, "in the end")


@case("I9", "I7")
def recovery_after_a_fence(w: World) -> None:
    """InitProducerId with its own identity aborts the open transaction, and the producer continues in the next epoch."""
    topic, txn = w.topic(), w.begun()
    before = txn.identity
    w.write(txn, topic, 0, label="a record")
    w.init(txn, expected=before, label="init with an open transaction")
    w.init(txn, expected=before, label="again")
    w.write(txn, topic, 0, label="a record of the next epoch")
    w.end(txn, label="commit")


@case("A2", "A3", "A5", "A6")
def partitions_of_every_version(w: World) -> None:
    """Clients add partitions up to version 3, brokers from version 4 on."""
    topic = w.topic(partitions=3)
    for version in range(6):
        txn = w.begun()
        pid, epoch = txn.identity
        tag = f"v{version}"
        w.add(txn, {topic: [0, 2]}, version=version, label=f"{tag} two")
        w.add(txn, {topic: [2, 1]}, version=version, label=f"{tag} two more")
        w.add(txn, {}, version=version, label=f"{tag} none")
        w.add(txn, {topic: [0]}, version=version, identity=(pid + 10**9, epoch), label=f"{tag} another producer")
        w.add(txn, {topic: [0]}, version=version, identity=(pid, epoch + 1), label=f"{tag} a later epoch")
        w.add(txn, {topic: [0]}, version=version, identity=(pid, -1), label=f"{tag} no epoch")
        w.add(txn, {topic: [0, 3]}, version=version, label=f"{tag} one that is not there")
        w.add(txn, {w.missing_topic(): [0], topic: [1]}, version=version, label=f"{tag} a topic that is not there")
        w.describe_txn(txn, label=f"{tag} in the end")
        w.add(w.txn(), {topic: [0]}, version=version, identity=(pid, epoch), label=f"{tag} an id that nobody uses")
    empty = w.txn()
    empty.name = ""
    w.add(empty, {topic: [0]}, identity=(1, 0), label="an empty id")


@case("A2", "A3")
def verification(w: World) -> None:
    """Brokers ask the coordinator whether partitions are part of a transaction."""
    topic, txn = w.topic(partitions=2), w.begun()
    pid, epoch = txn.identity
    for version in (4, 5):
        w.add(txn, {topic: [0, 1]}, version=version, verify_only=True, label=f"v{version} empty")
    w.add(txn, {topic: [0]}, label="add")
    for version in (4, 5):
        tag = f"v{version}"
        w.add(txn, {topic: [0, 1]}, version=version, verify_only=True, label=f"{tag} one of two")
        w.add(txn, {topic: [0]}, version=version, verify_only=True, identity=(pid + 10**9, epoch), label=f"{tag} another producer")
        w.add(txn, {topic: [0]}, version=version, verify_only=True, identity=(pid, epoch + 1), label=f"{tag} a later epoch")
        w.add(txn, {topic: [5]}, version=version, verify_only=True, label=f"{tag} one that is not there")
    w.end(txn, version=4, label="commit")
    w.add(txn, {topic: [0]}, version=5, verify_only=True, label="after the commit")


@case("D3", "D5", "D2")
def records_without_a_transaction(w: World) -> None:
    """The answer of Produce to a transactional record that the coordinator has not verified, in every version with transactions."""
    topic = w.topic(partitions=2)
    for version in (3, 7, 8, 9, 10, 11, 12, 13):
        txn = w.begun()
        pid, epoch = txn.identity
        tag = f"v{version}"
        w.write(txn, topic, 0, version=version, identity=(pid, epoch + 1), label=f"{tag} a later epoch")
        w.write(txn, topic, 0, version=version, identity=(pid + 10**9, epoch), label=f"{tag} another producer")
        w.write(txn, topic, 3, version=version, label=f"{tag} sequence 3")
        w.write(txn, topic, 0, version=version, label=f"{tag} not added")
        w.add(txn, {topic: [0]}, label=f"{tag} add")
        w.write(txn, topic, 0, version=version, label=f"{tag} added")
        w.write(txn, topic, 0, version=version, label=f"{tag} once more")
        w.write(txn, topic, 0, version=version, partition=1, label=f"{tag} the other partition")
        w.end(txn, version=4, label=f"{tag} commit")
        w.write(txn, topic, 0, version=version, label=f"{tag} once more after the commit")
        w.write(txn, topic, 1, version=version, label=f"{tag} the next one after the commit")
        stranger = w.txn()
        w.write(stranger, topic, 0, version=version, identity=(w.pid(), 0), label=f"{tag} an id that nobody uses")


@case("D3", "M5")
def records_that_no_coordinator_verified(w: World) -> None:
    """The leader refuses them, unless transaction.partition.verification.enable is off.

    Then it writes them, no end of the transaction covers them, and an administrator must write the marker. This applies up to version 11;
    later versions add the partition in any case.
    """
    for version in (3, 10, 11, 12):
        topic, txn = w.topic(partitions=2), w.begun()
        pid, epoch = txn.identity
        tag = f"v{version}"
        w.write(txn, topic, 0, version=version, label=f"{tag} not added")
        w.write(w.txn(), topic, 0, version=version, partition=1, identity=(w.pid(), 0), label=f"{tag} an id that nobody uses")
        w.describe(topic, label=f"{tag} producers")
        w.describe_txn(txn, label=f"{tag} the transaction")
        w.end(txn, version=4, label=f"{tag} commit")
        read_committed(w, topic, tag)
        w.mark((pid, epoch), topic, version=1, coordinator_epoch=1, label=f"{tag} marked")
        read_committed(w, topic, f"{tag} marked")


@case()
def admins(w: World) -> None:
    """ListTransactions, with every filter in every version, and DescribeTransactions."""
    topic = w.topic()
    empty, ongoing, committed, aborted = w.begun(), w.begun(), w.begun(), w.begun()
    for txn in (ongoing, committed, aborted):
        w.write(txn, topic, 0, label=f"a record of {w.show_producer(txn.pid)}")
    w.end(committed, label="commit")
    w.end(aborted, commit=False, label="abort")
    for version in range(3):
        w.list_txns(version=version, label=f"v{version}")
        w.list_txns(version=version, states=["Ongoing"], label=f"v{version} ongoing")
        w.list_txns(version=version, states=["Empty", "CompleteAbort"], label=f"v{version} two states")
        w.list_txns(version=version, states=["ongoing", "Nowhere"], label=f"v{version} states that are none")
        w.list_txns(version=version, states=["Ongoing", "Nowhere"], label=f"v{version} a state and one that is none")
        w.list_txns(version=version, producers=[empty.pid, ongoing.pid], label=f"v{version} two producers")
        w.list_txns(version=version, producers=[empty.pid], states=["Ongoing"], label=f"v{version} a producer in another state")
    w.list_txns(duration_ms=0, label="running")
    w.list_txns(duration_ms=3_600_000, label="running for an hour")
    w.list_txns(states=["Dead"], label="dead")
    for label, txn in (("empty", empty), ("ongoing", ongoing), ("committed", committed), ("aborted", aborted)):
        w.describe_txn(txn, label=f"describe {label}")
    unnamed = w.txn()
    unnamed.name = ""
    w.describe_txn(unnamed, label="describe an empty id")
    w.end(ongoing, commit=False, label="the end")


@case()
def patterns(w: World) -> None:
    """From version 2 on ListTransactions accepts a pattern that must match the whole id."""
    txn, _, _ = w.begun(), w.begun(), w.begun()
    for label, pattern in {
        "an empty one": "",
        "of one": txn.name,
        "of the beginning": txn.name[:-1],
        "of two": txn.name[:-1] + "[01]",
        "of none": "nobody.*",
        "that is none": "(",
    }.items():
        w.list_txns(pattern=pattern, label=label)


@case("A6", "F4", "F7", "I5", "I9")
def what_is_written_with_bumps(w: World) -> None:
    """The records of a coordinator that raises epochs."""
    topic, txn = w.topic(partitions=2), w.begun()
    w.write(txn, topic, 0, label="a record")
    w.write(txn, topic, 0, partition=1, label="another partition")
    w.end(txn, label="commit")
    w.end(txn, commit=False, label="abort of nothing")
    w.write(txn, topic, 0, label="the next record")
    w.init(txn, label="a fence")
    w.init(txn, label="and a new epoch", timeout_ms=1_000)
    w.log_of(txn, label="record")


@case("A6", "E4", "I6", "I7")
def what_is_written_without_bumps(w: World) -> None:
    """The records of a coordinator that does not raise epochs."""
    topic, txn = w.topic(partitions=2), w.begun()
    w.add(txn, {topic: [0]}, label="add")
    w.add(txn, {topic: [0, 1]}, label="add another")
    w.end(txn, version=4, commit=False, label="abort")
    w.init(txn, expected=txn.identity, label="the next epoch")
    w.init(txn, expected=(txn.pid, txn.epoch - 1), label="the same again")
    w.add(txn, {topic: [1]}, label="add to the next")
    w.end(txn, version=4, label="commit")
    w.log_of(txn, label="record")


@case()
def names_that_come_twice(w: World) -> None:
    """A transaction, a topic or a partition that one AddPartitionsToTxn names twice; and a broker's request about two transactions."""
    topic, other = w.topic(partitions=3), w.topic()
    for version in (4, 5):
        # Each with a transaction of its own: an answer about one that is named twice does not wait for what it began.
        txn, second = w.begun(), w.begun()
        w.add_many((txn, [(topic, [0])], False), (second, [(topic, [0])], False), label=f"v{version} two transactions", version=version)
        txn = w.begun()
        w.add_many((txn, [(topic, [0])], False), (txn, [(topic, [0])], False), label=f"v{version} the same twice", version=version)
        txn = w.begun()
        w.add_many((txn, [(topic, [1])], False), (txn, [(other, [0])], False), label=f"v{version} twice, other topics", version=version)
        txn = w.begun()
        w.add_many((txn, [(topic, [0])], True), (txn, [(topic, [2])], True), label=f"v{version} twice, to verify", version=version)
        txn = w.begun()
        w.add_many((txn, [(topic, [7])], False), (txn, [(topic, [0])], False), label=f"v{version} twice, one is unknown", version=version)
        txn = w.begun()
        w.add_many((txn, [(topic, [0]), (topic, [1])], False), label=f"v{version} a topic twice", version=version)
        txn = w.begun()
        w.add_many((txn, [(topic, [0, 0])], False), label=f"v{version} a partition twice", version=version)
    topic, txn = w.topic(partitions=2), w.begun()
    w.add_twice(txn, topic, label="v3 a topic and a partition twice")


@case("KIP-890")
def a_transactional_batch_whose_length_lies(w: World) -> None:
    """The batch is too short for a header. The leader still asks the coordinator about it."""
    topic, txn = w.topic(), w.begun()
    for version in (9, 12):
        for length in (48, 40, 14):
            batch = replace(of(*txn.identity, 0), attributes=TRANSACTIONAL, length=length)
            w.produce(batch, topic, version=version, transactional_id=txn.name, label=f"v{version} length {length}")
    w.write(txn, topic, 0, label="a good one")
    batch = replace(of(*txn.identity, 1), attributes=TRANSACTIONAL, length=40)
    w.produce(batch, topic, version=12, transactional_id=txn.name, label="in the transaction")
    w.end(txn, label="end")


@case("KIP-890")
def plain_batches_after_a_refused_transactional_one(w: World) -> None:
    """The partition remembers the first sequence of the refused batch."""
    topic, txn = w.topic(partitions=2), w.begun()
    for version, partition in ((9, 0), (11, 1)):
        w.write(txn, topic, 0, version=version, partition=partition, label=f"v{version} not in the transaction")
        w.produce(of(*txn.identity, 4), topic, version=version, partition=partition, label=f"v{version} a later one outside")
        w.produce(of(*txn.identity, 0), topic, version=version, partition=partition, label=f"v{version} the first one outside")


@case("P1")
def two_producers_in_one_request(w: World) -> None:
    """The whole request fails, also for batches without a producer and for unknown partitions."""
    topic, txn = w.topic(partitions=3), w.begun()
    one = replace(of(*txn.identity, 0), attributes=TRANSACTIONAL).encode()
    other = replace(of(w.pid(), 0, 0), attributes=TRANSACTIONAL).encode()
    for version in (9, 12, 13):
        places = [(topic, 0, one), (topic, 1, other), (topic, 2, plain().encode()), (w.missing_topic(), 0, one)]
        w.produce_many(places, version=version, transactional_id=txn.name, label=f"v{version}")
        unknown = [(topic, 0, one), (w.missing_topic(), 0, other)]
        w.produce_many(unknown, version=version, transactional_id=txn.name, label=f"v{version} one of them to where nothing is")
        beyond = [(topic, 0, one), (topic, 3, other)]
        w.produce_many(beyond, version=version, transactional_id=txn.name, label=f"v{version} one of them to no partition")
        twice = [(topic, 1, one), (topic, 2, other), (topic, 2, plain().encode())]
        w.produce_many(twice, version=version, transactional_id=txn.name, label=f"v{version} one of them overwritten")
