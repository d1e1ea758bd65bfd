"""Requests from one broker to another. Fault rules act on them as on requests of clients.

Only rules that name its API do, because a rule for every API is about clients. A lost reply is REQUEST_TIMED_OUT: at once where the
connection ends, after a while where the reply was dropped. The journal does not have it, and nothing throttles it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from fencepost.broker_stub.cluster.broker_call import TIMEOUT_MS
from fencepost.broker_stub.faults.execution import execute
from fencepost.broker_stub.faults.rules import Action, Kind, Point
from fencepost.broker_stub.faults.topics_and_partitions import TopicPartition
from fencepost.producer.wire import ErrorCode

if TYPE_CHECKING:
    from fencepost.broker_stub.cluster.context import Context

Then = Callable[[int], None]


class Asked(NamedTuple):
    """What a rule looks at. `node` is the broker that receives the request."""

    api: int
    node: int
    client_id: str
    partition: TopicPartition
    transactional_id: str = ""
    group_id: str = ""

    def partitions(self) -> Collection[TopicPartition]:
        return (self.partition,)

    def groups(self) -> Collection[str]:
        return (self.group_id,) if self.group_id else ()

    def transactional_ids(self) -> Collection[str]:
        return (self.transactional_id,) if self.transactional_id else ()


class BrokerRequest:
    """One request on its way. `do` processes it and reports a code; `then` gets the code of the reply."""

    def __init__(self, context: Context, asked: Asked, do: Callable[[Then], None], then: Then) -> None:
        self._context = context
        self._asked = asked
        self._do = do
        self._then = then
        self._code = 0
        self._injected: int | None = None
        self._times = 1

    def start(self) -> None:
        self._pass(Point.BEFORE, self._process)

    def _process(self) -> None:
        if self._injected is not None:
            self._done(0)
            return
        for _ in range(1, self._times):
            self._do(_unheard)
        self._do(self._done)

    def _done(self, code: int) -> None:
        self._code = code
        self._pass(Point.AFTER_APPEND, lambda: self._pass(Point.REPLY, self._answer))

    def _answer(self) -> None:
        self._then(self._code if self._injected is None else self._injected)

    def _pass(self, point: Point, go_on: Callable[[], None]) -> None:
        execute(self, iter(self._context.faults.match(self._asked, point, named=True)), point, go_on)

    # -- what faults do to it ----------------------------------------------------------------------------------------------

    @property
    def over(self) -> bool:
        return False

    def inject(self, action: Action) -> None:
        if self._injected is None:
            self._injected = action.code

    def throttle(self, ms: int) -> None:
        """Does nothing: Kafka throttles clients only."""

    def repeat(self, point: Point) -> None:
        if point is Point.BEFORE:
            self._times += 1
        else:
            self._do(_unheard)

    def continue_after(self, ms: int, go_on: Callable[[], None]) -> None:
        self._context.timers.at(self._context.now_ms() + ms, go_on)

    def post(self, go_on: Callable[[], None]) -> None:
        self._context.post(go_on)

    def break_off(self, kind: Kind, point: Point) -> bool:
        time_out = partial(self._then, ErrorCode.REQUEST_TIMED_OUT)
        if kind is Kind.DISCONNECT:
            time_out()
        else:
            self.continue_after(TIMEOUT_MS, time_out)
        return True


def _unheard(code: int) -> None:
    """Ignores the reply to a repeated request."""
