"""The rule engine alone: what fires, where, how often, and what a held exchange hears."""

import threading
from collections.abc import Callable, Collection
from typing import Any

import pytest

from fencepost.broker_stub.faults.rules import Faults, Kind, Point, Rule
from fencepost.broker_stub.faults.specs import add_fault

PRODUCE, FETCH, TXN_OFFSET_COMMIT = 0, 1, 28


class Call:
    """A subject as the stub or the proxy presents it; counts how often its partitions were asked for."""

    def __init__(
        self,
        api: int = PRODUCE,
        *,
        node: int = 1,
        client_id: str | None = "c",
        partitions: Collection[tuple[str, int]] = (("t", 0),),
        groups: Collection[str] = ("g",),
        transactional_ids: Collection[str] = ("x",),
    ) -> None:
        self.api = api
        self.node = node
        self.client_id = client_id
        self.asked = 0
        self._partitions = partitions
        self._groups = groups
        self._transactional_ids = transactional_ids

    def partitions(self) -> Collection[tuple[str, int]]:
        self.asked += 1
        return self._partitions

    def groups(self) -> Collection[str]:
        self.asked += 1
        return self._groups

    def transactional_ids(self) -> Collection[str]:
        self.asked += 1
        return self._transactional_ids


def kinds(faults: Faults, call: Call, point: Point = Point.BEFORE) -> list[Kind]:
    return [action.kind for action in faults.match(call, point)]


def test_a_fault_fires_once_by_default() -> None:
    """Naming the action installs the fault, and it acts on the first matching call only."""
    faults = Faults()
    fault = faults.on(PRODUCE).before().disconnect()
    assert [kinds(faults, Call()) for _ in range(3)] == [[Kind.DISCONNECT], [], []]
    assert fault.hits == 1


def test_schedules() -> None:
    """times, forever and on_call mean what they say, named before or after the action."""
    for late in (False, True):

        def fired(name: str, *args: int, late: bool = late) -> list[bool]:
            faults = Faults()
            rule = faults.on(PRODUCE).before()
            if late:
                getattr(rule.drop(), name)(*args)
            else:
                getattr(rule, name)(*args).drop()
            return [bool(kinds(faults, Call())) for _ in range(4)]

        assert fired("times", 2) == [True, True, False, False]
        assert fired("forever") == [True] * 4
        assert fired("on_call", 3) == [False, False, True, False]


def test_probability_is_replayed_by_its_seed() -> None:
    """A seed always draws its own calls, and another seed draws others. 0 means never, and 1 means always."""

    def drawn(p: float, seed: int) -> list[bool]:
        faults = Faults()
        faults.on(PRODUCE).drop().probability(p, seed)
        return [bool(kinds(faults, Call())) for _ in range(200)]

    assert drawn(0.3, 7) == drawn(0.3, 7) != drawn(0.3, 8)
    assert 30 < sum(drawn(0.3, 7)) < 90
    assert not any(drawn(0.0, 1))
    assert all(drawn(1.0, 1))


@pytest.mark.parametrize(
    ("where", "hit"),
    [
        ({}, True),
        ({"topic": "t"}, True),
        ({"topic": "u"}, False),
        ({"topic": "t", "partition": 1}, False),
        ({"partition": 0}, True),
        ({"node": 1}, True),
        ({"node": 2}, False),
        ({"client_id": "c"}, True),
        ({"client_id": "d"}, False),
        ({"topic": "t", "node": 1, "client_id": "d"}, False),
        ({"group": "g"}, True),
        ({"group": "h"}, False),
        ({"txn": "x"}, True),
        ({"txn": "g"}, False),
        ({"group": "g", "txn": "x", "node": 1}, True),
        ({"group": "g", "txn": "y"}, False),
    ],
)
def test_where(where: dict[str, Any], hit: bool) -> None:
    """Every condition must hold; one that is not given matches anything."""
    faults = Faults()
    faults.on(TXN_OFFSET_COMMIT).where(**where).drop()
    assert bool(kinds(faults, Call(TXN_OFFSET_COMMIT))) is hit


