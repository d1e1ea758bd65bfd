"""When committed offsets and groups expire (Kafka's `cleanupGroupMetadata` and `OffsetExpirationCondition`).

An offset expires `offsets.retention.minutes` after its commit. In a classic group of consumers the time counts from the loss of its last
member. Old clients could name the time themselves. An offset stays while a member may read its partition, and while a transaction may
replace it. A group without members and without offsets is removed.
"""

from __future__ import annotations

from collections.abc import Callable

from fencepost.broker_stub.groups.classic.classic_protocol import ClassicGroups
from fencepost.broker_stub.groups.consumer.consumer_protocol import ConsumerGroups
from fencepost.broker_stub.groups.state.classic_group import CONSUMER_PROTOCOL, Group
from fencepost.broker_stub.groups.state.classic_states import State
from fencepost.broker_stub.groups.state.consumer_offsets_log import Store
from fencepost.broker_stub.groups.state.pending_offsets import Committed, Key

NO_TIME = -1


def expire(groups: ClassicGroups, consumers: ConsumerGroups, store: Store, *, now_ms: int, retention_ms: int) -> None:
    """Writes the deletion of offsets and groups."""
    gone: list[Key] = []
    for group in tuple(groups.groups.values()):
        since = _counts_from(group)
        keys = store.keys(group.id)
        expired = [key for key in keys if since is not None and _is_expired(store, group, key, since, now_ms, retention_ms)]
        if group.state is State.EMPTY and len(expired) == len(keys):
            groups.delete(group.id)
        else:
            gone += expired
    for consumer in tuple(consumers.groups.values()):
        keys = store.keys(consumer.id)
        expired = [
            key
            for key in keys
            if not consumer.is_subscribed(key[1]) and _is_over(store, key, lambda committed: committed.at_ms, now_ms, retention_ms)
        ]
        if not consumer.members and len(expired) == len(keys):
            consumers.delete(consumer.id)
        else:
            gone += expired
    store.forget(gone)


def _counts_from(group: Group) -> Callable[[Committed], int] | None:
    """The time from which the retention of an offset counts. None: nothing of the group expires now."""
    if group.protocol_type is None:
        return lambda committed: committed.at_ms
    if group.state is State.EMPTY:
        return lambda committed: group.since_ms if group.since_ms != NO_TIME else committed.at_ms
    if group.protocol_type == CONSUMER_PROTOCOL and group.subscribed is not None and group.state is State.STABLE:
        return lambda committed: committed.at_ms
    return None


def _is_expired(store: Store, group: Group, key: Key, since: Callable[[Committed], int], now_ms: int, retention_ms: int) -> bool:
    return not group.is_subscribed(key[1]) and _is_over(store, key, since, now_ms, retention_ms)


def _is_over(store: Store, key: Key, since: Callable[[Committed], int], now_ms: int, retention_ms: int) -> bool:
    group_id, topic, partition = key
    committed = store.offsets.get(group_id, {}).get(topic, {}).get(partition)
    if committed is None or store.pending.has(key):
        return False
    return now_ms >= (committed.expires_ms if committed.expires_ms != NO_TIME else since(committed) + retention_ms)
