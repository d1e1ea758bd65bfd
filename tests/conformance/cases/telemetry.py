"""GetTelemetrySubscriptions and PushTelemetry (KIP-714). Subscriptions match the client ids of their case, and no others."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

from fencepost.producer.wire.codecs.codec import Codec, compress
from tests.conformance.asks_configs import CLIENT_METRICS, DELETE, SET
from tests.conformance.asks_controller import MetricsClient
from tests.conformance.world import World, case

METRICS = b"\n\x02\n\x00"  # OTLP's MetricsData with one resource without metrics
EVERY_MS = "3600000"


@case("KIP-714", restarts=True)
def without_subscriptions(w: World) -> None:
    """A client gets an id, no metrics, and five minutes."""
    client = MetricsClient(w)
    client.ask(label="asks")
    client.ask(label="asks again")
    client.push(label="pushes nothing")
    client.push(label="pushes again")
    other = MetricsClient(w)
    other.ask(instance_id=uuid4(), label="with an id of its own")


@case("KIP-714", restarts=True)
def subscriptions_that_match(w: World) -> None:
    """By client id and software. A client has the metrics of all of them, at the shortest interval. A change counts at once."""
    names = [w.fresh_name() for _ in range(4)]
    w.alter(CLIENT_METRICS, names[0], [("metrics", SET, "one."), ("interval.ms", SET, "60000"), ("match", SET, "client_id=a.*")], label="1")
    w.alter(CLIENT_METRICS, names[1], [("metrics", SET, "two.,one."), ("match", SET, "client_id=ab,client_software_name=soft")], label="2")
    w.alter(CLIENT_METRICS, names[2], [("metrics", SET, "three."), ("match", SET, "client_source_address=127.*")], label="3")
    w.until_set(CLIENT_METRICS, names[2], "metrics", "three.", label="set")
    first, second, third = (
        MetricsClient(w, client_id="a"),
        MetricsClient(w, client_id="ab", software="soft"),
        MetricsClient(w, client_id="x"),
    )
    for client, who in ((first, "a"), (second, "ab"), (third, "x")):
        client.ask(label=f"{who} asks")
        client.ask(label=f"{who} asks again")
    w.alter(CLIENT_METRICS, names[3], [("metrics", SET, "*"), ("interval.ms", SET, "100"), ("match", SET, "client_id=ab")], label="4")
    w.until_set(CLIENT_METRICS, names[3], "metrics", "*", label="4 set")
    second.push(METRICS, label="a push for the old subscription")
    for client, who in ((first, "a"), (second, "ab"), (third, "x")):
        client.ask(label=f"{who} asks after a change")
    for name in names:
        w.alter(
            CLIENT_METRICS, name, [(each, DELETE, None) for each in ("metrics", "interval.ms", "match")], label=f"{names.index(name)} ends"
        )
    w.until_set(CLIENT_METRICS, names[3], "metrics", "", label="ended")
    second.ask(label="ab asks at last")


@case("KIP-714", restarts=True)
def pushes(w: World) -> None:
    """Once in an interval, with the subscription's id and a codec that the broker knows, until the last one."""
    name = w.fresh_name()
    w.alter(CLIENT_METRICS, name, [("metrics", SET, "*"), ("interval.ms", SET, EVERY_MS)], label="set")
    w.until_set(CLIENT_METRICS, name, "interval.ms", EVERY_MS, label="is set")
    for codec in Codec:
        client = MetricsClient(w)
        client.ask(label=f"asks, {codec.name}")
        client.push(compress(codec, METRICS) if codec else METRICS, codec=codec, label=f"pushes, {codec.name}")
        client.push(METRICS, label=f"pushes again, {codec.name}")
    cases: dict[str, dict[str, Any]] = {
        "unknown subscription": {"subscription_id": 7},
        "unknown codec": {"codec": 9},
        "too large": {"metrics": bytes((1 << 20) + 1)},
        "damaged": {"metrics": b"xxxxxxxxxxxxxxxxxxx", "codec": Codec.ZSTD},
        "large when decompressed": {"metrics": compress(Codec.GZIP, bytes(2 << 20)), "codec": Codec.GZIP},
        "no OTLP": {"metrics": b"xxxx"},
        "the zero id": {"instance_id": UUID(int=0)},
        "a reserved id": {"instance_id": UUID(int=1)},
        "another id": {"instance_id": uuid4()},
    }
    for label, how in cases.items():
        client = MetricsClient(w)
        client.ask(label=f"asks before: {label}")
        client.push(**{"metrics": METRICS, **how}, label=label)
        client.ask(label=f"asks after: {label}")
        client.push(METRICS, label=f"pushes after: {label}")
    last = MetricsClient(w)
    last.ask(label="asks")
    last.push(METRICS, label="pushes")
    last.push(METRICS, terminating=True, label="the last one, early")
    last.push(METRICS, terminating=True, label="one more")
    last.push(METRICS, label="yet another")
    never = MetricsClient(w)
    never.push(METRICS, instance_id=uuid4(), label="without asking")