def test_only_the_named_api_and_point() -> None:
    """Another API or another point is left alone and uses nothing up; no API named means all of them."""
    faults = Faults()
    fault = faults.on(PRODUCE).drop_reply()
    assert kinds(faults, Call(FETCH), Point.AFTER_APPEND) == []
    assert kinds(faults, Call(), Point.BEFORE) == kinds(faults, Call(), Point.REPLY) == []
    assert fault.hits == 0
    assert kinds(faults, Call(), Point.AFTER_APPEND) == [Kind.DROP]
    faults.on().reply().disconnect().times(2)
    assert kinds(faults, Call(FETCH), Point.REPLY) == kinds(faults, Call(PRODUCE), Point.REPLY) == [Kind.DISCONNECT]


def test_an_action_names_the_partitions_it_is_about() -> None:
    """An error for one partition of a request covers that partition only; without a condition it covers all of them."""
    faults = Faults()
    faults.on(PRODUCE).where(topic="t", partition=1).error(6)
    faults.on(PRODUCE).error(7)
    call = Call(partitions=[("t", 0), ("t", 1), ("u", 1)])
    narrow, wide = faults.match(call, Point.BEFORE)
    assert narrow.only == frozenset({("t", 1)})
    assert (narrow.code, narrow.covers("t", 1), narrow.covers("t", 0), narrow.covers("u", 1)) == (6, True, False, False)
    assert wide.only is None
    assert wide.covers("u", 1)


def test_partitions_are_resolved_only_when_a_rule_wants_them() -> None:
    """Looking into a request costs something, so a subject is asked only by rules that want to know."""
    faults = Faults()
    faults.on(PRODUCE).where(node=1).drop().forever()
    faults.on().where(node=2, group="g", txn="x").drop().forever()
    call = Call()
    faults.match(call, Point.BEFORE)
    assert call.asked == 0


def test_faults_fire_in_the_order_of_their_installation() -> None:
    """Several faults at one point all act, oldest first."""
    faults = Faults()
    faults.on(PRODUCE).delay(5)
    faults.on(PRODUCE).error(3)
    assert kinds(faults, Call()) == [Kind.DELAY, Kind.ERROR]


def test_remove_and_clear() -> None:
    """A removed fault acts no more, twice removed is once, and clear removes all."""
    faults = Faults()
    first = faults.on(PRODUCE).drop().forever()
    faults.on(PRODUCE).error(3).forever()
    first.remove()
    first.remove()
    assert kinds(faults, Call()) == [Kind.ERROR]
    faults.clear()
    assert kinds(faults, Call()) == []
    assert faults.installed == ()


def test_wait_returns_on_the_hit_and_raises_at_the_deadline() -> None:
    """wait is woken by a hit in another thread; without one it raises and names the fault."""
    faults = Faults()
    fault = faults.on(PRODUCE).drop()
    with pytest.raises(TimeoutError, match=r"drop.*0 of 1"):
        fault.wait(timeout=0.01)
    thread = threading.Thread(target=faults.match, args=(Call(), Point.BEFORE))
    thread.start()
    assert fault.wait(timeout=20)
    thread.join(20)


def test_release_lets_go_once_of_everything_held() -> None:
    """Each held exchange hears of the release once; a later one is held anew while the fault is installed."""
    faults = Faults()
    fault = faults.on(PRODUCE).hold().forever()
    heard: list[str] = []
    fault.when_released(1, lambda: heard.append("a"))
    fault.when_released(2, lambda: heard.append("b"))
    assert heard == []
    fault.release()
    fault.release()
    assert heard == ["a", "b"]
    fault.when_released(3, lambda: heard.append("c"))
    assert heard == ["a", "b"]
    fault.remove()
    assert heard == ["a", "b", "c"]
    fault.when_released(4, lambda: heard.append("late"))
    assert heard[-1] == "late"


def test_a_release_right_after_a_hit_counts() -> None:
    """A caller that waited for the hit may release it before the exchange is held: it is not held then. A later hit is."""
    faults = Faults()
    fault = faults.on(PRODUCE).hold().forever()
    heard: list[str] = []
    [first] = faults.match(Call(), Point.BEFORE)
    fault.wait(1, 20)
    fault.release()
    fault.when_released(first.number, lambda: heard.append("first"))
    assert heard == ["first"]
    [second] = faults.match(Call(), Point.BEFORE)
    fault.when_released(second.number, lambda: heard.append("second"))
    assert heard == ["first"]
    assert fault.holding == 1


