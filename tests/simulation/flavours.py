"""The kinds of simulated runs: their settings, and which outcomes they may have."""

from __future__ import annotations

from typing import Any

from fencepost.producer.wire.codecs.codec import Codec
from tests.simulation.callers import Callers, SimProducer, small_steps
from tests.simulation.chaos import Chaos
from tests.simulation.checks import check
from tests.simulation.world import World

BASE: dict[str, Any] = {
    "batch_size": 700,
    "linger_ms": 3.0,
    "request_timeout_ms": 1_500.0,
    "delivery_timeout_ms": 6_000.0,
    "retry_backoff_ms": 20.0,
    "retry_backoff_max_ms": 500.0,
}
FLAVOURS: dict[str, dict[str, Any]] = {
    "plain": {},
    "sequences wrap": {"chaos": {"first_sequence": 2**31 - 25}},
    "epochs run out": {"chaos": {"first_epoch": 32_766}},
    "batches too large": {"chaos": {"topic_config": {"max.message.bytes": "450"}}},
    "compressed": {"settings": {"compression_type": Codec.LZ4}},
    "packed aside": {"settings": {"compression_type": Codec.LZ4, "pack_aside_bytes": 300}},
    "patient": {"settings": {"delivery_timeout_ms": 60_000.0, "request_timeout_ms": 3_000.0}},
    "topics come and go": {"settings": {"allow_auto_create_topics": False}, "chaos": {"recreate": True}},
    "topics come and go by name": {
        "settings": {"allow_auto_create_topics": False, "produce_version_max": 12},
        "chaos": {"recreate": True},
    },
    "addresses change": {"settings": {"metadata_recovery_rebootstrap_trigger_ms": 4_000.0}, "chaos": {"move": True}},
    "one in flight": {"settings": {"max_in_flight": 1}},
    "at least once": {"settings": {"enable_idempotence": False}, "chaos": {"exactly_once": False}},
    "callers": {"settings": {"buffer_memory": 60_000}, "callers": {"choosing": False}},
    "callers with a partitioner": {"settings": {"buffer_memory": 60_000}, "callers": {"choosing": True}},
    "callers of large batches": {"chaos": {"topic_config": {"max.message.bytes": "450"}}, "callers": {"choosing": False}},
    "callers without room": {"settings": {"buffer_memory": 8_000}, "callers": {"choosing": True}},
    "leader acks": {"settings": {"enable_idempotence": False, "acks": 1}, "chaos": {"exactly_once": False, "isolate": False}},
}


def simulate(seed: int, flavour: str) -> tuple[Chaos, dict[str, int]]:
    """Run one seed of one kind, and check it. Return the run, and how many records ended in each way."""
    kind = FLAVOURS[flavour]
    world = World(seed, **{**BASE, **kind.get("settings", {})})
    callers = Callers(world, SimProducer(world, **kind["callers"])) if "callers" in kind else None
    chaos = Chaos(world, 4, callers=callers, **kind.get("chaos", {}))
    with small_steps():
        chaos.run()
    return chaos, check(chaos)
