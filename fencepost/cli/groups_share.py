"""Share groups for `fencepost groups describe`: members, and where the group is in each partition. Two requests to the coordinator.

A partition may have several members, and a member's partitions have no offset of its own: the group has one start offset for each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fencepost.cli.output import say, say_json
from fencepost.cli.tables import show
from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.messages.share_groups import DescribedGroup, ShareGroupDescribeRequest, ShareGroupDescribeResponse
from fencepost.producer.wire.messages.share_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
)
from fencepost.txn.protocol.cluster_client import refuse, the_one
from fencepost.txn.protocol.requests import GROUP

if TYPE_CHECKING:
    from fencepost.txn.protocol.cluster_client import ClusterClient

SHARE: Final = "share"


async def describe_share_group(client: ClusterClient, group: str) -> dict[str, Any]:
    """The group as `show_share_group` takes it."""
    coordinator = await client.coordinator(group, GROUP)
    subject = f"group {group!r}"
    answer: ShareGroupDescribeResponse = await client.ask_coordinator(group, ShareGroupDescribeRequest(group_ids=[group]), kind=GROUP)
    said = the_one(answer.groups, subject)
    refuse(Api.SHARE_GROUP_DESCRIBE, said.error_code, subject)
    asked = DescribeShareGroupOffsetsRequest(groups=[DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)])
    told: DescribeShareGroupOffsetsResponse = await client.ask_coordinator(group, asked, kind=GROUP)
    offsets = the_one(told.groups, subject)
    refuse(Api.DESCRIBE_SHARE_GROUP_OFFSETS, offsets.error_code, subject)
    return {
        "group": group,
        "state": said.group_state,
        "type": SHARE,
        "assignor": said.assignor_name or None,
        "coordinator": coordinator,
        "members": _members(said),
        "partitions": _partitions(offsets),
    }


def _members(said: DescribedGroup) -> list[dict[str, Any]]:
    return [
        {
            "member": each.member_id,
            "client_id": each.client_id,
            "host": each.client_host.removeprefix("/"),
            "subscribed": sorted(each.subscribed_topic_names),
            "partitions": sorted(
                (
                    {"topic": topic.topic_name, "partition": index}
                    for topic in each.assignment.topic_partitions
                    for index in topic.partitions
                ),
                key=lambda place: (place["topic"], place["partition"]),
            ),
        }
        for each in sorted(said.members, key=lambda each: each.member_id)
    ]


def _partitions(offsets: DescribeShareGroupOffsetsResponseGroup) -> list[dict[str, Any]]:
    """An offset of -1: the group has not begun. A lag of -1: it is not known."""
    found = [
        {
            "topic": topic.topic_name,
            "partition": each.partition_index,
            "offset": each.start_offset if each.start_offset >= 0 else None,
            "lag": each.lag if each.lag >= 0 else None,
        }
        for topic in offsets.topics
        for each in topic.partitions
    ]
    return sorted(found, key=lambda place: (place["topic"], place["partition"]))


def show_share_group(described: dict[str, Any], *, json: bool) -> None:
    """One line for each partition of each member. A partition without members comes after them."""
    if json:
        say_json(described)
        return
    say(", ".join(f"{name} {value}" for name, value in described.items() if value is not None and not isinstance(value, list)))
    where = {(each["topic"], each["partition"]): each for each in described["partitions"]}
    idle: dict[str, Any] = dict.fromkeys(("topic", "partition", "offset", "lag"))
    rows = []
    had = set()
    for member in described["members"]:
        for place in member["partitions"] or [idle]:
            key = (place["topic"], place["partition"])
            had.add(key)
            rows.append({**idle, **member, **place, **where.get(key, {})})
    rows += [{**dict.fromkeys(("member", "client_id", "host")), **each} for key, each in where.items() if key not in had]
    show(rows, json=False, columns=("member", "client_id", "host", "topic", "partition", "offset", "lag"))