NO_WHOLE_NUMBER: list[Any] = [True, 1.5, "5", None]


@pytest.mark.parametrize("setting", ["times", "on_call", "delay", "throttle", "error", "probability"])
def test_impossible_numbers_are_refused(setting: str) -> None:
    """Zero times, a zeroth call, a chance above 1, a negative delay and a code of 17 bits are mistakes, and so is what is no number. None
    is cut to one that would do, and no rule is installed."""
    faults = Faults()
    more: tuple[Any, ...] = (1,) if setting == "probability" else ()
    impossible = {"times": 0, "on_call": 0, "delay": -1, "throttle": -1, "error": 1 << 15, "probability": 1.5}[setting]
    parameter = {"delay": "ms", "throttle": "ms", "error": "code"}.get(setting, setting)
    with pytest.raises(ValueError, match=f"^{parameter}={impossible}: must be"):
        getattr(faults.on(PRODUCE), setting)(impossible, *more)
    for wrong in NO_WHOLE_NUMBER:
        if setting == "probability" and wrong == 1.5:
            continue
        with pytest.raises(TypeError, match=f"^{parameter}={wrong!r}: must be"):
            getattr(faults.on(PRODUCE), setting)(wrong, *more)
    assert not faults.installed


@pytest.mark.parametrize("often", ["times", "on_call"])
def test_the_largest_count_is_that_of_the_text_form(often: str) -> None:
    """What the control and the command line accept, Python accepts, too."""
    largest, faults = 1 << 53, Faults()
    getattr(faults.on(PRODUCE), often)(largest).drop()
    add_fault(faults, {"on": "PRODUCE", "action": "drop", often: largest})
    assert [fault.as_data()[often] for fault in faults.installed] == [largest, largest]
    with pytest.raises(ValueError, match=often):
        getattr(faults.on(PRODUCE), often)(largest + 1)


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (lambda rule: rule.before().reply(), "reply after before: a rule acts at one point"),
        (lambda rule: rule.after_append().before(), "before after after_append: a rule acts at one point"),
        (lambda rule: rule.reply().drop_reply(), "drop_reply at reply: it is drop at after_append; for another point say drop"),
        (lambda rule: rule.where(topic="t").where(partition=0), r"where\(partition=0\) after where\(topic='t'\): name all filters"),
    ],
)
def test_a_rule_says_each_thing_once(build: Callable[[Rule], Any], reason: str) -> None:
    """The later of two points or filters does not silently replace the earlier one."""
    faults = Faults()
    with pytest.raises(ValueError, match=f"^{reason}"):
        build(faults.on(PRODUCE))
    assert faults.installed == ()


def test_a_rule_has_one_action() -> None:
    """Two actions would share one count of hits."""
    faults = Faults()
    rule = faults.on(PRODUCE).after_append().after_append()
    fault = rule.drop_reply()
    with pytest.raises(ValueError, match=r"^delay after drop: a rule has one action; begin another rule"):
        rule.delay(5)
    assert faults.installed == (fault,)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"hits": "1"}, "hits='1': must be a whole number, 0 or more"),
        ({"hits": True}, "hits=True: must be a whole number"),
        ({"hits": -1}, "hits=-1: must be a whole number, 0 or more"),
        ({"timeout": "1"}, "timeout='1': must be a number of seconds, 0 or more"),
        ({"timeout": float("nan")}, "timeout=nan: must be a number of seconds"),
        ({"timeout": float("inf")}, "timeout=inf: must be a number of seconds"),
    ],
)
def test_a_wait_is_for_a_number(given: dict[str, Any], reason: str) -> None:
    """The error names the parameter, the value and what it must be."""
    with pytest.raises((TypeError, ValueError), match=f"^{reason}"):
        Faults().on(PRODUCE).drop().wait(**given)


def test_a_rule_without_an_action_says_so() -> None:
    """The repr of a rule whose action was forgotten says why nothing happens."""
    assert repr(Faults().on(PRODUCE).where(topic="t")) == "Rule(PRODUCE where topic='t' before, without an action: not installed)"


def test_an_api_is_no_bool() -> None:
    """`on(True)` would be a rule about Fetch, whose number is 1."""
    with pytest.raises(TypeError, match=r"faults\.on\(True\)"):
        Faults().on(True)
