"""The steps of a run: actions of clients, faults of clients, brokers and time, and reads. STEPS sets how often each step comes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from fencepost.broker_stub.replication.partition_state import NO_LEADER
from fencepost.producer.wire.messages import add_to_txn
from fencepost.producer.wire.messages.end_txn import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from tests.txn_walk.model import Broken
from tests.txn_walk.site import BROKERS, EXPIRES_AFTER_MS, LAG_MAX_MS, ONE_BATCH_BYTES, TOPIC, WHOLE_BYTES, Ask
from tests.txn_walk.speech import OK, group_of

if TYPE_CHECKING:
    from tests.txn_walk.walk import Walk

DAY_MS: Final = 86_400_000
EXPIRED_MS: Final = 2 * EXPIRES_AFTER_MS
PAUSES_MS: Final = (5, 20, 20, 60, 110, 110, 110, 1_000, 12_000, 12_000, 40_000, EXPIRED_MS, EXPIRED_MS, DAY_MS + EXPIRED_MS)
BURSTS: Final = (1, 1, 2, 4)


def go_on(walk: Walk) -> None:
    """A client does its next action, or its next few."""
    number = walk.rng.randrange(len(walk.running) + len(walk.zombies))
    if number >= len(walk.running):
        running = walk.zombies[number - len(walk.running)]
    elif walk.running[number].over:
        running = walk.running[number] = walk.newcomer(walk.names[number])
    else:
        running = walk.running[number]
    for _ in range(walk.rng.choice(BURSTS)):
        if not running.over:
            walk.step(running)


# Clients


def late(walk: Walk) -> None:
    """Deliver a request that its client has given up."""
    if walk.held:
        walk.deliver(walk.held.pop(walk.rng.randrange(len(walk.held))))


def freeze(walk: Walk) -> None:
    """A client freezes before it sends a request, and another client takes its place."""
    number = walk.rng.randrange(len(walk.running))
    running = walk.running[number]
    if running.sent is None and not running.over:
        running.unsent = running.next_ask()
        walk.frozen.append(running)
        walk.running[number] = walk.newcomer(walk.names[number])


def thaw(walk: Walk) -> None:
    """The frozen client resumes, and does not know that it was frozen."""
    if walk.frozen:
        walk.zombies.append(walk.frozen.pop(walk.rng.randrange(len(walk.frozen))))


def crash(walk: Walk) -> None:
    """A client ends without a word, and another one takes its place."""
    number = walk.rng.randrange(len(walk.running))
    walk.gone.append(walk.running[number].client)
    walk.running[number] = walk.newcomer(walk.names[number])


def claim(walk: Walk) -> None:
    """A client that seemed to be gone registers with its old identity."""
    gone = [client for client in (*walk.gone, *(each.client for each in walk.frozen)) if client.identity is not None]
    others = [each.client for each in (*walk.running, *walk.zombies) if each.client.identity is not None]
    outlived = [each for each in (*gone, *others) if each.identity and each.identity[0] != walk.model.identities[each.transactional_id][0]]
    if outlived or gone:
        client = walk.rng.choice(outlived or gone)
        walk.deliver(client.init_request(client.identity))


def resume(walk: Walk) -> None:
    """The holder of a prepared transaction's token ends it, sometimes repeatedly."""
    if walk.tokens:
        walk.finish(walk.rng.choice(walk.tokens), commit=walk.rng.random() < 0.7)


# Brokers


def wait(walk: Walk) -> None:
    pause_ms = walk.rng.choice(PAUSES_MS)
    if pause_ms > DAY_MS:
        walk.held.clear()  # no network delays a request for so long
    walk.site.pass_time(pause_ms)


def move(walk: Walk) -> None:
    """Move a partition's leader, often a coordinator."""
    site = walk.site
    partition = walk.rng.choice((site.state, site.state, *site.partitions))
    if site.may_go(partition.leader):
        with suppress(ValueError):
            site.cluster.move_leader(partition)


def hand_over(walk: Walk) -> None:
    """The coordinator moves while a partition's leader cannot be reached.

    Some transaction then has its markers only on other partitions, and late markers of the old coordinator arrive after those of the new
    one.
    """
    site = walk.site
    away = [partition.leader for partition in site.data[1:] if partition.leader not in (NO_LEADER, site.state.leader)]
    gone = walk.rng.choice(away) if away else NO_LEADER
    if gone != NO_LEADER and site.may_go(gone) and site.may_go(site.state.leader):
        cut_off(walk, gone)
        site.pass_time(LAG_MAX_MS)
        for _ in range(4):
            go_on(walk)
        verify(walk)
        if site.may_go(site.state.leader):
            with suppress(ValueError):
                site.cluster.move_leader(site.state)
        site.cluster.tick()
        repeat_marker(walk)


