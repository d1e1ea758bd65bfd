"""Our producer's numbers under librdkafka's names, for `stats_cb`: those that both have, as JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any
from weakref import WeakMethod

from fencepost.compat.confluent.config import NO_BROKERS
from fencepost.compat.confluent.reports import Event, Reports
from fencepost.producer import ProducerStats


def statistics_json(stats: ProducerStats, *, name: str, began: float, waiting: int, waiting_max: int, held_bytes: int) -> str:
    """The text that `stats_cb` gets. `began`: the producer's monotonic time. `waiting`: messages without a report; `waiting_max`: at
    most. `held_bytes`: of messages that wait for their topic."""
    brokers = {
        (label := f"{broker.address}/{'bootstrap' if number < 0 else number}"): {
            "name": label,
            "nodeid": max(number, -1),
            "nodename": broker.address,
            "source": "configured" if number < 0 else "learned",
            "state": "UP" if broker.connected else "INIT",
            "waitresp_cnt": broker.requests_in_flight,
            "tx": broker.request_total,
            "txbytes": broker.byte_total,
            "rx": broker.response_total,
            "rtt": {"avg": micros(broker.request_latency_avg), "max": micros(broker.request_latency_max)},
        }
        for number, broker in stats.brokers.items()
        if broker.address != NO_BROKERS
    }
    topics = {
        topic: {
            "topic": topic,
            "metadata_age": int(stats.metadata_age or 0),
            "batchsize": {"avg": int(stats.batch_size_avg or 0), "max": int(stats.batch_size_max or 0)},
            "batchcnt": {"avg": int(stats.records_per_request_avg or 0)},
            "partitions": {},
            "txmsgs": numbers.record_acknowledged_total,
            "txbytes": numbers.byte_total,
        }
        for topic, numbers in stats.topics.items()
    }
    return json.dumps(
        {
            "name": name,
            "client_id": stats.client_id,
            "type": "producer",
            "ts": int(time.monotonic() * 1e6),
            "time": stats.timestamp_ms // 1000,
            "age": int((time.monotonic() - began) * 1e6),
            "replyq": 0,
            "msg_cnt": waiting,
            "msg_size": stats.buffer_total_bytes - stats.buffer_available_bytes + held_bytes,
            "msg_max": waiting_max,
            "msg_size_max": stats.buffer_total_bytes,
            "tx": stats.request_total,
            "tx_bytes": sum(broker.byte_total for broker in stats.brokers.values()),
            "rx": sum(broker.response_total for broker in stats.brokers.values()),
            "txmsgs": stats.record_acknowledged_total,
            "txmsg_bytes": stats.byte_total,
            "brokers": brokers,
            "topics": topics,
        }
    )


def micros(milliseconds: float | None) -> int:
    """Whole microseconds; 0 for what was not measured."""
    return int((milliseconds or 0.0) * 1000)


class Statistics:
    """What our producer calls at intervals, on its sender thread: it queues a call of `stats_cb`. `waiting`: the producer's method that
    returns the number of its messages without a report, and the bytes of those that wait for their topic; None before it has one."""

    def __init__(self, callback: Any, reports: Reports, messages_max: int, began: float) -> None:
        self.waiting: WeakMethod[Callable[[], tuple[int, int]]] | None = None
        self._callback = callback
        self._reports = reports
        self._messages_max = messages_max
        self._began = began

    def __call__(self, stats: ProducerStats) -> None:
        ask = self.waiting() if self.waiting is not None else None
        waiting, held_bytes = ask() if ask is not None else (0, 0)
        name = f"{stats.client_id}#producer"
        text = statistics_json(stats, name=name, began=self._began, waiting=waiting, waiting_max=self._messages_max, held_bytes=held_bytes)
        self._reports.add(Event(self._callback, text))
