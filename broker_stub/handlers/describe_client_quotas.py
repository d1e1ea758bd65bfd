"""DescribeClientQuotas (48), versions 0 and 1.

The quotas of the matching entities. A filter has for each entity type one name, the default, or any. `strict`: only entities without
further types. A type that is named twice, and a name where none belongs, are INVALID_REQUEST, an unknown type UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from fencepost.broker_stub.quotas.quotas import CLIENT_ID, IP, USER, Entity
from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.describe_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

EXACT, DEFAULT, SPECIFIED = range(3)


class FilterRefused(Exception):
    """The error of a filter."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@handles(DescribeClientQuotasRequest, range(2), cluster=Operation.DESCRIBE_CONFIGS)
def describe_client_quotas(call: Call, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    if call.error:
        return DescribeClientQuotasResponse(error_code=call.error, error_message=None, entries=None)
    try:
        _check(request.components)
    except FilterRefused as refused:
        return DescribeClientQuotasResponse(error_code=refused.code, error_message=str(refused), entries=None)
    return DescribeClientQuotasResponse(
        entries=[
            EntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in sorted(entity)],
                values=[ValueData(key=key, value=value) for key, value in sorted(values.items())],
            )
            for entity, values in call.cluster.quotas.entries.items()
            if _fits(entity, request)
        ],
    )


def _check(components: list[ComponentData]) -> None:
    kinds: list[str] = []
    for each in components:
        if not each.entity_type:
            raise FilterRefused(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if each.entity_type in kinds:
            raise FilterRefused(ErrorCode.INVALID_REQUEST, f"Entity type {each.entity_type} cannot appear more than once in the filter.")
        if each.entity_type not in (USER, CLIENT_ID, IP):
            raise FilterRefused(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {each.entity_type}")
        if each.match_type not in (EXACT, DEFAULT, SPECIFIED):
            raise FilterRefused(ErrorCode.INVALID_REQUEST, f"Unknown match type {each.match_type}")
        if each.match_type == EXACT and each.match is None:
            raise FilterRefused(ErrorCode.INVALID_REQUEST, "Request specified MATCH_TYPE_EXACT, but set match string to null.")
        if each.match_type != EXACT and each.match is not None:
            word = "DEFAULT" if each.match_type == DEFAULT else "SPECIFIED"
            raise FilterRefused(ErrorCode.INVALID_REQUEST, f"Request specified MATCH_TYPE_{word}, but also specified a match string.")
        kinds.append(each.entity_type)
    if IP in kinds and len(kinds) > 1:
        raise FilterRefused(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId filter component.",
        )


def _fits(entity: Entity, request: DescribeClientQuotasRequest) -> bool:
    named = dict(entity)
    if request.strict and len(named) != len(request.components):
        return False
    return all(
        each.entity_type in named and (each.match_type == SPECIFIED or named[each.entity_type] == each.match) for each in request.components
    )
