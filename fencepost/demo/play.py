"""Runs the demo: the same flights and the same faults twice, once with idempotence and once without."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from fencepost.demo.flights import Flight
from fencepost.demo.readback import Audit, read_back
from fencepost.demo.report import Outcome, Report
from fencepost.demo.schedule import plan
from fencepost.demo.stages import EXCHANGES, PARTITIONS, KafkaStage, Stage, StubStage
from fencepost.producer import Producer, RecordFuture

BATCH_BYTES_MAX: Final = 16_384
BATCH_BYTES_MIN: Final = 1_024
BATCHES: Final = 2_000
BUFFERED_BATCHES: Final = 128
REQUEST_TIMEOUT_MS: Final = 500
DEADLINE_MS: Final = 30_000
FLUSH_TIMEOUT_S: Final = 60.0
READ_TIMEOUT_S: Final = 120.0
_log = logging.getLogger("fencepost.demo")


class Audience(Protocol):
    """Shows the progress of the demo."""

    def act(self, title: str, total: int) -> Callable[[int], None]:
        """Begin a part of the demo. The caller calls the returned function with the number of rows done, of `total`."""
        ...


def run_demo(flights: Sequence[Flight], *, upstream: str | None, audience: Audience, share: Path | None = None) -> Report:
    """Run on the stub, or on the Kafka at `upstream`. Raises OSError, KafkaException or TimeoutError if that cannot be reached. `share`:
    where the end of the idempotent run is written as a page."""
    return Report(
        _run(_stage(upstream, share), flights, idempotent=True, audience=audience, share=share),
        _run(_stage(upstream), flights, idempotent=False, audience=audience),
    )


def demo_settings(flights: Sequence[Flight]) -> dict[str, Any]:
    """The producer's settings in the demo.

    Batches are far smaller than the default, so that there are requests for every fault. The buffer is small, so that `send` cannot run far
    ahead of delivery. A reply counts as lost after half a second instead of thirty. Half a minute without progress ends the demo.
    """
    data_bytes = sum(len(flight.value) for flight in flights)
    batch_bytes = min(BATCH_BYTES_MAX, max(BATCH_BYTES_MIN, data_bytes // BATCHES))
    return {
        "batch_size": batch_bytes,
        "buffer_memory": batch_bytes * BUFFERED_BATCHES,
        "max_request_size": batch_bytes * PARTITIONS,
        "request_timeout_ms": REQUEST_TIMEOUT_MS,
        "delivery_timeout_ms": DEADLINE_MS,
        "max_block_ms": DEADLINE_MS,
    }


def _stage(upstream: str | None, share: Path | None = None) -> Stage:
    journal = 0 if share is None else EXCHANGES
    return StubStage(journal=journal) if upstream is None else KafkaStage(upstream, journal=journal)


def _run(stage: Stage, flights: Sequence[Flight], *, idempotent: bool, audience: Audience, share: Path | None = None) -> Outcome:
    how = "idempotent" if idempotent else "without idempotence"
    with stage:
        acknowledged = _send(stage, flights, idempotent=idempotent, advance=audience.act(f"sending, {how}", len(flights)))
        tally = stage.tally(len(flights))
        if share is not None:
            stage.share(share)
        audit = Audit(flights)
        advance = audience.act("reading back with confluent-kafka", len(flights))
        for partition, key, value in read_back(stage.plain_bootstrap, stage.topic, PARTITIONS, timeout_s=READ_TIMEOUT_S, advance=advance):
            audit.see(partition, key, value)
    return Outcome(
        sent=len(flights),
        acknowledged=acknowledged,
        resent=tally.resent,
        duplicates_refused=tally.duplicates_refused,
        in_log=audit.in_log,
        lost=audit.lost,
        doubled=audit.doubled,
        out_of_order=audit.out_of_order,
        replies_dropped=tally.replies_dropped,
        connections_cut=tally.connections_cut,
        leader_moves=tally.leader_moves,
        restarts=tally.restarts,
    )


def _send(stage: Stage, flights: Sequence[Flight], *, idempotent: bool, advance: Callable[[int], None]) -> int:
    """Send all flights and execute the plan; return the number of acknowledged records."""
    acknowledged = 0
    reasons: dict[str, None] = {}

    def delivered(future: RecordFuture) -> None:
        nonlocal acknowledged
        failure = future.exception()
        if failure is None:
            acknowledged += 1
        else:
            reasons.setdefault(str(failure))

    settings = demo_settings(flights)
    with Producer(bootstrap_servers=stage.bootstrap, enable_idempotence=idempotent, **settings) as producer:
        begun = 0
        for row, trouble in plan(len(flights)):
            _send_rows(producer, stage.topic, flights[begun:row], delivered)
            begun = row
            advance(acknowledged)
            stage.strike(trouble)
        _send_rows(producer, stage.topic, flights[begun:], delivered)
        producer.flush(FLUSH_TIMEOUT_S)
        advance(acknowledged)
    for reason in reasons:
        _log.warning("not acknowledged: %s", reason)
    return acknowledged


def _send_rows(producer: Producer, topic: str, flights: Sequence[Flight], delivered: Callable[[RecordFuture], None]) -> None:
    for key, value in flights:
        producer.send(topic, value, key=key, on_delivery=delivered)
