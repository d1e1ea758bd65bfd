"""Names of settings that this producer does not have, and what to use instead. The producer refuses all of them.

The keys are written with dots. They come from librdkafka, from Kafka's consumer, and from clients of other languages.
"""

from __future__ import annotations

from typing import Final

SAME_AS: Final[dict[str, str]] = {
    "message.timeout.ms": "delivery_timeout_ms",
    "queue.buffering.max.ms": "linger_ms",
    "message.max.bytes": "max_request_size",
    "message.send.max.retries": "retries",
    "socket.timeout.ms": "request_timeout_ms",
    "topic.metadata.refresh.interval.ms": "metadata_max_age_ms",
    "metadata.broker.list": "bootstrap_servers",
    "request.required.acks": "acks",
    "request.timeout": "request_timeout_ms",
    "timeout.ms": "request_timeout_ms",
    "max.in.flight": "max_in_flight",
    "brokers": "bootstrap_servers",
    "servers": "bootstrap_servers",
}
"""Another client's name -> the setting here that does the same, in the same unit."""

_LOGGED: Final = "leave it out: the producer writes to Python's logging, to the logger 'fencepost.producer'"
OTHERWISE: Final[dict[str, str]] = {
    "queue.buffering.max.kbytes": "use 'buffer_memory', which counts bytes: 1 there is 1024 here",
    "queue.buffering.max.messages": "no setting limits how many records wait; 'buffer_memory' limits their bytes",
    "batch.num.messages": "no setting limits how many records a batch has; 'batch_size' limits its bytes",
    "stats.cb": "use 'on_statistics', a function that gets the producer's stats",
    "error.cb": "leave it out: each record's future has its error, and the logger 'fencepost.producer' has the trouble with brokers",
    "throttle.cb": "leave it out: producer.stats() has the throttle times",
    "on.delivery": "give it to send(..., on_delivery=...): each record has a callback of its own",
    **dict.fromkeys(("log.cb", "logger", "log.level", "debug", "log.connection.close"), _LOGGED),
    "socket.keepalive.enable": "leave it out: connections are closed after 'connections_max_idle_ms' without traffic",
    "broker.address.family": "leave it out: the producer tries every address of a name",
    "enable.ssl.certificate.verification": "use 'ssl_context', an ssl.SSLContext that checks what you want to be checked",
}
"""Another client's name -> what to do here, where no setting is the same."""

TRANSACTIONAL: Final = ("transactional.id", "transaction.timeout.ms", "transaction.two.phase.commit.enable")

CONSUMERS: Final = (
    "group.id",
    "group.instance.id",
    "group.protocol",
    "auto.offset.reset",
    "enable.auto.commit",
    "auto.commit.interval.ms",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "max.poll.records",
    "isolation.level",
    "key.deserializer",
    "value.deserializer",
)

_GROUP: Final = "it is a consumer's setting, and a producer has no group: leave it out"
_TRANSACTIONAL: Final = "TransactionalProducer(transactional_id=...) has it, Producer and AsyncProducer write without transactions"

REASONS: Final[dict[str, str]] = {
    **{name: f"use {setting!r}, which does the same here" for name, setting in SAME_AS.items()},
    **OTHERWISE,
    **dict.fromkeys(TRANSACTIONAL, _TRANSACTIONAL),
    **dict.fromkeys(CONSUMERS, _GROUP),
}
"""For each name what to do instead, for an error message."""
