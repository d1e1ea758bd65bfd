"""librdkafka's configuration properties: which of our settings each one becomes, which have no effect here, and which are refused.

docs/compat.md shows these tables. A property that stands in none of them does not exist in librdkafka either.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Number(NamedTuple):
    """A property with a number: our setting, librdkafka's limits, and the value that means "without end" there. `whole`: no fractions."""

    setting: str
    low: float
    high: float
    endless: float | None = None
    whole: bool = True


I32: Final = 2_147_483_647

SAME: Final[dict[str, str]] = {
    "metadata.broker.list": "bootstrap.servers",
    "queue.buffering.max.ms": "linger.ms",
    "message.send.max.retries": "retries",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "compression.codec": "compression.type",
    "request.required.acks": "acks",
    "delivery.timeout.ms": "message.timeout.ms",
    "sasl.mechanisms": "sasl.mechanism",
    "dr_cb": "on_delivery",
}
"""Two names of one property: the second one is looked up in the tables."""

NUMBERS: Final[dict[str, Number]] = {
    "linger.ms": Number("linger_ms", 0, 900_000, whole=False),
    "batch.size": Number("batch_size", 1, I32),
    "message.max.bytes": Number("max_request_size", 1000, 1_000_000_000),
    "queue.buffering.max.kbytes": Number("buffer_memory", 1, I32),
    "queue.buffering.max.messages": Number("", 0, I32, endless=0),
    "max.in.flight.requests.per.connection": Number("max_in_flight", 1, 1_000_000),
    "retries": Number("retries", 0, I32),
    "retry.backoff.ms": Number("retry_backoff_ms", 1, 300_000),
    "retry.backoff.max.ms": Number("retry_backoff_max_ms", 1, 300_000),
    "socket.timeout.ms": Number("request_timeout_ms", 10, 300_000),
    "message.timeout.ms": Number("delivery_timeout_ms", 0, I32, endless=0),
    "topic.metadata.refresh.interval.ms": Number("metadata_max_age_ms", -1, 3_600_000, endless=-1),
    "topic.metadata.propagation.max.ms": Number("", 0, 3_600_000),
    "metadata.recovery.rebootstrap.trigger.ms": Number("metadata_recovery_rebootstrap_trigger_ms", 0, I32),
    "reconnect.backoff.ms": Number("reconnect_backoff_ms", 0, 3_600_000),
    "reconnect.backoff.max.ms": Number("reconnect_backoff_max_ms", 0, 3_600_000),
    "socket.connection.setup.timeout.ms": Number("socket_connection_setup_timeout_ms", 1000, I32),
    "connections.max.idle.ms": Number("connections_max_idle_ms", 0, I32, endless=0),
    "statistics.interval.ms": Number("statistics_interval_ms", 0, 86_400_000),
    "transaction.timeout.ms": Number("transaction_timeout_ms", 1000, I32),
    "compression.level": Number("compression_level", -1, 12),
}
"""Properties with numbers. "" as the setting: this package does what it says."""

FLAGS: Final[dict[str, str]] = {
    "enable.idempotence": "enable_idempotence",
    "allow.auto.create.topics": "allow_auto_create_topics",
    "delivery.report.only.error": "",
    "enable.ssl.certificate.verification": "",
}
"""Properties that are true or false."""

PASSED_ON: Final[dict[str, str]] = {
    "bootstrap.servers": "bootstrap_servers",
    "client.id": "client_id",
    "acks": "acks",
    "compression.type": "compression_type",
    "metadata.recovery.strategy": "metadata_recovery_strategy",
    "client.dns.lookup": "client_dns_lookup",
    "transactional.id": "transactional_id",
    "security.protocol": "security_protocol",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    "ssl.endpoint.identification.algorithm": "ssl_check_hostname",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.username": "sasl_username",
    "sasl.password": "sasl_password",
    "sasl.oauthbearer.config": "sasl_oauthbearer_config",
    "oauth_cb": "sasl_oauth_token_provider",
}
"""Properties whose values our producer reads and checks itself."""

OWN: Final[frozenset[str]] = frozenset(
    (
        "partitioner",
        "error_cb",
        "stats_cb",
        "throttle_cb",
        "on_delivery",
        "logger",
        "ssl.ca.pem",
        "ssl.cipher.suites",
        "default.topic.config",
    )
)
"""Properties that this package reads itself."""

