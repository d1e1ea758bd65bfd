"""The groups and the transactional ids that a request names, for the fault rules.

They are found by the names of fields, which are alike in all of Kafka's messages. A new message needs no row here. Only requests are
searched, and empty names are ignored.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from fencepost.producer.wire import Api, Message

GROUP_FIELDS: Final = ("group_id", "group_ids", "groups", "groups_names")
TXN_FIELDS: Final = ("transactional_id", "transactional_ids", "transactions", "v3_and_below_transactional_id")
GROUP_KEY, TXN_KEY = 0, 1  # the key types of FindCoordinator


def groups_of(request: Message) -> frozenset[str]:
    """Every group that the request names."""
    return frozenset(filter(None, _named(request, GROUP_FIELDS, key_type=GROUP_KEY)))


def transactional_ids_of(request: Message) -> frozenset[str]:
    """Every transactional id that the request names."""
    return frozenset(filter(None, _named(request, TXN_FIELDS, key_type=TXN_KEY)))


def _named(request: msgspec.Struct, fields: tuple[str, ...], *, key_type: int | None = None) -> Iterator[str]:
    if isinstance(request, Message) and request.api == Api.FIND_COORDINATOR:
        if getattr(request, "key_type", None) == key_type:
            yield from (getattr(request, "key", ""), *getattr(request, "coordinator_keys", ()))
        return
    for field in fields:
        value = getattr(request, field, None)
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, str):
                yield each
            elif isinstance(each, msgspec.Struct):  # a list of structs, each with its own name
                yield from _named(each, fields)
