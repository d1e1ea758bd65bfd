"""AddOffsetsToTxn and TxnOffsetCommit: offsets that are committed with their transaction."""

from tests.conformance.world import World, case


@case("A2", "A3", "A6")
def without_bumps(w: World) -> None:
    """The producer first adds the group's partition. The offsets are committed with the transaction."""
    topic, group, txn = w.topic(partitions=2), w.group(), w.begun()
    pid, epoch = txn.identity
    w.commit_in_txn(txn, group, {topic: {0: 5}}, version=3, label="not added, v3")
    w.commit_in_txn(txn, group, {topic: {0: 5}}, version=4, label="not added, v4")
    for version in range(5):
        w.add_offsets(txn, group, version=version, identity=(pid + 10**9, epoch), label=f"v{version} add of another producer")
        w.add_offsets(txn, group, version=version, identity=(pid, epoch + 1), label=f"v{version} add of a later epoch")
        w.add_offsets(txn, group, version=version, label=f"v{version} add")
    for version in range(5):
        w.commit_in_txn(txn, group, {topic: {0: 10 + version}}, version=version, label=f"v{version} commit")
    w.committed(group, {topic: [0, 1]}, label="before")
    w.committed(group, {topic: [0, 1]}, stable=True, label="before, stable")
    w.committed(group, None, stable=True, label="all before, stable")
    w.end(txn, version=4, label="commit")
    w.committed(group, {topic: [0, 1]}, stable=True, label="after")


@case("A3")
def epochs_to_come(w: World) -> None:
    """An epoch above the producer's commits no offsets, even while its transaction is open."""
    topic, group, txn = w.topic(), w.group(), w.begun()
    pid, epoch = txn.identity
    w.add_offsets(txn, group, label="add")
    for version in range(6):
        tag = f"v{version}"
        w.commit_in_txn(txn, group, {topic: {0: version}}, version=version, label=tag)
        w.commit_in_txn(txn, group, {topic: {0: 1}}, version=version, identity=(pid, epoch + 1), label=f"{tag} of a later epoch")
    w.end(txn, version=4, label="commit")


@case("A6", "F4")
def with_bumps(w: World) -> None:
    """TxnOffsetCommit adds the group's partition to the transaction."""
    topic, group, txn = w.topic(partitions=2), w.group(), w.begun()
    w.commit_in_txn(txn, group, {topic: {0: 5, 1: 6}}, label="offsets")
    w.commit_in_txn(txn, group, {topic: {0: 7, 9: 6}, w.missing_topic(): {0: 1}}, label="some of them not there")
    w.committed(group, {topic: [0, 1]}, stable=True, label="before, stable")
    w.end(txn, label="commit")
    w.committed(group, {topic: [0, 1]}, stable=True, label="after")
    w.commit_in_txn(txn, group, {topic: {0: 99}}, label="offsets of the next")
    w.committed(group, {topic: [0, 1]}, stable=True, label="in the next, stable")
    w.committed(group, {topic: [0, 1]}, label="in the next")
    w.end(txn, commit=False, label="abort")
    w.committed(group, {topic: [0, 1]}, stable=True, label="after the abort")
    w.commit_in_txn(txn, group, {topic: {0: 100}}, label="offsets before others")
    w.commit(group, {topic: {0: 101}}, label="others")
    w.committed(group, {topic: [0]}, label="the others")
    w.committed(group, {topic: [0]}, stable=True, label="the others, stable")
    w.end(txn, label="commit of what was before")
    w.committed(group, {topic: [0]}, stable=True, label="which counts")
    w.commit_in_txn(txn, group, {topic: {0: 1}}, metadata="x" * 4097, label="too much metadata")
    w.commit_in_txn(txn, group, {topic: {0: 1}}, metadata=None, label="no metadata")
    w.end(txn, label="the last commit")


@case()
def members(w: World) -> None:
    """KIP-447: member, generation and instance id must be correct. A commit without them is accepted."""
    topic, group, txn = w.topic(), w.group(), w.begun()
    w.commit_in_txn(txn, group, {topic: {0: 1}}, generation=3, label="a generation of a group that is not there")
    w.commit_in_txn(txn, group, {topic: {0: 1}}, member_id="nobody", label="a member of a group that is not there")
    (member,) = w.stable(group)
    w.commit_in_txn(txn, group, {topic: {0: 1}}, label="nobody")
    w.commit_in_txn(txn, group, {topic: {0: 1}}, generation=member.generation, member_id=member.id, label="the member")
    w.commit_in_txn(txn, group, {topic: {0: 1}}, generation=member.generation + 1, member_id=member.id, label="of another generation")
    w.commit_in_txn(txn, group, {topic: {0: 1}}, generation=-1, member_id=member.id, label="of no generation")
    w.commit_in_txn(txn, group, {topic: {0: 1}}, generation=member.generation, label="a generation without a member")
    w.commit_in_txn(txn, group, {topic: {0: 1}}, generation=member.generation, member_id="stranger", label="a stranger")
    w.commit_in_txn(txn, group, {topic: {0: 1}}, generation=member.generation, member_id=member.id, instance="i", label="an instance")
    w.end(txn, label="commit")


@case()
def others(w: World) -> None:
    """Commits of a producer that does not own the id, and groups without a name."""
    topic, group, txn = w.topic(), w.group(), w.begun()
    pid, epoch = txn.identity
    for version in (3, 4, 5):
        tag = f"v{version}"
        w.commit_in_txn(txn, group, {topic: {0: 1}}, version=version, identity=(pid + 10**9, epoch), label=f"{tag} another producer")
        w.commit_in_txn(txn, group, {topic: {0: 1}}, version=version, identity=(pid, epoch + 1), label=f"{tag} a later epoch")
        w.commit_in_txn(w.txn(), group, {topic: {0: 1}}, version=version, identity=(pid, epoch), label=f"{tag} an id that nobody uses")
        w.commit_in_txn(txn, "", {topic: {0: 1}}, version=version, label=f"{tag} no group")
    w.add_offsets(txn, "", label="add no group")
    w.add_offsets(w.txn(), group, identity=(pid, epoch), label="add to an id that nobody uses")


@case()
def deleted_before_they_count(w: World) -> None:
    """OffsetDelete also deletes the offsets of an open transaction. The commit does not bring them back."""
    topic, group, txn = w.topic(partitions=2), w.group(), w.begun()
    w.commit_in_txn(txn, group, {topic: {0: 5, 1: 6}}, label="offsets")
    w.delete_offsets(group, {topic: [0]}, label="delete one")
    w.committed(group, {topic: [0, 1]}, stable=True, label="before the commit, stable")
    w.end(txn, label="commit")
    w.committed(group, {topic: [0, 1]}, stable=True, label="after the commit")
