"""Offsets of a group: which commits and fetches are allowed, and the answers to them.

Handlers have checked topics and partitions before. Offsets of open transactions are kept apart from the others. `offset_expiration`
removes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from fencepost.broker_stub.cluster.internal_append import Then
from fencepost.broker_stub.groups.classic.classic_protocol import ClassicGroups
from fencepost.broker_stub.groups.consumer.consumer_protocol import ConsumerGroups
from fencepost.broker_stub.groups.offsets.member_epochs import commit_error, fetch_error, partitions_error, transactional_commit_error
from fencepost.broker_stub.groups.state.classic_group import CONSUMER_PROTOCOL, Group
from fencepost.broker_stub.groups.state.classic_states import State
from fencepost.broker_stub.groups.state.consumer_offsets_log import Offsets, Store
from fencepost.broker_stub.groups.state.pending_offsets import Committed, Key
from fencepost.producer.wire import ZERO_UUID, ErrorCode
from fencepost.producer.wire.messages.group_offsets import OffsetCommitRequest

if TYPE_CHECKING:
    from fencepost.broker_stub.cluster.producer_ids import Identity

GROUP_ID_NOT_FOUND_SINCE = 9


class Committer(NamedTuple):
    """The sender of a commit: a member of a generation, or a client without a generation."""

    generation: int
    member_id: str
    instance_id: str | None
    transactional: bool = False


class GroupOffsets:
    """The committed offsets of one shard's groups."""

    def __init__(self, store: Store, groups: ClassicGroups, consumers: ConsumerGroups, *, metadata_bytes_max: int) -> None:
        self._store = store
        self._groups = groups
        self._consumers = consumers
        self._metadata_bytes_max = metadata_bytes_max

    def commit_error(self, request: OffsetCommitRequest, version: int) -> int:
        """The code for a commit of this sender; 0 if it may. A sender without a generation creates a missing group with its first
        offset."""
        generation = request.generation_id_or_member_epoch
        if request.group_id in self._store.shares.groups:
            return ErrorCode.GROUP_ID_NOT_FOUND
        consumer = self._consumers.groups.get(request.group_id)
        if consumer is not None:
            return commit_error(consumer, request.member_id, generation, version=version)
        group = self._groups.groups.get(request.group_id)
        if group is None:
            if generation >= 0:
                return ErrorCode.GROUP_ID_NOT_FOUND if version >= GROUP_ID_NOT_FOUND_SINCE else ErrorCode.ILLEGAL_GENERATION
            if not self._groups.begin_with_offsets:
                self._groups.create(request.group_id)
            return ErrorCode.NONE
        code = _committer_error(group, Committer(generation, request.member_id, request.group_instance_id))
        if not code:
            self._groups.seen(group, request.member_id)
        return code

    def partitions_error(self, request: OffsetCommitRequest, offsets: Offsets) -> int:
        """The code for a commit of a member with an older epoch; 0 if it may commit all of these."""
        consumer = self._consumers.groups.get(request.group_id)
        if consumer is None:
            return ErrorCode.NONE
        partitions = [(committed.topic_id, index) for (_, _, index), committed in offsets.items()]
        return partitions_error(consumer, request.member_id, request.generation_id_or_member_epoch, partitions)

    def fetch_error(self, group_id: str, member_id: str | None, epoch: int) -> int:
        """The code for a fetch by that member; 0 if it may."""
        consumer = self._consumers.groups.get(group_id)
        return fetch_error(consumer, member_id, epoch) if consumer is not None else ErrorCode.NONE

    def transactional_commit_error(self, group_id: str, committer: Committer, partitions: Iterable[tuple[str, int]]) -> int:
        """The same as `commit_error` for a commit within a transaction. The sender may be a member whose group still waits for its
        assignment."""
        if group_id in self._store.shares.groups:
            return ErrorCode.GROUP_ID_NOT_FOUND
        consumer = self._consumers.groups.get(group_id)
        if consumer is not None:
            code = transactional_commit_error(consumer, committer.member_id, committer.generation, committer.instance_id)
            if code or committer.generation < 0:
                return code
            owned = self._consumers.with_ids(partitions)
            stale = partitions_error(consumer, committer.member_id, committer.generation, owned)
            return ErrorCode.ILLEGAL_GENERATION if stale else ErrorCode.NONE
        group = self._groups.groups.get(group_id)
        if group is None:
            if committer.generation >= 0:
                return ErrorCode.ILLEGAL_GENERATION
            group = self._groups.create(group_id)
        return _committer_error(group, committer)

    def metadata_error(self, metadata: str) -> int:
        """The code for metadata that is too large; 0 if it is not."""
        return ErrorCode.OFFSET_METADATA_TOO_LARGE if len(metadata) > self._metadata_bytes_max else ErrorCode.NONE

    def commit_pending(self, identity: Identity, offsets: Offsets, *, guard: int | None, then: Then) -> None:
        """Keeps the offsets until that producer's transaction ends."""
        self._store.commit_pending(identity, offsets, guard=guard, then=then)

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction may replace the offset."""
        return self._store.pending.has((group_id, topic, partition))

    def commit(self, offsets: Offsets, then: Then) -> None:
        """Keeps the offsets; `then` gets the code."""
        for group_id in {group_id for group_id, _, _ in offsets} - self._groups.groups.keys() - self._consumers.groups.keys():
            self._groups.create(group_id)
        self._store.commit(offsets, then)

    def find(self, group_id: str, topic: str, partition: int, *, topic_id: UUID = ZERO_UUID) -> Committed | None:
        """The offset, unless it was committed for an earlier topic of that name."""
        committed = self._store.offsets.get(group_id, {}).get(topic, {}).get(partition)
        if committed is None or (topic_id != ZERO_UUID and committed.topic_id not in (ZERO_UUID, topic_id)):
            return None
        return committed

    def every(self, group_id: str) -> Iterator[tuple[str, dict[int, Committed]]]:
        """All committed offsets of the group, as (topic, offsets by partition)."""
        yield from self._store.offsets.get(group_id, {}).items()

    def delete_error(self, group_id: str) -> int:
        """The code when no offset of this group can be deleted; 0 if some can."""
        if group_id in self._consumers.groups:
            return ErrorCode.NONE
        group = self._groups.groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        in_use = group.state is not State.EMPTY and group.protocol_type != CONSUMER_PROTOCOL
        return ErrorCode.NON_EMPTY_GROUP if in_use else ErrorCode.NONE

    def deletion_error(self, group_id: str, topic: str) -> int:
        """The code for a topic that a member may be reading; 0 if its offsets can be deleted."""
        group = self._consumers.groups.get(group_id) or self._groups.groups[group_id]
        subscribed = group.is_subscribed(topic)
        return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE

    def delete(self, keys: Sequence[Key], then: Then) -> None:
        """Deletes those of the offsets that exist, committed or in an open transaction."""
        self._groups.forget_offsets([key for key in keys if self.find(*key) is not None or self.is_pending(*key)], then)


def _committer_error(group: Group, committer: Committer) -> int:
    generation, member_id, instance_id, transactional = committer
    if generation < 0 and group.state is State.EMPTY:
        return ErrorCode.NONE
    if generation >= 0 or member_id or instance_id is not None:
        code = group.member_error(member_id, instance_id)
        if code:
            return code
        if generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
    elif group.state is not State.EMPTY and not transactional:
        return ErrorCode.UNKNOWN_MEMBER_ID
    rebalances = group.state is State.COMPLETING_REBALANCE and not transactional
    return ErrorCode.REBALANCE_IN_PROGRESS if rebalances else ErrorCode.NONE
