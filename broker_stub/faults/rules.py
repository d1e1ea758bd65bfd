"""Fault rules: which exchanges they match, at which point they act, what they do, and how often.

`faults.on(Api.PRODUCE).where(topic="t").after_append().drop().times(2)` is installed when its action is named, once by default. The
engine has no sockets, messages or clock: it only answers which actions apply to a subject at a point. `execution` carries them out. Any
thread may add and remove rules.

A rule that could never fire is refused, and so is a second point, a second `where` or a second action of one rule.

Rules do not match raw request fields. A subject names resolved topics, never topic ids, and never "all" where the topics are known.
"""

import time
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from itertools import count
from typing import Any, Final, Protocol, Self

from fencepost.broker_stub.arguments import INT_MAX, check_arguments, is_whole
from fencepost.broker_stub.faults.filters import check_filters
from fencepost.broker_stub.faults.one_line import one_line
from fencepost.broker_stub.faults.schedule import Schedule, Scheduled
from fencepost.broker_stub.faults.topics_and_partitions import TopicPartition
from fencepost.producer.foundations.condition import Condition
from fencepost.producer.foundations.counted import counted
from fencepost.producer.foundations.rlock import RLock
from fencepost.producer.wire.codes import ErrorCode, api_name, error_name

CODES: Final = frozenset(map(int, ErrorCode))
DROP_REPLY: Final = "drop_reply"
"""The method of a rule that names a point and an action."""


class Point(Enum):
    """Where in an exchange a rule acts."""

    BEFORE = "before"  # after decoding, before any effect
    AFTER_APPEND = "after_append"  # after the effect, before the response
    REPLY = "reply"  # the response is encoded and about to be written


class Kind(Enum):
    """What a rule does."""

    ERROR = "error"  # the response has this code; at BEFORE the request has no effect
    DROP = "drop"  # no response, and none to any later request of that connection: a connection that broke silently
    DELAY = "delay"  # continues after the given milliseconds
    DUPLICATE = "duplicate"  # the request is processed twice and answered once
    DISCONNECT = "disconnect"  # cuts the connection; at REPLY in the middle of the frame
    HOLD = "hold"  # continues when the fault is released
    THROTTLE = "throttle"  # throttle_time_ms in the response, and the connection's next request waits as long (KIP-219)


TIMED: Final = (Kind.DELAY, Kind.THROTTLE)
"""The actions that have a time."""


class Everything:
    """The partitions of a request for everything, where the existing topics are unknown. `by_partition`: False if it is about topics."""

    __slots__ = ("by_partition", "partition", "topic")

    def __init__(self, *, by_partition: bool, topic: str | None = None, partition: int | None = None) -> None:
        self.by_partition = by_partition
        self.topic = topic
        self.partition = partition

    def narrowed(self, topic: str | None, partition: int | None) -> "Everything | bool":
        """The part that a rule with these filters is about; False for none."""
        if partition is not None and not self.by_partition:
            return False
        return Everything(by_partition=self.by_partition, topic=topic, partition=partition)

    def __contains__(self, tp: TopicPartition) -> bool:
        return self.topic in (None, tp[0]) and self.partition in (None, tp[1])


class Subject(Protocol):
    """What a rule looks at in an exchange."""

    @property
    def api(self) -> int: ...
    @property
    def node(self) -> int: ...
    @property
    def client_id(self) -> str | None: ...
    def partitions(self) -> Collection[TopicPartition] | Everything:
        """Every (topic, partition) of the request, resolved. Called only for a rule that filters by it."""
        ...

    def groups(self) -> Collection[str]:
        """Every group of the request. Called only for a rule that filters by it."""
        ...

    def transactional_ids(self) -> Collection[str]:
        """Every transactional id of the request. Called only for a rule that filters by it."""
        ...


