"""Fault rules from plain data, as HTTP and the shell give them. `Fault.as_data` is the other way.

    {"on": ["PRODUCE"], "topic": "t", "partition": 0, "action": "drop_reply", "times": 3}

The names are those of the rule's methods in Python. ValueError for data that is no rule, or a rule that could never fire; it names the
value and what is allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Final

import msgspec

from fencepost.broker_stub.faults.groups_and_transactional_ids import groups_of, transactional_ids_of
from fencepost.broker_stub.faults.one_line import OFTEN
from fencepost.broker_stub.faults.rules import FILTERS, TIMED, Fault, Faults, Kind, Point, Rule
from fencepost.broker_stub.faults.schedule import INT_MAX, OFTEN_MAX
from fencepost.broker_stub.faults.topics_and_partitions import ASKED, names_partitions
from fencepost.producer.wire import REQUESTS, Api, ErrorCode, WireStruct, api_name
from fencepost.producer.wire.schema.declarations import Array, Nested, Text, describe

DROP_REPLY: Final = "drop_reply"
ACTIONS: Final = (*(kind.value for kind in Kind), DROP_REPLY)
POINTS: Final = tuple(point.value for point in Point)
TIMED_ACTIONS: Final = tuple(kind.value for kind in TIMED)
FIELDS: Final = ("on", *FILTERS, "at", "action", "code", "ms", *OFTEN, "seed")


def add_fault(faults: Faults, spec: object, *, served: Collection[int] | None = None, nodes: Collection[int] | None = None) -> Fault:
    """Installs the rule. `served`, `nodes`: the existing APIs and brokers, where they are known. ValueError for a rule about others."""
    if not isinstance(spec, Mapping):
        raise ValueError(f"a rule is an object with some of the fields {', '.join(FIELDS)}, not {_shown(spec)}")
    for name in spec:
        if name not in FIELDS:
            raise ValueError(f"{name!r} is no field of a rule{_meant(str(name), FIELDS)}; the fields are {', '.join(FIELDS)}")
    given = {name: value for name, value in spec.items() if value is not None}
    apis = _apis(given.get("on", []), served)
    rule = faults.on(*apis).where(**_filters(given, apis, nodes))
    _often(rule, given)
    return _acting(rule, given)


# -- which -----------------------------------------------------------------------------------------------------------------


def _apis(given: object, served: Collection[int] | None) -> list[int]:
    names = given if isinstance(given, list) else [given]
    apis = [_api(name) for name in names]
    for api in apis:
        if served is not None and api not in served:
            raise ValueError(f"on={api_name(api)}: this stub does not serve it, so the rule would never fire")
    return apis


def _api(given: object) -> int:
    """An API by its name, in Kafka's spelling or without underscores, or by its number."""
    known = {api.name.replace("_", "").lower(): api for api in Api}
    if isinstance(given, str):
        if given.isdigit():
            return _api(int(given))
        found = known.get(given.replace("_", "").replace("-", "").lower())
        if found is not None:
            return found
    elif _whole(given) and 0 <= given < 1 << 15:  # type: ignore[operator]  # it is a number
        number = int(given)  # type: ignore[call-overload]  # it is a number
        return Api(number) if number in _NUMBERS else number
    names = [api.name for api in Api if api in REQUESTS]
    raise ValueError(f"on={_shown(given)} is no API{_meant(str(given).upper(), names)}; there are {', '.join(names)}")


_NUMBERS: Final = frozenset(map(int, Api))


def _filters(given: Mapping[str, Any], apis: list[int], nodes: Collection[int] | None) -> dict[str, Any]:
    filters = {name: given[name] for name in FILTERS if name in given}
    for name, value in filters.items():
        if FILTERS[name] is int and not (_whole(value) and 0 <= value <= INT_MAX):
            raise ValueError(f"{name}={_shown(value)}: a whole number from 0 to {INT_MAX}")
        if FILTERS[name] is str and not isinstance(value, str):
            raise ValueError(f"{name}={_shown(value)}: a text")
        named = _CARRIES.get(name)
        if named is not None and apis and not any(map(named, apis)):
            able = ", ".join(api.name for api in Api if named(api))
            raise ValueError(
                f"{name}={_shown(value)}: {' and '.join(map(api_name, apis))} name no {name}, so it would never fire; {able} do"
            )
    if nodes is not None and "node" in filters and filters["node"] not in nodes:
        raise ValueError(f"node={filters['node']}: there is no such broker, only {', '.join(map(str, sorted(nodes)))}")
    return filters


