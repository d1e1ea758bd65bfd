"""What a fault rule can filter by, and which APIs have it.

A filter that could never match is refused, because the test that it is for would pass without its fault.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

import msgspec

from fencepost.broker_stub.arguments import check_arguments
from fencepost.broker_stub.faults.groups_and_transactional_ids import groups_of, transactional_ids_of
from fencepost.broker_stub.faults.topics_and_partitions import names_partitions, names_topics
from fencepost.producer.wire import REQUESTS, Api, WireStruct, api_name
from fencepost.producer.wire.schema.declarations import Array, Nested, Text, describe

FILTERS: Final = ("topic", "partition", "group", "txn", "node", "client_id")


def check_filters(given: Mapping[str, object], *, apis: Collection[int], nodes: Collection[int] | None) -> None:
    """Raises TypeError or ValueError for a filter that no request of these APIs, or no broker, could match. `nodes`: None if unknown."""
    check_arguments(**given)
    for name, value in given.items():
        if isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError:
                raise ValueError(f"{name}={value!r}: no request has lone surrogates, so it would never fire") from None
        named = _CARRIES.get(name)
        if named is not None and apis and not any(map(named, apis)):
            able = ", ".join(api.name for api in Api if named(api))
            raise ValueError(f"{name}={value!r}: {' and '.join(map(api_name, apis))} name no {name}, so it would never fire; {able} do")
    node = given.get("node")
    if nodes is not None and node is not None and node not in nodes:
        raise ValueError(f"node={node}: there is no such broker, only {', '.join(map(str, sorted(nodes)))}")


def _names_group(api: int) -> bool:
    return api in REQUESTS and any(groups_of(probe) for probe in _probes(api))


def _names_txn(api: int) -> bool:
    """Also of the markers, though only the coordinator that sends them knows whose they are."""
    return api == Api.WRITE_TXN_MARKERS or (api in REQUESTS and any(transactional_ids_of(probe) for probe in _probes(api)))


_CARRIES: Final[Mapping[str, Callable[[int], bool]]] = {
    "topic": names_topics,
    "partition": names_partitions,
    "group": _names_group,
    "txn": _names_txn,
}
"""Whether requests of an API have what a filter looks at."""


def _probes(api: int) -> Iterable[Any]:
    """Requests with text in every text field: one for each type of key, where keys have types."""
    probe = _probe(REQUESTS[api])
    return [msgspec.structs.replace(probe, key_type=kind) for kind in (0, 1)] if api == Api.FIND_COORDINATOR else [probe]


def _probe(struct: type[WireStruct]) -> Any:
    texts: dict[str, Any] = {}
    for field in describe(struct):
        match field.kind:
            case Text():
                texts[field.name] = "?"
            case Array(element=Text()):
                texts[field.name] = ["?"]
            case Array(element=Nested() as nested):
                texts[field.name] = [_probe(nested.struct)]
    return struct(**texts)