class Action:
    """One firing of a fault. `only` has the partitions that it is about; None is the whole request. `number`: that of the hit, from 1."""

    __slots__ = ("code", "fault", "kind", "ms", "number", "only")

    def __init__(self, fault: "Fault", only: frozenset[TopicPartition] | Everything | None) -> None:
        self.fault = fault
        self.kind = fault.kind
        self.code = fault.code
        self.ms = fault.ms
        self.number = fault.hits
        self.only = only

    def covers(self, topic: str, partition: int) -> bool:
        """Whether this action's error is for that partition."""
        return self.only is None or (topic, partition) in self.only

    def __repr__(self) -> str:
        return f"Action({self.fault})"


class Rule(Scheduled):
    """A fault without its action. Naming an action installs it."""

    def __init__(self, engine: "Faults", apis: frozenset[int]) -> None:
        self._engine = engine
        self._lock = engine._lock
        self._schedule = Schedule()
        self.filters: dict[str, Any] = {}
        self._point: Point | None = None
        self._fault: Fault | None = None
        self.apis = apis
        self.topic: str | None = None
        self.partition: int | None = None
        self.group: str | None = None
        self.txn: str | None = None
        self.node: int | None = None
        self.client_id: str | None = None

    def where(
        self,
        *,
        topic: str | None = None,
        partition: int | None = None,
        group: str | None = None,
        txn: str | None = None,
        node: int | None = None,
        client_id: str | None = None,
    ) -> Self:
        """Matches only exchanges like this; a missing filter matches anything. TypeError or ValueError for a filter that could never match.

        `topic` and `partition` also narrow an error to what they name. The others only choose requests, each as a whole: `group` and
        `txn` (a transactional id) those that name it, alone or among others.
        """
        given = {"topic": topic, "partition": partition, "group": group, "txn": txn, "node": node, "client_id": client_id}
        said = {name: value for name, value in given.items() if value is not None}
        if self.filters:
            raise ValueError(f"where({_spelled(said)}) after where({_spelled(self.filters)}): name all filters of a rule at once")
        check_filters(said, apis=self.apis, nodes=self._engine.nodes)
        self.filters = said
        self.topic, self.partition, self.group, self.txn, self.node, self.client_id = topic, partition, group, txn, node, client_id
        return self

    def before(self) -> Self:
        """Acts when the request has arrived, before any effect: the default."""
        return self.at(Point.BEFORE)

    def after_append(self) -> Self:
        """Acts after the request's effect, before its response is made."""
        return self.at(Point.AFTER_APPEND)

    def reply(self) -> Self:
        """Acts when the response is about to be written."""
        return self.at(Point.REPLY)

    def at(self, point: Point) -> Self:
        """Acts at that point. ValueError for a second one."""
        if not isinstance(point, Point):
            raise TypeError(f"at({point!r}): a Point; before(), after_append() and reply() are short for it")
        if self._point not in (None, point):
            raise ValueError(f"{point.value} after {self.point.value}: a rule acts at one point; begin another rule for another one")
        self._point = point
        return self

    @property
    def point(self) -> Point:
        return self._point or Point.BEFORE

    def error(self, code: int) -> "Fault":
        """Responds with that error code, without effect. TypeError for no int, ValueError for NONE and for one beyond 16 bits."""
        check_arguments(code=code)
        return self._act(Kind.ERROR, code=int(code))

    def drop(self) -> "Fault":
        """Sends no response, and none to any later request of that connection."""
        return self._act(Kind.DROP)

    def drop_reply(self) -> "Fault":
        """Drops the response after the effect, which is the main test of idempotence."""
        if self._point not in (None, Point.AFTER_APPEND):
            raise ValueError(f"{DROP_REPLY} at {self.point.value}: it is drop at after_append; for another point say drop")
        return self.after_append().drop()

    def delay(self, ms: int) -> "Fault":
        """Continues after these milliseconds. TypeError for no int, ValueError for a negative one."""
        return self._act(Kind.DELAY, ms=ms)

    def duplicate(self) -> "Fault":
        """Processes the request twice and answers it once."""
        return self._act(Kind.DUPLICATE)

    def disconnect(self) -> "Fault":
        """Cuts the connection; at `reply` in the middle of the response."""
        return self._act(Kind.DISCONNECT)

    def hold(self) -> "Fault":
        """Waits until the fault is released or removed."""
        return self._act(Kind.HOLD)

    def throttle(self, ms: int) -> "Fault":
        """Responds with this throttle_time_ms. The connection's next request waits as long (KIP-219)."""
        return self._act(Kind.THROTTLE, ms=ms)

    def _act(self, kind: Kind, *, code: int = 0, ms: int = 0) -> "Fault":
        check_arguments(ms=ms)
        if not 0 <= ms <= INT_MAX:
            raise ValueError(f"ms={ms}: must be whole milliseconds from 0 to {INT_MAX}")
        if self._fault is not None:
            raise ValueError(f"{kind.value} after {self._fault.kind.value}: a rule has one action; begin another rule for another one")
        self._fault = self._engine._install(Fault(self, kind, code=code, ms=ms))
        return self._fault

    def matches(self, subject: Subject) -> frozenset[TopicPartition] | Everything | bool:
        """False, True for the whole request, or the partitions that the rule names. It does not consult the schedule."""
        if self.apis and subject.api not in self.apis:
            return False
        if self.node is not None and subject.node != self.node:
            return False
        if self.client_id is not None and subject.client_id != self.client_id:
            return False
        if self.group is not None and self.group not in subject.groups():
            return False
        if self.txn is not None and self.txn not in subject.transactional_ids():
            return False
        if self.topic is None and self.partition is None:
            return True
        named = subject.partitions()
        if isinstance(named, Everything):
            return named.narrowed(self.topic, self.partition)
        return frozenset(tp for tp in named if self.topic in (None, tp[0]) and self.partition in (None, tp[1]))

    def __repr__(self) -> str:
        return f"Rule({self}, without an action: not installed)"

    def __str__(self) -> str:
        apis = ",".join(map(api_name, sorted(self.apis))) or "any api"
        return f"{apis}{f' where {_spelled(self.filters)}' if self.filters else ''} {self.point.value}"


