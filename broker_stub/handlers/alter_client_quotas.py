"""AlterClientQuotas (49), versions 0 and 1.

Sets and removes quotas of users, of client ids, of both together, of their defaults (a null name), and of addresses. All changes of an
entity are applied, or none. They count from the next request on. `validate_only` changes nothing. An invalid entity or key, a value that
is not above 0, and a fraction of a byte are INVALID_REQUEST. Any broker takes the request.

Leaves out: `controller_mutation_rate` and the `connection_creation_rate` of addresses are kept and not obeyed.
"""

from __future__ import annotations

from fencepost.broker_stub.quotas.quotas import Entity, why_not
from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.permissions import words_for
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages import alter_quotas_response
from fencepost.producer.wire.messages.alter_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse, EntityData, EntryData


@handles(AlterClientQuotasRequest, range(2), cluster=Operation.ALTER_CONFIGS, forwarded=True)
def alter_client_quotas(call: Call, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    if call.error:
        words = words_for(call.error)
        return AlterClientQuotasResponse(entries=[_answer(each.entity, call.error, words) for each in request.entries])
    reasons: dict[Entity, str | None] = {}
    for each in request.entries:
        entity = _entity(each)
        reasons[entity] = f"Ignoring duplicate entity {_shown(entity)}" if entity in reasons else _change(call, request, each)
    return AlterClientQuotasResponse(
        entries=[
            _answer(
                [EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                ErrorCode.INVALID_REQUEST if reason else ErrorCode.NONE,
                reason,
            )
            for entity, reason in reasons.items()
        ]
    )


def _change(call: Call, request: AlterClientQuotasRequest, asked: EntryData) -> str | None:
    entity = _entity(asked)
    values = {op.key: None if op.remove else op.value for op in asked.ops}
    twice = next((op.key for number, op in enumerate(asked.ops) if op.key in [each.key for each in asked.ops[:number]]), None)
    if twice is not None:
        # As in Kafka, where a key that is named twice gets the error of an entity that is named twice.
        return f"Ignoring duplicate entity {_shown(entity)}"
    reason = why_not(entity, values)
    if reason is None and not request.validate_only:
        call.cluster.quotas.change(entity, values)
    return reason


def _entity(asked: EntryData) -> Entity:
    return frozenset({each.entity_type: each.entity_name for each in asked.entity}.items())


def _shown(entity: Entity) -> str:
    """The text that Java prints."""
    inside = ", ".join(f"{kind}={name if name is not None else 'null'}" for kind, name in sorted(entity))
    return f"ClientQuotaEntity(entries={{{inside}}})"


def _answer(entity: list[EntityData], code: int, message: str | None) -> alter_quotas_response.EntryData:
    return alter_quotas_response.EntryData(error_code=code, error_message=message, entity=entity)
