"""Applies the program's transform to messages, and tries it again where it raises."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from fencepost.txn.loop.attempts import ITSELF, Attempts, CancelledInside, Failed, Postponed, called, in_own_task, inside
from fencepost.txn.loop.calls import Calls
from fencepost.txn.loop.functions import is_async, listing
from fencepost.txn.loop.routing import Rows, rows_of_many, rows_of_results
from fencepost.txn.pipeline.batch import TP, offset_of, tp_of
from fencepost.txn.pipeline.settings import PipelineSettings
from fencepost.txn.pipeline.stats import Counters

if TYPE_CHECKING:
    from confluent_kafka import Message

log = logging.getLogger("fencepost.pipeline")

MISSING: Final = object()
"""Stands for a result that is not there yet."""
LATER: Final = object()
"""Stands for the result of a message that is left to the next run."""


class Piece(Struct, frozen=True):
    """Some messages, and either the rows that they became, or why the one message cannot be processed. `results`: one for each message, of
    a transform of single messages."""

    messages: list[Any]
    rows: Rows
    failed: Failed | None = None
    results: list[object] | None = None


class Transform:
    """See the module. `refused`: for each message whose records the brokers refused, the reason. `before_pause`: called before a message
    that `apply` got is tried again after a pause. `left_s`: how long the run may still last."""

    def __init__(
        self,
        settings: PipelineSettings,
        calls: Calls,
        counters: Counters,
        before_pause: Callable[[], None],
        left_s: Callable[[], float],
    ) -> None:
        self.refused: dict[tuple[TP, int], Exception] = {}
        self._before_pause = before_pause
        self._calls = calls
        self._counters = counters
        self._sink = settings.sink
        self._attempts = Attempts(settings.attempts, settings.retry_backoff_ms, settings.retry_backoff_max_ms, calls, counters, left_s)
        self._most = settings.attempts
        self._stops_at_failure = settings.dead_letters is None
        self._concurrency = settings.concurrency
        self._many: Callable[[list[Any]], object] | None = in_own_task(settings.transform_many)
        self._one: Callable[[Any], object] = listing(settings.transform) if settings.transform is not None else _nothing
        self._is_async = is_async(settings.transform)

    async def apply(self, messages: list[Message]) -> list[Piece]:
        """The messages in pieces, in their order. Without a topic for dead letters the last piece may be a failed one, and messages after
        it are left out; as are, if the run ends meanwhile, those from one on that has to be tried again."""
        if self._many is not None:
            return await self._apply_many(messages)
        results: list[object] = []
        with suppress(Postponed):
            await (self._side_by_side(messages, results) if self._is_async else self._one_by_one(messages, results))
        messages = messages[: len(results)]
        if results and Failed not in set(map(type, results)):
            try:
                return [Piece(messages, rows_of_results(messages, results, self._sink), results=results)]
            except TypeError:
                pass  # The pieces of single messages say which.
        return list(self._single(messages, results))

    async def split(self, piece: Piece) -> list[Piece]:
        """A piece that the producer refuses, as pieces of single messages."""
        if piece.results is not None:
            return list(self._single(piece.messages, piece.results))
        pieces: list[Piece] = []
        with suppress(Postponed):
            for message in piece.messages:
                pieces.append(await self._many_of_one(message, before_pause=_do_nothing))
        return pieces

    async def _one_by_one(self, messages: list[Message], results: list[object]) -> None:
        """Add one result for each message; ends early after a failure that stops the pipeline."""
        transform, add = self._one, results.append
        while len(results) < len(messages):
            try:
                for message in messages[len(results) :]:
                    if self.refused and (known := self._known(message)) is not None:
                        add(known)
                        continue
                    add(transform(message))
            except Exception as error:  # noqa: BLE001 - the program's own function may raise anything
                add(await self._again(messages[len(results)], error))
            except asyncio.CancelledError as error:  # in a function that does not wait, so this task was not cancelled in it
                add(await self._again(messages[len(results)], inside(error)))
            if self._stops_at_failure and results and isinstance(results[-1], Failed):
                break

    async def _side_by_side(self, messages: list[Message], results: list[object]) -> None:
        """The same for an async transform, many at once. The results are in the order of the messages."""
        results += [MISSING] * len(messages)
        cancelled = [0] * len(messages)
        left = list(range(len(messages)))
        while left:
            for place in await self._workers(messages, left, results):
                # The function has cancelled its own task, and with it the worker.
                cancelled[place] += 1
                self._counters.retries += cancelled[place] < self._most
                if cancelled[place] == self._most:
                    results[place] = Failed(CancelledInside(ITSELF), self._most)
            left = [place for place in left if results[place] is MISSING]
        del results[next((place for place, result in enumerate(results) if result is LATER), len(results)) :]

    async def _workers(self, messages: list[Message], left: list[int], results: list[object]) -> list[int]:
        """Fill in the results of the messages at these places. Returns where a worker was cancelled; after that, others may be left too."""
        places = iter(left)
        begun: list[int] = []

        async def work() -> None:
            for place in places:
                begun.append(place)
                message = messages[place]
                known = self._known(message) if self.refused else None
                if known is not None:
                    results[place] = known
                    continue
                try:
                    results[place] = await called(self._calls, self._one, message)
                except Exception as error:  # noqa: BLE001 - the program's own function may raise anything
                    try:
                        results[place] = await self._again(message, error)
                    except Postponed:
                        results[place] = LATER

        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(self._concurrency, len(left))):
                tasks.create_task(work())
        return [place for place in begun if results[place] is MISSING]

    async def _apply_many(self, messages: list[Message]) -> list[Piece]:
        if not self.refused:
            try:
                return [Piece(messages, await self._called(messages))]
            except Exception as error:  # noqa: BLE001 - the program's own function may raise anything
                log.warning("transform_many raised for %d messages, which are tried one by one: %r", len(messages), error)
                self._counters.retries += 1
        pieces: list[Piece] = []
        with suppress(Postponed):
            for message in messages:
                pieces.append(await self._many_of_one(message, before_pause=self._before_pause))
                if self._stops_at_failure and pieces[-1].failed is not None:
                    break
        return pieces

    async def _many_of_one(self, message: Message, *, before_pause: Callable[[], None]) -> Piece:
        known = self._known(message)
        if known is not None:
            return Piece([message], {}, known)
        try:
            return Piece([message], await self._called([message]))
        except Exception as error:  # noqa: BLE001 - the program's own function may raise anything
            made = await self._again(message, error, before_pause=before_pause)
            return Piece([message], {}, made) if isinstance(made, Failed) else Piece([message], rows_of_many(made, self._sink))

    async def _called(self, messages: list[Message]) -> Rows:
        assert self._many is not None
        return rows_of_many(await called(self._calls, self._many, messages), self._sink)

    async def _again(self, message: Message, error: Exception, *, before_pause: Callable[[], None] | None = None) -> object:
        """The result of another attempt, or Failed after the last. `before_pause`: None for that of the messages that `apply` got."""
        function, given = (self._one, message) if self._many is None else (self._many, [message])
        made = await self._attempts.again(error, function, given, before_pause or self._before_pause)
        if self._many is not None and not isinstance(made, Failed):
            try:
                rows_of_many(made, self._sink)
            except TypeError as wrong:
                return Failed(wrong, self._most)
        return made

    def _single(self, messages: list[Message], results: list[object]) -> Iterator[Piece]:
        for message, result in zip(messages, results, strict=False):
            failed = result if isinstance(result, Failed) else None
            rows: Rows = {}
            if failed is None:
                try:
                    rows = rows_of_results([message], [result], self._sink)
                except TypeError as wrong:
                    failed = Failed(wrong, 1)
            yield Piece([message], rows, failed, [result])

    def _known(self, message: Message) -> Failed | None:
        if not self.refused:
            return None
        error = self.refused.get((tp_of(message), offset_of(message)))
        return Failed(error, 1) if error is not None else None


def _nothing(message: object) -> None:
    return None


def _do_nothing() -> None:
    pass