def _spelled(filters: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in filters.items())


class Fault(Scheduled):
    """An installed rule with its action: counts hits, waits for them, removes it. `id`: its number in its stub or proxy."""

    def __init__(self, rule: Rule, kind: Kind, *, code: int = 0, ms: int = 0) -> None:
        self._engine = rule._engine
        self._lock = rule._lock
        self._schedule = rule._schedule
        self._held: list[Callable[[], None]] = []
        self._released = 0
        self.id = next(rule._engine._ids)
        self.rule = rule
        self.kind = kind
        self.code = code
        self.ms = ms

    @property
    def hits(self) -> int:
        """How often it fired."""
        return self._schedule.fired

    @property
    def holding(self) -> int:
        """How many exchanges it holds now."""
        return len(self._held)

    def wait(self, hits: int = 1, timeout: float = 5.0) -> bool:
        """Blocks until it has fired that often. Raises TimeoutError after `timeout` seconds."""
        check_arguments(hits=hits, timeout=timeout)
        fired, deadline = self._engine._fired, time.monotonic() + timeout
        while True:
            seen = fired.notified
            if self.hits >= hits:
                return True
            if not fired.wait(seen, deadline):
                raise TimeoutError(f"{self}: {self.hits} of {counted(hits, 'hit')} after {timeout} s")

    def remove(self) -> None:
        """Removes the rule and releases the exchanges that it holds. A second call does nothing."""
        self._engine._uninstall(self)
        self.release()

    def release(self) -> None:
        """Releases the exchanges that it has hit so far. The rule itself stays, and may hold more."""
        with self._lock:
            self._released = self.hits
            held, self._held = self._held, []
        for let_go in held:
            let_go()

    def when_released(self, number: int, let_go: Callable[[], None]) -> None:
        """Registers `let_go`, which `release` or `remove` calls once in their thread. Calls it at once if the fault is already removed, or
        released since its hit of that number: a caller that saw the hit may be faster than the thread of the exchange."""
        with self._lock:
            if self._engine._installed(self) and number > self._released:
                self._held.append(let_go)
                return
        let_go()

    def __str__(self) -> str:
        code = error_name(self.code) if self.code in CODES else self.code
        what = {Kind.ERROR: f"({code})", **dict.fromkeys(TIMED, f"({self.ms})")}.get(self.kind, "")
        return f"{self.rule}: {self.kind.value}{what}"

    def __repr__(self) -> str:
        """As `fencepost fault list` shows it."""
        return f"Fault({one_line(self.as_data()).removeprefix('fault ')})"

    def as_data(self) -> dict[str, Any]:
        """The rule as data that can be given again, with its hits and held exchanges."""
        data: dict[str, Any] = {"id": self.id, "on": [api_name(api) for api in sorted(self.rule.apis)]}
        data |= self.rule.filters
        data |= {"at": self.rule.point.value, "action": self.kind.value}
        if self.kind is Kind.ERROR:
            data["code"] = error_name(self.code) if self.code in CODES else self.code
        if self.kind in TIMED:
            data["ms"] = self.ms
        return {**data, **self._schedule.as_data(), "hits": self.hits, "holding": self.holding}


