"""What the proxy refuses in a broker's place: every request is known to be a write or a question, and every write can be refused."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from fencepost.broker_stub.faults.refused_responses import refusal
from fencepost.broker_stub.faults.topics_and_partitions import ASKED, partitions_of
from fencepost.broker_stub.proxy.writes import WRITES, is_write, together, without
from fencepost.producer.wire import RESPONSES, Api, ErrorCode, Message, encode_request, encode_response
from fencepost.producer.wire.messages.topic_admin import DeleteTopicsRequest
from tests.broker_stub.filled_requests import APIS, newest, request_of
from tests.broker_stub.proxy.proxy_site import codes

CODE = ErrorCode.POLICY_VIOLATION
REASSIGN = Api.ALTER_PARTITION_REASSIGNMENTS
REGISTERED_WRITES = [api for api in APIS if api in WRITES]
ABOUT_TOPICS = [api for api in REGISTERED_WRITES if api in ASKED]
NAME = "by id"
QUESTIONS = frozenset(
    {
        Api.FETCH,
        Api.LIST_OFFSETS,
        Api.METADATA,
        Api.OFFSET_FETCH,
        Api.FIND_COORDINATOR,
        Api.DESCRIBE_GROUPS,
        Api.LIST_GROUPS,
        Api.API_VERSIONS,
        Api.GET_TELEMETRY_SUBSCRIPTIONS,
        Api.OFFSET_FOR_LEADER_EPOCH,
        Api.DESCRIBE_ACLS,
        Api.DESCRIBE_CONFIGS,
        Api.DESCRIBE_LOG_DIRS,
        Api.LIST_PARTITION_REASSIGNMENTS,
        Api.DESCRIBE_CLIENT_QUOTAS,
        Api.DESCRIBE_USER_SCRAM_CREDENTIALS,
        Api.DESCRIBE_CLUSTER,
        Api.DESCRIBE_PRODUCERS,
        Api.DESCRIBE_QUORUM,
        Api.DESCRIBE_TRANSACTIONS,
        Api.LIST_TRANSACTIONS,
        Api.CONSUMER_GROUP_DESCRIBE,
        Api.LIST_CONFIG_RESOURCES,
        Api.DESCRIBE_TOPIC_PARTITIONS,
        Api.SHARE_GROUP_DESCRIBE,
        Api.READ_SHARE_GROUP_STATE_SUMMARY,
        Api.DESCRIBE_SHARE_GROUP_OFFSETS,
    }
)
"""Requests that may be forwarded, and their responses changed."""
LATEST = {Api.ADD_PARTITIONS_TO_TXN: 3}
"""The newest version in which clients name topics, where that is not the newest there is."""


ANOTHER = UUID(int=9)


def name_of(topic_id: object) -> str:
    return NAME if topic_id != ANOTHER else "another by id"


def everything(topic: str, partition: int) -> bool:
    return True


def test_every_request_is_a_write_or_a_question() -> None:
    """A request that is spoken here and in neither table would be forwarded although a rule refused it."""
    assert set(APIS) <= WRITES | QUESTIONS
    assert not WRITES & QUESTIONS


@pytest.mark.parametrize("api", REGISTERED_WRITES, ids=lambda api: api.name)
def test_every_write_can_be_refused(api: Api) -> None:
    """The refusal of a request in any version carries the code, the newest can be sent, and nothing is left to forward. As in Kafka no
    message repeats the code."""
    for version in RESPONSES[api].versions:
        request = request_of(api, version)
        assert is_write(request)
        assert without(request, everything, name_of) is None
        refused = refusal(request, CODE, everything, name_of, version=version)
        assert CODE in codes(refused)
        assert "error_message=''" not in repr(refused)
    assert encode_response(refused, newest(RESPONSES[api]), correlation_id=1)


@pytest.mark.parametrize("api", ABOUT_TOPICS, ids=lambda api: api.name)
def test_a_part_of_a_write_is_refused(api: Api) -> None:
    """The covered entry is refused and gone, the other is forwarded, and the two answers become one."""
    request = two_topics(api)
    first, second = dict.fromkeys(name for name, _ in partitions_of(request, name_of))

    def covers(topic: str, partition: int) -> bool:
        return topic == second

    left = without(request, covers, name_of)
    assert left is not None
    assert {name for name, _ in partitions_of(left, name_of)} == {first}
    version = LATEST.get(api, newest(type(left)))
    assert encode_request(left, version, correlation_id=1, client_id=None)
    refused = refusal(request, CODE, covers, name_of, version=version)
    others = refusal(request, ErrorCode.NONE, lambda topic, partition: topic == first, name_of, version=version)
    assert codes(refused) - {0} == {CODE}
    whole = together(others, refused)
    assert codes(whole) == {0, CODE}
    assert encode_response(whole, version, correlation_id=1)


@pytest.mark.parametrize(("api", "version", "code"), [(Api.ELECT_LEADERS, 0, 0), (Api.ELECT_LEADERS, 2, CODE), (REASSIGN, 0, CODE)])
def test_some_refusals_have_a_code_of_their_own(api: Api, version: int, code: int) -> None:
    """The whole response has the code beside its entries, if the whole request is refused. Version 0 of ElectLeaders has no room for it."""
    request = request_of(api, version)
    refused: Any = refusal(request, CODE, everything, name_of, version=version)
    assert refused.error_code == code
    assert encode_response(refused, version, correlation_id=1)
    part: Any = refusal(request, CODE, lambda topic, partition: topic != "", name_of, version=version)
    assert part.error_code == 0
    assert CODE in codes(part)


def test_topics_that_go_by_name_alone() -> None:
    """DeleteTopics up to version 5 has a list of names."""
    request = DeleteTopicsRequest(topic_names=["a", "b"])

    def covers(topic: str, partition: int) -> bool:
        return topic == "b"

    assert without(request, covers, name_of) == DeleteTopicsRequest(topic_names=["a"])
    refused: Any = refusal(request, CODE, covers, name_of, version=5)
    assert [(each.name, each.error_code) for each in refused.responses] == [("b", CODE)]


def two_topics(api: Api) -> Message:
    """A request in which another topic stands beside the first; one goes by name where the message has names at all."""
    request = request_of(api, LATEST.get(api))
    field = ASKED[api][0]
    (entry,) = getattr(request, field)
    called = next(name for name in ("name", "topic", "topic_name", "resource_name", "topic_id") if name in entry.__struct_fields__)
    kind = {"resource_type": 2} if called == "resource_name" else {}
    if called == "topic_id":
        others = [entry, replace(entry, topic_id=ANOTHER)]
    elif "topic_id" not in entry.__struct_fields__:
        others = [replace(entry, **{called: each}, **kind) for each in ("a", "b")]
    else:
        others = [replace(entry, **{called: "a"}), replace(entry, **{called: ""})]
    asking: Message = replace(request, **{field: others})
    return asking
