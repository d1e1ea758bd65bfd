"""The transactions and groups of a stub as data. It looks only at what coordinators have loaded, and changes nothing."""

from __future__ import annotations

from typing import Any, Final

from fencepost.broker_stub.groups.coordinators import Shard
from fencepost.broker_stub.groups.state.embedded_protocol import Unreadable, read_assignment
from fencepost.broker_stub.requests.services import Services
from fencepost.broker_stub.transactions.states import State

TRANSACTIONS_MAX: Final = 500
GROUPS_MAX: Final = 200
MEMBERS_MAX: Final = 50
OFFSETS_MAX: Final = 200

Data = dict[str, Any]


def transactions(services: Services) -> list[Data]:
    """The transactional ids with a producer, open ones first, the newest first."""
    if "transactions" not in services.__dict__:  # nothing has needed a coordinator yet
        return []
    found: list[Data] = []
    for shard in services.transactions.loaded:
        for name, known in shard.ids.items():
            if known.pending is State.DEAD:
                continue
            txn = known.txn
            found.append(
                {
                    "id": name,
                    "pid": txn.producer_id,
                    "epoch": txn.epoch,
                    "state": txn.state.wire_name,
                    "pending": known.pending.wire_name if known.pending is not None else None,
                    "timeout_ms": txn.timeout_ms,
                    "start_ms": txn.start_ms,
                    "updated_ms": txn.updated_ms,
                    "partitions": [list(each) for each in sorted(txn.partitions)],
                    "node": shard.node,
                }
            )
    return sorted(found, key=lambda each: (each["state"] != State.ONGOING.wire_name, -each["updated_ms"]))[:TRANSACTIONS_MAX]


def groups(services: Services) -> list[Data]:
    """The groups with their members and committed offsets."""
    if "groups" not in services.__dict__:
        return []
    found = [each for shard in services.groups.loaded for each in _groups(services, shard)]
    return sorted(found, key=lambda each: each["id"])[:GROUPS_MAX]


def _groups(services: Services, shard: Shard) -> list[Data]:
    found = []
    for group in shard.groups.groups.values():
        members = [
            {"id": each.id, "client": each.client_id, "instance": each.instance_id, "partitions": assigned(each.assignment)}
            for each in [*group.members.values()][:MEMBERS_MAX]
        ]
        found.append(_group(shard, group.id, "classic", group.state.value, group.generation, members, group.since_ms))
    for consumer in shard.consumers.groups.values():
        members = [
            {
                "id": each.id,
                "client": each.client_id,
                "instance": each.instance_id,
                "partitions": [
                    [services.cluster.topic_name(topic) or str(topic), index]
                    for topic, indexes in each.assigned.items()
                    for index in indexes
                ],
            }
            for each in [*consumer.members.values()][:MEMBERS_MAX]
        ]
        found.append(_group(shard, consumer.id, "consumer", consumer.state.value, consumer.epoch, members, None))
    for share in shard.shares.groups.values():
        members = [{"id": each.id, "client": each.client_id, "instance": None, "partitions": []} for each in [*share.members.values()]]
        found.append(_group(shard, share.id, "share", share.state.value, share.epoch, members[:MEMBERS_MAX], None))
    return found


def assigned(assignment: bytes) -> list[list[Any]]:
    """The partitions in a classic member's assignment; none if its client writes another format."""
    try:
        return [list(each) for each in read_assignment(assignment)] if assignment else []
    except Unreadable:
        return []


def _group(shard: Shard, name: str, kind: str, state: str, generation: int, members: list[Data], since_ms: int | None) -> Data:
    offsets = [
        {
            "topic": topic,
            "partition": index,
            "offset": committed.offset,
            "at_ms": committed.at_ms,
            "pending": shard.offsets.is_pending(name, topic, index),
        }
        for topic, found in shard.offsets.every(name)
        for index, committed in found.items()
    ]
    return {
        "id": name,
        "type": kind,
        "state": state,
        "generation": generation,
        "since_ms": since_ms,
        "members": members,
        "offsets": offsets[:OFFSETS_MAX],
        "node": shard.replica.node,
    }