class Faults:
    """All faults of one stub or proxy. `match` costs one comparison while there are none. `served`, `nodes`: the APIs and the brokers that
    there are, None if unknown; a rule about others is refused."""

    def __init__(self, *, served: Collection[int] | None = None, nodes: Collection[int] | None = None) -> None:
        self.nodes = nodes
        self._served = served
        self._lock = RLock()
        self._fired = Condition()
        self._faults: tuple[Fault, ...] = ()
        self._ids = count(1)

    def __repr__(self) -> str:
        return f"Faults({', '.join(map(repr, self._faults))})"

    def on(self, *apis: int) -> Rule:
        """Begins a rule about these APIs, `Api.PRODUCE` or its number. Without arguments it is about every API."""
        given: tuple[object, ...] = apis
        for api in given:
            if not (is_whole(api) and 0 <= api < 1 << 15):
                raise TypeError(f"faults.on({api!r}): an Api, or the number of one")
            if self._served is not None and api not in self._served:
                raise ValueError(f"on={api_name(api)}: this stub does not serve it, so the rule would never fire")
        return Rule(self, frozenset(apis))

    def match(self, subject: Subject, point: Point, *, named: bool = False, addressed: bool = False) -> list[Action]:
        """The actions that fire now, in the order of installation; counts their hits. `named`: only of rules that name APIs. `addressed`:
        only of rules that name a client id."""
        faults = self._faults
        if not faults:
            return []
        candidates = [
            fault
            for fault in faults
            if fault.rule.point is point and (fault.rule.apis or not named) and (fault.rule.client_id is not None or not addressed)
        ]
        if not candidates:
            return []
        with self._lock:
            actions = self._actions(candidates, subject)
        if actions:
            self._fired.notify_all()
        return actions

    def _actions(self, candidates: list[Fault], subject: Subject) -> list[Action]:
        actions = []
        for fault in candidates:
            matched = fault.rule.matches(subject)
            if matched and self._installed(fault) and fault._schedule.fires():
                actions.append(Action(fault, None if matched is True else matched))
        return actions

    def clear(self) -> None:
        """Removes every fault and releases every held exchange."""
        for fault in self._faults:
            fault.remove()

    @property
    def installed(self) -> tuple[Fault, ...]:
        """The faults in force, in the order in which they were added."""
        return self._faults

    def _install(self, fault: Fault) -> Fault:
        with self._lock:
            self._faults = (*self._faults, fault)
        return fault

    def _uninstall(self, fault: Fault) -> None:
        with self._lock:
            self._faults = tuple(other for other in self._faults if other is not fault)

    def _installed(self, fault: Fault) -> bool:
        return any(other is fault for other in self._faults)
