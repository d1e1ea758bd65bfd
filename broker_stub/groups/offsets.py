"""Offsets of a group: who may commit them, and what is answered to who asks for them.

Topics and partitions have been checked by the time an offset comes here. Kept are the newest offsets, and apart from them those of open
transactions; when they expire is `expiry`'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from fencepost.broker_stub.cluster.internal_append import Then
from fencepost.broker_stub.groups.classic import ClassicGroups
from fencepost.broker_stub.groups.group import CONSUMER_PROTOCOL, Group
from fencepost.broker_stub.groups.offsets_log import Offsets, Store
from fencepost.broker_stub.groups.pending_offsets import Committed, Key
from fencepost.broker_stub.groups.states import State
from fencepost.producer.wire import ZERO_UUID, ErrorCode
from fencepost.producer.wire.messages.group_offsets import OffsetCommitRequest

if TYPE_CHECKING:
    from fencepost.broker_stub.cluster.producer_ids import Identity

GROUP_ID_NOT_FOUND_SINCE = 9


class Committer(NamedTuple):
    """Who commits: a member of a generation, or nobody in particular."""

    generation: int
    member_id: str
    instance_id: str | None
    transactional: bool = False


class GroupOffsets:
    """The committed offsets of one shard's groups."""

    def __init__(self, store: Store, groups: ClassicGroups, *, metadata_bytes_max: int) -> None:
        self._store = store
        self._groups = groups
        self._metadata_bytes_max = metadata_bytes_max

    def commit_error(self, request: OffsetCommitRequest, version: int) -> int:
        """Why this committer may not; 0 if it may. A committer that names no generation makes a group of its own where there is none, as
        soon as it commits something."""
        group = self._groups.groups.get(request.group_id)
        generation = request.generation_id_or_member_epoch
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

    def transactional_commit_error(self, group_id: str, committer: Committer) -> int:
        """The same for a commit within a transaction, which may be that of a member whose group is about to have its assignment."""
        group = self._groups.groups.get(group_id)
        if group is None:
            if committer.generation >= 0:
                return ErrorCode.ILLEGAL_GENERATION
            group = self._groups.create(group_id)
        return _committer_error(group, committer)

    def metadata_error(self, metadata: str) -> int:
        """Why no offset can have that metadata; 0 if it can."""
        return ErrorCode.OFFSET_METADATA_TOO_LARGE if len(metadata) > self._metadata_bytes_max else ErrorCode.NONE

    def commit_pending(self, identity: Identity, offsets: Offsets, *, guard: int | None, then: Then) -> None:
        """Keeps the offsets until that producer's transaction ends."""
        self._store.commit_pending(identity, offsets, guard=guard, then=then)

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether a transaction will yet decide about the offset."""
        return self._store.pending.has((group_id, topic, partition))

    def commit(self, offsets: Offsets, then: Then) -> None:
        """Keeps the offsets; `then` hears how that went."""
        for group_id in {group_id for group_id, _, _ in offsets if group_id not in self._groups.groups}:
            self._groups.create(group_id)
        self._store.commit(offsets, then)

    def find(self, group_id: str, topic: str, partition: int, *, topic_id: UUID = ZERO_UUID) -> Committed | None:
        """The offset, unless it was committed for another topic of that name."""
        committed = self._store.offsets.get(group_id, {}).get(topic, {}).get(partition)
        if committed is None or (topic_id != ZERO_UUID and committed.topic_id not in (ZERO_UUID, topic_id)):
            return None
        return committed

    def every(self, group_id: str) -> Iterator[tuple[str, dict[int, Committed]]]:
        """(topic, offsets by partition) of all that the group has committed."""
        yield from self._store.offsets.get(group_id, {}).items()

    def delete_error(self, group_id: str) -> int:
        """Why no offset of this group can be deleted; 0 if some can."""
        group = self._groups.groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        in_use = group.state is not State.EMPTY and group.protocol_type != CONSUMER_PROTOCOL
        return ErrorCode.NON_EMPTY_GROUP if in_use else ErrorCode.NONE

    def deletion_error(self, group_id: str, topic: str) -> int:
        """Why no offset of that topic can be deleted, a member may be reading it; 0 if it can."""
        subscribed = self._groups.groups[group_id].is_subscribed(topic)
        return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE

    def delete(self, keys: Sequence[Key], then: Then) -> None:
        """Forgets those of the offsets that there are, and those that a transaction has not decided about yet."""
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
