"""Broker configs that a client may describe and that the stub does not use, with Kafka's default values.

The configs that the stub obeys are in `topic_configs` and `server_properties`.
"""

from __future__ import annotations

from fencepost.broker_stub.configs.types import Type

# Broker configs without a default, and the coarser configs that count instead.
COARSER = {
    "log.flush.interval.ms": (("log.flush.scheduler.interval.ms", str(2**63 - 1), Type.LONG),),
    "log.retention.ms": (("log.retention.minutes", None, Type.INT), ("log.retention.hours", "168", Type.INT)),
    "log.roll.jitter.ms": (("log.roll.jitter.hours", "0", Type.INT),),
    "log.roll.ms": (("log.roll.hours", "168", Type.INT),),
}

# Configs that a client may describe and that have no effect in the stub.
OTHERS = {
    "auto.leader.rebalance.enable": ("true", Type.BOOLEAN),
    "fetch.max.bytes": ("57671680", Type.INT),
    "log.dir": ("/tmp/kafka-logs", Type.LIST),
    "offsets.topic.compression.codec": ("0", Type.INT),
    "offsets.topic.segment.bytes": ("104857600", Type.INT),
    "queued.max.requests": ("500", Type.INT),
    "request.timeout.ms": ("30000", Type.INT),
    "security.inter.broker.protocol": ("PLAINTEXT", Type.STRING),
    "socket.receive.buffer.bytes": ("102400", Type.INT),
    "socket.request.max.bytes": ("104857600", Type.INT),
    "socket.send.buffer.bytes": ("102400", Type.INT),
    "transaction.state.log.segment.bytes": ("104857600", Type.INT),
}
