"""Fault rules from plain data, as HTTP and the shell give them. `Fault.as_data` is the other way.

    {"on": ["PRODUCE"], "topic": "t", "partition": 0, "action": "drop_reply", "times": 3}

The names are those of the rule's methods in Python, which check the values. Null is the same as None there: a filter that matches anything,
and otherwise an error. TypeError or ValueError for data that is no rule, or a rule that could never fire; it names the value and what is
allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Final

from fencepost.broker_stub.arguments import is_whole
from fencepost.broker_stub.faults.filters import FILTERS
from fencepost.broker_stub.faults.one_line import OFTEN
from fencepost.broker_stub.faults.rules import DROP_REPLY, TIMED, Fault, Faults, Kind, Point, Rule
from fencepost.producer.wire import REQUESTS, Api, ErrorCode

ACTIONS: Final = (*(kind.value for kind in Kind), DROP_REPLY)
POINTS: Final = tuple(point.value for point in Point)
TIMED_ACTIONS: Final = tuple(kind.value for kind in TIMED)
FIELDS: Final = ("on", *FILTERS, "at", "action", "code", "ms", *OFTEN, "seed")


def add_fault(faults: Faults, spec: object) -> Fault:
    """Installs the rule."""
    if not isinstance(spec, Mapping):
        raise ValueError(f"a rule is an object with some of the fields {', '.join(FIELDS)}, not {_shown(spec)}")
    for name in spec:
        if name not in FIELDS:
            raise ValueError(f"{name!r} is no field of a rule{_meant(str(name), FIELDS)}; the fields are {', '.join(FIELDS)}")
    names = spec.get("on", [])
    apis = [_api(name) for name in (names if isinstance(names, list) else [names])]
    rule = faults.on(*apis).where(**{name: spec[name] for name in FILTERS if name in spec})
    _often(rule, spec)
    return _acting(rule, spec)


def _api(given: object) -> int:
    """An API by its name, in Kafka's spelling or without underscores, or by its number."""
    known = {api.name.replace("_", "").lower(): api for api in Api}
    if isinstance(given, str):
        if given.isdecimal():
            return _api(int(given))
        found = known.get(given.replace("_", "").replace("-", "").lower())
        if found is not None:
            return found
    elif is_whole(given) and 0 <= given < 1 << 15:
        return given
    names = [api.name for api in Api if api in REQUESTS]
    raise ValueError(f"on={_shown(given)} is no API{_meant(str(given).upper(), names)}; there are {', '.join(names)}")


def _acting(rule: Rule, given: Mapping[str, Any]) -> Fault:
    action = given.get("action")
    if action not in ACTIONS:
        raise ValueError(f"action={_shown(action)}{_meant(str(action), ACTIONS)}: one of {', '.join(ACTIONS)}")
    if "at" in given:
        at = given["at"]
        if at not in POINTS:
            raise ValueError(f"at={_shown(at)}{_meant(str(at), POINTS)}: one of {', '.join(POINTS)}")
        rule.at(Point(at))
    values = []
    for name, wanted in (("code", action == Kind.ERROR.value), ("ms", action in TIMED_ACTIONS)):
        if wanted and name not in given:
            raise ValueError(f"action={action} needs {name}: {_NEEDED[name]}")
        if not wanted and name in given:
            raise ValueError(f"{name}={_shown(given[name])}: {action} has none")
        if wanted:
            values.append(_code(given[name]) if name == "code" else given[name])
    fault: Fault = getattr(rule, action)(*values)
    return fault


_NEEDED: Final = {"code": "the name of an error code, such as NOT_ENOUGH_REPLICAS, or its number", "ms": "how many milliseconds"}


def _code(given: object) -> object:
    """The number of a code's name. Anything else but a name is left to the rule."""
    if not isinstance(given, str):
        return given
    if given.removeprefix("-").isdecimal():
        return int(given)
    if given.upper() not in ErrorCode.__members__:
        errors = [name for name, code in ErrorCode.__members__.items() if code]
        raise ValueError(f"code={_shown(given)}{_meant(given.upper(), errors)}: {_NEEDED['code']}")
    return ErrorCode[given.upper()]


def _often(rule: Rule, given: Mapping[str, Any]) -> None:
    said = [name for name in OFTEN if name in given and (name, given[name]) != ("forever", False)]
    if len(said) > 1:
        raise ValueError(f"{' and '.join(said)} exclude each other")
    if "seed" in given and said != ["probability"]:
        raise ValueError(f"seed={_shown(given['seed'])}: only probability takes a seed")
    for name in said:
        value = given[name]
        if name == "probability":
            rule.probability(value, given.get("seed", 0))
        elif name != "forever":
            getattr(rule, name)(value)
        elif value is True:
            rule.forever()
        else:
            raise ValueError(f"forever={_shown(value)}: true")


# -- words -----------------------------------------------------------------------------------------------------------------


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}..."


def _meant(word: str, known: Iterable[str]) -> str:
    close = get_close_matches(word, list(known), n=1)
    return f" (did you mean {close[0]}?)" if close else ""