def _names_topics(api: int) -> bool:
    return api in ASKED


def _names_group(api: int) -> bool:
    return api in REQUESTS and any(groups_of(probe) for probe in _probes(api))


def _names_txn(api: int) -> bool:
    return api in REQUESTS and any(transactional_ids_of(probe) for probe in _probes(api))


_CARRIES: Final[Mapping[str, Callable[[int], bool]]] = {
    "topic": _names_topics,
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


# -- where, what and how often ---------------------------------------------------------------------------------------------


def _acting(rule: Rule, given: Mapping[str, Any]) -> Fault:
    action, at = given.get("action"), given.get("at")
    if action not in ACTIONS:
        raise ValueError(f"action={_shown(action)}{_meant(str(action), ACTIONS)}: one of {', '.join(ACTIONS)}")
    if at is not None and at not in POINTS:
        raise ValueError(f"at={_shown(at)}{_meant(str(at), POINTS)}: one of {', '.join(POINTS)}")
    if action == DROP_REPLY:
        if at not in (None, Point.AFTER_APPEND.value):
            raise ValueError(f"at={at}: {DROP_REPLY} is drop at after_append; for another point say drop")
        return rule.drop_reply()
    if at is not None:
        rule.point = Point(at)
    for name, wanted in (("code", action == Kind.ERROR.value), ("ms", action in TIMED_ACTIONS)):
        if wanted and name not in given:
            raise ValueError(f"action={action} needs {name}: {_NEEDED[name]}")
        if not wanted and name in given:
            raise ValueError(f"{name}={_shown(given[name])}: {action} has none")
    if action == Kind.ERROR.value:
        return rule.error(_code(given["code"]))
    if action in TIMED_ACTIONS:
        ms = given["ms"]
        if not (_whole(ms) and 0 <= ms <= INT_MAX):
            raise ValueError(f"ms={_shown(ms)}: whole milliseconds from 0 to {INT_MAX}")
        return rule.delay(ms) if action == Kind.DELAY.value else rule.throttle(ms)
    return {Kind.DROP: rule.drop, Kind.DUPLICATE: rule.duplicate, Kind.DISCONNECT: rule.disconnect, Kind.HOLD: rule.hold}[Kind(action)]()


_NEEDED: Final = {"code": "the name of an error code, such as NOT_ENOUGH_REPLICAS, or its number", "ms": "how many milliseconds"}


def _code(given: object) -> int:
    if isinstance(given, str) and given.upper() in ErrorCode.__members__:
        return ErrorCode[given.upper()]
    if isinstance(given, str) and given.removeprefix("-").isdigit():
        given = int(given)
    if _whole(given) and -(1 << 15) <= given < 1 << 15:  # type: ignore[operator]  # it is a number
        return int(given)  # type: ignore[call-overload, no-any-return]  # it is a number
    raise ValueError(f"code={_shown(given)}{_meant(str(given).upper(), ErrorCode.__members__)}: {_NEEDED['code']}, -32768 to 32767")


def _often(rule: Rule, given: Mapping[str, Any]) -> None:
    said = [name for name in OFTEN if name in given and given[name] is not False]
    if len(said) > 1:
        raise ValueError(f"{' and '.join(said)} exclude each other")
    if "seed" in given and said != ["probability"]:
        raise ValueError(f"seed={_shown(given['seed'])}: only probability takes a seed")
    for name in said:
        value = given[name]
        if name == "forever":
            if value is not True:
                raise ValueError(f"forever={_shown(value)}: true")
            rule.forever()
        elif name == "probability":
            seed = given.get("seed", 0)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
                raise ValueError(f"probability={_shown(value)}: a number from 0 to 1")
            if not (_whole(seed) and abs(seed) <= OFTEN_MAX):
                raise ValueError(f"seed={_shown(seed)}: a whole number")
            rule.probability(value, seed)
        else:
            if not (_whole(value) and 1 <= value <= OFTEN_MAX):
                raise ValueError(f"{name}={_shown(value)}: a whole number from 1 on")
            (rule.times if name == "times" else rule.on_call)(value)


# -- words -----------------------------------------------------------------------------------------------------------------


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}..."


def _meant(word: str, known: Iterable[str]) -> str:
    close = get_close_matches(word, list(known), n=1)
    return f" (did you mean {close[0]}?)" if close else ""
