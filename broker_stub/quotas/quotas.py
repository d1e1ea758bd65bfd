"""Quotas of users, of client ids, and of a user with a client id, and which of them applies to a client (KIP-13, KIP-546).

This file keeps and finds quotas. `client_quota_manager` counts for each broker what a client has used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

PRODUCE: Final = "producer_byte_rate"
FETCH: Final = "consumer_byte_rate"
REQUEST: Final = "request_percentage"
MUTATION: Final = "controller_mutation_rate"
CONNECTION: Final = "connection_creation_rate"

USER, CLIENT_ID, IP = "user", "client-id", "ip"
DEFAULT: Final = "<default>"  # how Kafka's tools write the name of a default quota

LONG_MAX, INT_MAX = 2**63 - 1, 2**31 - 1

OF_CLIENTS: Final = {PRODUCE: LONG_MAX, FETCH: LONG_MAX, REQUEST: None, MUTATION: None}
"""The quotas of users and client ids, and the largest value of each that must be a whole number."""
OF_ADDRESSES: Final = {CONNECTION: INT_MAX}

_TOO_LARGE = {LONG_MAX: "a LONG", INT_MAX: "an INT"}

Entity = frozenset[tuple[str, str | None]]
"""Entity types and names; a default has the name None."""


class Limit(NamedTuple):
    """The quota that applies to a client, and the key of the clients that share it."""

    bound: float
    shared_by: tuple[str, str]


class Quotas:
    """The quotas of a cluster. `keep`: called with those of an entity before a change counts."""

    def __init__(self, keep: Callable[[Entity, Mapping[str, float]], object] = lambda entity, values: None) -> None:
        self._keep = keep
        self._values: dict[Entity, dict[str, float]] = {}

    def __bool__(self) -> bool:
        return bool(self._values)

    @property
    def entries(self) -> Mapping[Entity, Mapping[str, float]]:
        return self._values

    def change(self, entity: Entity, values: Mapping[str, float | None]) -> None:
        """Sets these values; None removes a quota. The caller has checked them."""
        changed: dict[str, float | None] = {**self._values.get(entity, {}), **values}
        kept = {key: value for key, value in changed.items() if value is not None}
        if kept != self._values.get(entity, {}):
            self._keep(entity, kept)
        if kept:
            self._values[entity] = kept
        else:
            self._values.pop(entity, None)

    def limit(self, key: str, user: str, client_id: str) -> Limit | None:
        """The most specific quota, in Kafka's order. None: no quota applies."""
        for entity, shared_by in (
            ({USER: user, CLIENT_ID: client_id}, (user, client_id)),
            ({USER: user, CLIENT_ID: None}, (user, client_id)),
            ({USER: user}, (user, "")),
            ({USER: None, CLIENT_ID: client_id}, (user, client_id)),
            ({USER: None, CLIENT_ID: None}, (user, client_id)),
            ({USER: None}, (user, "")),
            ({CLIENT_ID: client_id}, ("", client_id)),
            ({CLIENT_ID: None}, ("", client_id)),
        ):
            bound = self._values.get(frozenset(entity.items()), {}).get(key)
            if bound is not None:
                return Limit(bound, shared_by)
        return None


def why_not(entity: Entity, values: Mapping[str, float | None]) -> str | None:
    """What is wrong with such a change, in Kafka's words. None: nothing."""
    known: Mapping[str, int | None] = OF_ADDRESSES if IP in dict(entity) else OF_CLIENTS
    wrong = _entity_error(entity)
    if wrong is not None:
        return wrong
    for key, value in values.items():
        if value is None:
            continue
        if key not in known:
            return f"Invalid configuration key {key}"
        if value <= 0:
            return f"Quota {key} must be greater than 0"
        largest = known[key]
        if largest is not None and value > largest:
            return f"Proposed value for {key} is too large for {_TOO_LARGE[largest]}."
        if largest is not None and abs(value % 1.0) > 1e-6:
            return f"{key} cannot be a fractional value."
    return None


def _entity_error(entity: Entity) -> str | None:
    if not entity:
        return "Invalid empty client quota entity"
    for kind, name in entity:
        if kind not in (USER, CLIENT_ID, IP):
            return f"Unhandled client quota entity type: {kind}"
        if name == "":
            return f"Empty {kind} not supported"
    if IP in dict(entity) and len(entity) > 1:
        return "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
    return None