def stop(walk: Walk) -> None:
    """Stop a broker. If only that broker has a transaction's records, isolate it instead.

    Without a leader Kafka writes no marker, and the records would stay undecided.
    """
    live = walk.site.cluster.live
    node = walk.rng.choice(live)
    if len(live) > 1 and walk.site.may_go(node):
        how = walk.rng.choice(("cleanly", "killed", "without power"))
        if how == "without power" and walk.site.is_the_only_one_in_sync(node):
            how = "killed"  # it would lose what was acknowledged, as in Kafka
        if walk.site.is_alone(node):
            cut_off(walk, node)
        else:
            walk.site.cluster.stop_broker(node, clean=how == "cleanly", lost_power=how == "without power")


def cut_off(walk: Walk, node: int) -> None:
    """Isolate a broker from all other brokers."""
    for other in BROKERS:
        if other != node:
            walk.site.cluster.broker_links.sever(node, other)


def start(walk: Walk) -> None:
    walk.site.cluster.start_broker(walk.rng.choice(BROKERS))


def sever(walk: Walk) -> None:
    walk.site.cluster.broker_links.sever(*walk.rng.sample(BROKERS, 2))


def mend(walk: Walk) -> None:
    for one, other in walk.site.cluster.broker_links.down:
        walk.site.cluster.broker_links.mend(one, other)


def verify(walk: Walk) -> None:
    """A broker asks whether a partition belongs to the transaction of an id's owner."""
    name = walk.rng.choice(walk.names)
    if name not in walk.model.identities:
        return
    pid, epoch = walk.model.identities[name]
    asked = add_to_txn.AddPartitionsToTxnTransaction(
        transactional_id=name,
        producer_id=pid,
        producer_epoch=epoch,
        verify_only=True,
        topics=[add_to_txn.AddPartitionsToTxnTopic(name=TOPIC, partitions=[walk.rng.randrange(len(walk.site.data))])],
    )
    answer = walk.site.ask(walk.site.state, add_to_txn.AddPartitionsToTxnRequest(transactions=[asked]), 4)
    if answer is None:
        return
    code = answer.results_by_transaction[0].topic_results[0].results_by_partition[0].partition_error_code
    if code == OK and not walk.model.has_open(name):
        raise Broken(f"{name!r} has no transaction, and a broker heard that it has")


def repeat_marker(walk: Walk) -> None:
    """A coordinator's request to write a marker arrives again.

    Before transaction version 2 nothing stops a repeated marker while the next transaction is open, unless a later coordinator has written
    one. So this step then does nothing.
    """
    markers = [each for index in range(len(walk.site.data)) for each in walk.site.markers(index)]
    if not markers:
        return
    newest = {(each.partition, each.producer_id): each for each in markers}
    outdated = [each for each in markers if each.is_outdated_by(newest[each.partition, each.producer_id])]
    index, pid, epoch, coordinator_epoch, commit = walk.rng.choice(outdated or markers)
    partition, bumps = walk.site.data[index], walk.kind.speech.bumps
    if not bumps:
        known = [each for each in partition.log.active_producers() if each.producer_id == pid]
        if any(each.current_txn_start_offset >= 0 and each.coordinator_epoch <= coordinator_epoch for each in known):
            return
    marker = WritableTxnMarker(
        producer_id=pid,
        producer_epoch=epoch,
        transaction_result=commit,
        topics=[WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[index])],
        coordinator_epoch=coordinator_epoch,
        transaction_version=2 if bumps else 0,
    )
    walk.marked_again.add(pid)
    walk.site.send(Ask(partition, WriteTxnMarkersRequest(markers=[marker]), 2))


# Readers


def read(walk: Walk) -> None:
    """A `read_committed` consumer continues."""
    reader = walk.rng.choice(walk.readers)
    walk.model.read(reader.poll(walk.rng.choice((WHOLE_BYTES, ONE_BATCH_BYTES))))


def read_offset(walk: Walk) -> None:
    """A client asks for a group's offset."""
    found = walk.site.group_offset(group_of(walk.rng.choice(walk.names)), stable=walk.rng.random() < 0.5)
    if found is not None and found[0] == OK and found[1] is not None and not walk.model.txns[found[1]].may_be_read:
        raise Broken(f"a group reads offset {found[1]}, which was not committed")


def _weighted(*weights: tuple[int, Callable[[Walk], None]]) -> tuple[Callable[[Walk], None], ...]:
    return tuple(step for weight, step in weights for _ in range(weight))


STEPS: Final = _weighted(
    (70, go_on),
    (8, wait),
    (4, move),
    (2, hand_over),
    (2, stop),
    (4, start),
    (2, sever),
    (3, mend),
    (4, late),
    (3, freeze),
    (3, thaw),
    (3, crash),
    (3, claim),
    (3, resume),
    (3, verify),
    (3, repeat_marker),
    (4, read),
    (1, read_offset),
)
