"""The groups and transactional ids of a request are found in every message that has any."""

from __future__ import annotations

import pytest

from fencepost.broker_stub.faults.groups_and_transactional_ids import groups_of, transactional_ids_of
from fencepost.producer import wire
from fencepost.producer.wire import REQUESTS, Api, Message
from fencepost.producer.wire.messages import group_admin, group_offsets
from fencepost.producer.wire.schema.declarations import Array, Text
from tests.broker_stub.filled_requests import APIS, fields_of, request_of

NO_GROUP = ("group_instance_id", "group_metadata", "transactional_id_pattern")
"""Fields that sound like the name of an owner and are none."""


def names(request: type[Message], *parts: str) -> bool:
    """Whether a field of that message holds texts under such a name."""
    texts = (each.name for each in fields_of(request) if isinstance(each.kind, Text) or each.kind == Array(Text()))
    return any(part in name for name in texts for part in parts if name not in NO_GROUP)


@pytest.mark.parametrize("api", [api for api in APIS if api != Api.FIND_COORDINATOR], ids=lambda api: api.name)
def test_every_request_that_names_an_owner_is_understood(api: Api) -> None:
    """Wherever a message has a field for a group or a transactional id, a rule can look at it; also in messages that are added later."""
    found: set[str] = set()
    transactional: set[str] = set()
    for version in REQUESTS[api].versions:
        found |= groups_of(request_of(api, version))
        transactional |= transactional_ids_of(request_of(api, version))
    assert bool(found) == names(REQUESTS[api], "group")
    assert bool(transactional) == names(REQUESTS[api], "transactional_id")


@pytest.mark.parametrize(
    ("request_", "groups", "ids"),
    [
        (wire.ProduceRequest(transactional_id="x"), set(), {"x"}),
        (wire.ProduceRequest(transactional_id=None), set(), set()),
        (wire.InitProducerIdRequest(transactional_id="x"), set(), {"x"}),
        (wire.FindCoordinatorRequest(key="a", key_type=0), {"a"}, set()),
        (wire.FindCoordinatorRequest(key_type=1, coordinator_keys=["a", "b"]), set(), {"a", "b"}),
        (wire.FindCoordinatorRequest(key_type=2, coordinator_keys=["a:b:1"]), set(), set()),
        (group_offsets.OffsetFetchRequest(group_id="a"), {"a"}, set()),
        (
            group_offsets.OffsetFetchRequest(groups=[group_offsets.OffsetFetchRequestGroup(group_id=each) for each in "ab"]),
            {"a", "b"},
            set(),
        ),
        (group_admin.DescribeGroupsRequest(groups=["a", "b"]), {"a", "b"}, set()),
        (group_admin.DeleteGroupsRequest(groups_names=["a"]), {"a"}, set()),
        (group_offsets.OffsetCommitRequest(group_id=""), set(), set()),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Message) else None,
)
def test_owners(request_: Message, groups: set[str], ids: set[str]) -> None:
    """All names of a message are found, and a message without names has none."""
    assert groups_of(request_) == groups
    assert transactional_ids_of(request_) == ids
