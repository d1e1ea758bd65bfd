"""What `error_cb` and `throttle_cb` hear. Our producer calls neither: its numbers and failed questions for topics say it."""

from __future__ import annotations

import logging
import time
from collections.abc import Sized
from typing import Any, Final

from confluent_kafka import KafkaError, ThrottleEvent

from fencepost.compat.confluent.config import NO_BROKERS
from fencepost.compat.confluent.errors import kafka_error, made
from fencepost.compat.confluent.reports import Event, Reports
from fencepost.compat.confluent.underlying import Underlying
from fencepost.producer import Fatal, NoUsableBroker, TopicUnavailable

LOOK_S: Final = 1.0
"""How often `poll` and `flush` look at the numbers."""


class Watch:
    """Finds out what `error_cb` and `throttle_cb` hear, from our producer's numbers and from failed questions for topics. `wanted`: there
    is one of them."""

    def __init__(self, underlying: Underlying, reports: Reports, error_cb: Any, throttle_cb: Any, logger: logging.Logger) -> None:
        self._underlying = underlying
        self._reports = reports
        self._error_cb = error_cb
        self._throttle_cb = throttle_cb
        self._logger = logger
        self.wanted = error_cb is not None or throttle_cb is not None
        self._next = 0.0
        self._told: set[int] = set()
        self._throttled: float | None = None

    def trouble(self, error: Exception) -> None:
        """No broker can be used, or the producer cannot continue. error_cb hears of it once until a broker can be used."""
        if isinstance(error, Fatal):
            known = made(KafkaError._FATAL, str(error), fatal=True)
        elif isinstance(error, NoUsableBroker):
            known = kafka_error(error)
        else:
            known = made(KafkaError._ALL_BROKERS_DOWN, str(error))
        if known.code() in self._told or (self._told and known.code() == KafkaError._ALL_BROKERS_DOWN):
            return
        self._told.add(known.code())
        if NO_BROKERS not in str(error):
            self._logger.warning("%s", known.str())
        if self._error_cb is not None:
            self._reports.add(Event(self._error_cb, known))

    def look(self, messages: Sized) -> None:
        """Look at the numbers, at most once in a second. The length of `messages`: how many have no report."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + LOOK_S
        stats = self._underlying.stats()
        if stats.connection_count:
            self._told.clear()
        elif stats.connection_creation_total and len(messages):
            self.trouble(TopicUnavailable(f"no connection to a broker is up, and {len(messages)} messages wait"))
        throttled = stats.produce_throttle_time_max
        if self._throttle_cb is not None and throttled and throttled != self._throttled:
            self._reports.add(Event(self._throttle_cb, ThrottleEvent("", -1, throttled / 1000.0)))
        self._throttled = throttled