HARMLESS: Final[dict[str, tuple[str, ...]]] = {
    "our connections have TCP_NODELAY, and the operating system's sizes of buffers": (
        "socket.nagle.disable",
        "socket.send.buffer.bytes",
        "socket.receive.buffer.bytes",
    ),
    "a connection on which a request times out is closed, and one that is idle for connections.max.idle.ms": (
        "socket.keepalive.enable",
        "socket.max.fails",
    ),
    "librdkafka does nothing with it either": ("socket.blocking.max.ms", "enable.random.seed", "produce.offset.report", "builtin.features"),
    "each new connection looks the name up, and tries every address": ("broker.address.ttl", "broker.address.family"),
    "the limits of responses are fixed, at 100 MiB or less": ("receive.message.max.bytes",),
    "each message is encoded into its batch at once": ("message.copy.max.bytes",),
    "brokers hear the name and version of this library": ("client.software.name", "client.software.version"),
    "only leaders of the topics in use are connected to": ("enable.sparse.connections",),
    "metadata requests have the limit of all requests": ("metadata.request.timeout.ms",),
    "each broker is asked for its versions": (
        "api.version.request",
        "api.version.request.timeout.ms",
        "api.version.fallback.ms",
        "broker.version.fallback",
    ),
    "only topics that are written to are asked for, at once when a leader moves": (
        "topic.metadata.refresh.fast.interval.ms",
        "topic.metadata.refresh.fast.cnt",
        "topic.metadata.refresh.sparse",
        "topic.blacklist",
    ),
    "reconnect.backoff.ms varies by 20 % already": ("reconnect.backoff.jitter.ms",),
    "batch.size limits a batch, and no number of messages does": ("batch.num.messages",),
    "max.in.flight limits the requests on a connection": ("queue.buffering.backpressure.threshold",),
    "messages without a key go to another partition after some bytes": ("sticky.partitioning.linger.ms",),
    "socket.timeout.ms is what limits a request, at the client and at the broker": ("request.timeout.ms",),
    "metadata is asked for again after topic.metadata.refresh.interval.ms": ("metadata.max.age.ms",),
    "a rack chooses the replica that a consumer reads from": ("client.rack",),
    "messages of a partition are sent in order": ("queuing.strategy",),
    "a log goes to Python's logging: the loggers fencepost.producer and fencepost.txn, and `logger` for this package's own": (
        "debug",
        "log_cb",
        "log_level",
        "log.queue",
        "log.thread.name",
        "log.connection.close",
    ),
    "nothing is pushed to brokers; stats_cb and producer.underlying.stats() have the numbers": ("enable.metrics.push",),
    "it is for programs in C": ("enabled_events", "internal.termination.signal", "opaque"),
    "it is a consumer's, and confluent-kafka's producer ignores it too": (
        "group.id",
        "group.instance.id",
        "partition.assignment.strategy",
        "session.timeout.ms",
        "heartbeat.interval.ms",
        "group.protocol.type",
        "group.protocol",
        "group.remote.assignor",
        "coordinator.query.interval.ms",
        "max.poll.interval.ms",
        "max.poll.records",
        "enable.auto.commit",
        "auto.commit.enable",
        "auto.commit.interval.ms",
        "auto.offset.reset",
        "enable.auto.offset.store",
        "queued.min.messages",
        "queued.max.messages.kbytes",
        "fetch.wait.max.ms",
        "fetch.queue.backoff.ms",
        "fetch.message.max.bytes",
        "max.partition.fetch.bytes",
        "fetch.max.bytes",
        "fetch.min.bytes",
        "fetch.error.backoff.ms",
        "isolation.level",
        "enable.partition.eof",
        "check.crcs",
        "consume.callback.max.messages",
        "offset.store.method",
        "offset.store.path",
        "offset.store.sync.interval.ms",
        "share.acknowledgement.mode",
    ),
}
"""Why a property has no effect here -> the properties. They are accepted."""

REFUSED: Final[dict[str, tuple[str, ...]]] = {
    "Kerberos is not supported: use another sasl.mechanism that the brokers accept": (
        "sasl.kerberos.service.name",
        "sasl.kerberos.principal",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.keytab",
        "sasl.kerberos.min.time.before.relogin",
    ),
    "OIDC is not built in: give oauth_cb, a function that gets the token": (
        "sasl.oauthbearer.*",
        "https.ca.*",
        "enable.sasl.oauthbearer.*",
    ),
    "Python's ssl reads a client's certificate and key from files only: use ssl.certificate.location and ssl.key.location": (
        "ssl.certificate.pem",
        "ssl.key.pem",
        "ssl_certificate",
        "ssl_key",
        "ssl.keystore.location",
        "ssl.keystore.password",
    ),
    "use ssl.ca.location or ssl.ca.pem": ("ssl_ca", "ssl.ca.certificate.stores", "ssl.truststore.location"),
    "JAAS is Java's: use sasl.username and sasl.password": ("sasl.jaas.config",),
    "librdkafka's mock cluster is not there: use fencepost.BrokerStub": ("test.mock.*",),
    "use fencepost.producer.Producer with its ssl_context, which can do all that Python's ssl can do": (
        "ssl.curves.list",
        "ssl.sigalgs.list",
        "ssl.crl.location",
        "ssl.providers",
        "ssl.engine.*",
        "ssl.certificate.verify_cb",
    ),
    "a failed message never ends the producer; to write all messages or none, use transactional.id": ("enable.gapless.guarantee",),
    "librdkafka's plug-ins are C: use the interceptors of fencepost.producer.Producer": ("plugin.library.paths", "interceptors"),
    "confluent-kafka calls no partitioner of Python: use a name for `partitioner`, or the partitioner of fencepost.producer.Producer": (
        "partitioner_cb",
    ),
}
"""What to do instead -> properties that are refused. A star stands for all names with this beginning."""

HARMLESS_NAMES: Final = {name: reason for reason, names in HARMLESS.items() for name in names}
REFUSED_NAMES: Final = {name: reason for reason, names in REFUSED.items() for name in names}


def refusal(name: str) -> str:
    """What to do instead of this property; empty if librdkafka does not have it."""
    starred = (reason for beginning, reason in REFUSED_NAMES.items() if beginning.endswith("*") and name.startswith(beginning[:-1]))
    return REFUSED_NAMES.get(name) or next(starred, "")
