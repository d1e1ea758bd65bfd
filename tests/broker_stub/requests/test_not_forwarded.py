"""Requests that a broker could not forward to the controller: each of their results is REQUEST_TIMED_OUT, in every version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from fencepost.broker_stub import handlers
from fencepost.broker_stub.requests.not_forwarded import timed_out
from fencepost.broker_stub.requests.router import route_to, served
from fencepost.producer import wire
from fencepost.producer.wire import Api, ErrorCode
from tests.broker_stub.filled_requests import request_of

FORWARDED = (
    Api.CREATE_TOPICS,
    Api.DELETE_TOPICS,
    Api.CREATE_ACLS,
    Api.DELETE_ACLS,
    Api.ALTER_CONFIGS,
    Api.CREATE_PARTITIONS,
    Api.ELECT_LEADERS,
    Api.INCREMENTAL_ALTER_CONFIGS,
    Api.ALTER_PARTITION_REASSIGNMENTS,
    Api.LIST_PARTITION_REASSIGNMENTS,
    Api.ALTER_CLIENT_QUOTAS,
    Api.ALTER_USER_SCRAM_CREDENTIALS,
    Api.DESCRIBE_QUORUM,
    Api.UPDATE_FEATURES,
    Api.UNREGISTER_BROKER,
)


def codes_in(value: Any) -> Iterator[int]:
    """Every error code in a response."""
    if isinstance(value, list):
        for each in value:
            yield from codes_in(each)
    elif isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            if field == "error_code":
                yield getattr(value, field)
            else:
                yield from codes_in(getattr(value, field))


def test_these_requests_are_forwarded() -> None:
    """The handlers' own mark agrees with the list here."""
    handlers.register()
    routes = {Api(each.api): route_to(each.api) for each in served()}
    assert {api for api, route in routes.items() if route is not None and route.forwarded} == {*FORWARDED}


@pytest.mark.parametrize("api", FORWARDED, ids=lambda api: api.name)
def test_every_result_is_a_timeout(api: Api) -> None:
    """In each version, each result of a request that was not forwarded has this code."""
    handlers.register()
    route = route_to(api)
    assert route is not None
    for version in route.versions:
        answer = timed_out(request_of(api, version), version)
        codes = {*codes_in(wire.decode_response(b"".join(wire.encode_response(answer, version, correlation_id=1))[4:], api, version)[1])}
        # In version 0 of ElectLeaders only the partitions have codes.
        assert codes - ({0} if (api, version) == (Api.ELECT_LEADERS, 0) else set()) == {ErrorCode.REQUEST_TIMED_OUT}
