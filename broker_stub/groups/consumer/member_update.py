"""What a request makes of a member of a consumer group."""

from __future__ import annotations

from typing import NamedTuple

from fencepost.broker_stub.groups.state.consumer_group import ConsumerGroup, ConsumerMember
from fencepost.broker_stub.groups.state.consumer_group_records import ConsumerRecord


class MemberUpdate(NamedTuple):
    """A member before a request, and as it will be after it. `records` gets what the log must have for that."""

    group: ConsumerGroup
    before: ConsumerMember
    after: ConsumerMember
    records: list[ConsumerRecord]
