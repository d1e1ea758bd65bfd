"""Settings of other clients that this producer does not have, and what to do instead. The producer refuses all of them.

The names are written with dots. They come from librdkafka and confluent-kafka, Java's producer, aiokafka and kafka-python, from Kafka's
consumers, and from clients of other languages. The module is imported only for an unknown name.
"""

from __future__ import annotations

from typing import Any, Final

SAME_AS: Final[dict[str, str]] = {
    "message.timeout.ms": "delivery_timeout_ms",
    "queue.buffering.max.ms": "linger_ms",
    "max.batch.size": "batch_size",
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

ENDLESS: Final[dict[str, tuple[object, ...]]] = {"message.timeout.ms": (0, "0"), "topic.metadata.refresh.interval.ms": (-1, "-1")}
"""Another client's name -> the values that mean without end there."""

KIBIBYTES: Final[dict[str, str]] = {"queue.buffering.max.kbytes": "buffer_memory"}
"""Another client's name, which counts KiB -> the setting here, which counts bytes."""

INSTEAD: Final[dict[str, str]] = {
    "TransactionalProducer(transactional_id=...) has it, Producer and AsyncProducer write without transactions": (
        "transactional.id transaction.timeout.ms transaction.two.phase.commit.enable"
    ),
    "it is a consumer's setting, and a producer has no group: leave it out": (
        "group.* fetch.* max.poll.* queued.* offset.* auto.commit.* consume.* share.* auto.offset.reset enable.auto.commit "
        "enable.auto.offset.store partition.assignment.strategy coordinator.query.interval.ms session.timeout.ms heartbeat.interval.ms "
        "max.partition.fetch.bytes isolation.level enable.partition.eof check.crcs rebalance.cb on.commit default.api.timeout.ms "
        "exclude.internal.topics key.deserializer value.deserializer"
    ),
    "leave it out: a rack chooses the replica that a consumer reads from, and a producer writes to the leaders": "client.rack",
    "no setting limits how many records wait; 'buffer_memory' limits their bytes": "queue.buffering.max.messages",
    "no setting limits how many records a batch has; 'batch_size' limits its bytes": "batch.num.messages",
    "leave it out: 'max_in_flight' limits the requests on a connection": "queue.buffering.backpressure.threshold",
    "leave it out: send encodes each record into a batch at once": "message.copy.max.bytes",
    "leave it out: records of a partition are in the log in the order in which they were sent": "queuing.strategy msg.order.cmp",
    "leave it out: a failed record never ends the producer; to write all records or none, use TransactionalProducer": (
        "enable.gapless.guarantee"
    ),
    "use 'partitioner', a name or a function": "partitioner.class partitioner.cb",
    "leave it out: the partition follows the key unless partitioner='round_robin'; records without a key avoid partitions without a leader "
    "and prefer fast ones": "partitioner.ignore.keys partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms",
    "leave it out: records without a key go to another partition after 'batch_size' bytes": "sticky.partitioning.linger.ms",
    "give it to send(..., on_delivery=...): each record has a callback of its own": "on.delivery dr.cb dr.msg.cb",
    "leave it out: the callback of send(..., on_delivery=...) gets the future, and future.exception() is None without an error": (
        "delivery.report.only.error"
    ),
    "leave it out: each record's future has its offset": "produce.offset.report",
    "leave it out: each record's future has its error, and the logger 'fencepost.producer' has the trouble with brokers": "error.cb",
    "use 'on_statistics', a function that gets the producer's stats": "stats.cb",
    "leave it out: producer.stats() has the numbers, and 'on_statistics' gets them at intervals": (
        "metric.reporters metrics.* enable.metrics.push auto.include.jmx.reporter"
    ),
    "leave it out: producer.stats() has the throttle times": "throttle.cb",
    "leave it out: the producer writes to Python's logging, to the logger 'fencepost.producer'": (
        "log.cb logger log.level log.queue log.thread.name log.connection.close debug"
    ),
    "leave it out: it is for programs in C": (
        "builtin.features enabled.events background.event.cb socket.cb connect.cb closesocket.cb open.cb resolve.cb opaque "
        "internal.termination.signal plugin.library.paths enable.random.seed"
    ),
    "give its settings to the producer, for all topics": "default.topic.conf*",
    "leave it out: a program reads its own configuration": "config.providers*",
    "leave it out: the producer asks each broker for its versions": "api.version* broker.version.fallback",
    "leave it out: the producer asks only for the metadata of topics that it writes to": "topic.metadata.refresh.sparse topic.blacklist",
    "leave it out: without a leader, the metadata is asked for at intervals from 'retry_backoff_ms' to 'retry_backoff_max_ms'": (
        "topic.metadata.refresh.fast.*"
    ),
    "use 'max_block_ms', which limits how long send waits for the metadata of a new topic": (
        "topic.metadata.propagation.max.ms bootstrap.timeout.ms"
    ),
    "leave it out: the limits of responses are fixed, at 100 MiB or less": "receive.message.max.bytes",
    "leave it out: after 'request_timeout_ms' without an answer the producer closes the connection": "socket.max.fails",
    "leave it out: it has no effect in librdkafka either": "socket.blocking.max.ms",
    "leave it out: the operating system chooses the sizes of a socket's buffers": (
        "send.buffer.bytes receive.buffer.bytes socket.send.buffer.bytes socket.receive.buffer.bytes"
    ),
    "leave it out: a connection has TCP_NODELAY, and the operating system's other defaults": "socket.nagle.disable socket.options",
    "leave it out: connections are closed after 'connections_max_idle_ms' without traffic": "socket.keepalive.enable",
    "leave it out: 'socket_connection_setup_timeout_ms' does not grow": "socket.connection.setup.timeout.max.ms",
    "leave it out: 'reconnect_backoff_ms' varies by 20 % already": "reconnect.backoff.jitter.ms",
    "leave it out: the producer tries every address of a name": "broker.address.family",
    "leave it out: each new connection looks the name up": "broker.address.ttl",
    "leave it out: the producer connects to the brokers themselves, without a proxy": "proxy.url socks5.proxy",
    "leave it out: the producer has its own connections": "selector kafka.client",
    "leave it out: an AsyncProducer belongs to the loop on which it is first used": "loop",
    "use 'ssl_cafile', the name of a PEM file, or 'ssl_context', an ssl.SSLContext whose load_verify_locations(cadata=...) takes text": (
        "ssl.ca ssl.ca.pem ssl.truststore.certificates"
    ),
    "use 'ssl_certfile' and 'ssl_keyfile', the names of PEM files: Python's ssl reads certificates and keys of clients from files only": (
        "ssl.certificate ssl.certificate.pem ssl.key ssl.key.pem ssl.keystore.certificate.chain ssl.keystore.key"
    ),
    "leave it out: 'ssl_cafile' and 'ssl_certfile' are PEM files, no stores; the password of a key is 'ssl_password'": (
        "ssl.keystore.password ssl.keystore.type ssl.truststore.password ssl.truststore.type"
    ),
    "leave it out: without 'ssl_cafile' the producer trusts the system's CAs": "ssl.ca.certificate.stores",
    "use 'ssl_context', an ssl.SSLContext with set_ciphers(...)": "ssl.cipher.suites ssl.ciphers",
    "use 'ssl_context', an ssl.SSLContext with load_verify_locations(...) of the list and verify_flags": "ssl.crl.location ssl.crlfile",
    "use 'ssl_context', an ssl.SSLContext that checks what you want to be checked": (
        "enable.ssl.certificate.verification ssl.certificate.verify.cb"
    ),
    "use 'ssl_context', an ssl.SSLContext, for all that Python's ssl can do": (
        "ssl.curves.list ssl.sigalgs.list ssl.enabled.protocols ssl.protocol ssl.provider ssl.providers ssl.engine.* "
        "ssl.keymanager.algorithm ssl.trustmanager.algorithm ssl.secure.random.implementation security.providers"
    ),
    "Kerberos is not supported: use another 'sasl_mechanism' that the brokers accept": "sasl.kerberos.*",
    "JAAS is Java's: use 'sasl_username' and 'sasl_password', or 'sasl_oauth_token_provider'": (
        "sasl.jaas.config sasl.client.callback.handler.class sasl.login.*"
    ),
    "a token comes from a function: use 'sasl_oauth_token_provider'": (
        "sasl.oauthbearer.* enable.sasl.oauthbearer.unsecure.jwt oauthbearer.token.refresh.cb https.ca.*"
    ),
}
"""What to do instead, for an error message -> names of other clients; a star stands for all names with this beginning."""

_REASONS: Final = {name: reason for reason, names in INSTEAD.items() for name in names.split()}
_BEGINNINGS: Final = {name[:-1]: reason for name, reason in _REASONS.items() if name.endswith("*")}


def instead_of(name: str, value: Any = None) -> str | None:
    """What to do instead of this setting with this value; None for a name that is no other client's."""
    if name in SAME_AS:
        endless = value in ENDLESS.get(name, ())
        return f"use {SAME_AS[name]!r}" + (f": {value} there is float('inf') here" if endless else ", which does the same here")
    if name in KIBIBYTES:
        size = _kibibytes(value)
        return f"use {KIBIBYTES[name]!r}, which counts bytes: {size} there is {size * 1024} here"
    return _REASONS.get(name) or next((reason for beginning, reason in _BEGINNINGS.items() if name.startswith(beginning)), None)


def _kibibytes(value: Any) -> int:
    """The number of KiB; 1 for a value that librdkafka does not accept."""
    try:
        size = int(value)
    except (TypeError, ValueError, OverflowError):
        return 1
    return size if 0 < size < 1 << 31 else 1
