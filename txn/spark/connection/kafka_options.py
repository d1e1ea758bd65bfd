"""The options `kafka.*`, named as in Java's producer: which are refused and why, which are ignored, and what the others mean here.

An option that Spark's sink forbids is refused with Spark's words. An option that would break exactly-once is refused with the reason, and
an unknown name with the name that was probably meant. Login modules and stores are translated (`jaas` and `java_stores`). An option that
only tunes Java is ignored with a log line. No error contains a value that may be secret.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Collection, Mapping
from typing import Any, Final

from fencepost.producer.config.compression import NAMES as CODEC_NAMES
from fencepost.producer.config.names import DOTTED
from fencepost.producer.config.security import read_check_hostname
from fencepost.producer.config.settings import SaslMechanism, Settings
from fencepost.producer.errors import ConfigError
from fencepost.txn.spark.connection import jaas
from fencepost.txn.spark.connection import java_stores as stores

log = logging.getLogger("fencepost.spark")

KAFKA: Final = "kafka."
JAAS: Final = "sasl.jaas.config"
TIMEOUT: Final = "transaction.timeout.ms"
OWNERS_TIMEOUT: Final = "transaction_timeout_ms"
"""The names of the same settings in fencepost's transactional producer."""

UNSUPPORTED: Final = "is not supported"
OWN_OFFSETS: Final = (
    "is not supported. Instead set the source option 'startingoffsets' to 'earliest' or 'latest' to specify where to start. "
    "It is about reading, and Structured Streaming keeps the offsets itself."
)
FORBIDDEN: Final[dict[str, str]] = {
    "key.serializer": "is not supported as keys are serialized with ByteArraySerializer.",
    "value.serializer": "is not supported as value are serialized with ByteArraySerializer.",
    "key.deserializer": "is not supported as keys are deserialized as byte arrays with ByteArrayDeserializer. Use DataFrame operations "
    "to explicitly deserialize the keys.",
    "value.deserializer": "is not supported as values are deserialized as byte arrays with ByteArrayDeserializer. Use DataFrame operations "
    "to explicitly deserialize the values.",
    "interceptor.classes": UNSUPPORTED,
    "interceptors": UNSUPPORTED,
    "enable.auto.commit": UNSUPPORTED,
    "group.id": UNSUPPORTED,
    "auto.offset.reset": OWN_OFFSETS,
}
"""Refused as in Spark's Kafka connector: "Kafka option '…'", and these words."""

_OF_THE_SOURCE: Final = "it is an option of the source: give it to readStream"
_OF_THE_QUERY: Final = "it is an option of the query: give it to writeStream"
OF_SPARK: Final[dict[str, str]] = {
    "includeheaders": "leave it out: the writer writes headers if the column `headers` exists",
    **dict.fromkeys(("subscribe", "subscribepattern", "assign", "startingoffsets", "endingoffsets", "startingtimestamp"), _OF_THE_SOURCE),
    **dict.fromkeys(("failondataloss", "maxoffsetspertrigger", "minoffsetspertrigger", "minpartitions", "groupidprefix"), _OF_THE_SOURCE),
    **dict.fromkeys(("checkpointlocation", "queryname", "outputmode", "trigger"), _OF_THE_QUERY),
}
"""Options of Spark's own that a sink does not have, in lower case, and what to do instead."""

REASONS: Final[dict[str, str]] = {
    "transactional.id": "the writer derives it from the sink's id, so that a later driver fences an earlier one: set the sink's id",
    "transaction.two.phase.commit.enable": "the driver ends its transaction itself, and the ledger is in it",
    "on.open.transaction": "the open transaction of a driver that died is aborted, and its batch is written again",
    "prepared": "transactions are not prepared here",
    "partitioner": "rows are moved to the task of their partition by Kafka's own murmur2; use a column `partition` to choose another",
    "partitioner.class": "rows are moved to the task of their partition by Kafka's own murmur2; use a column `partition` to choose another",
    "partitioner.ignore.keys": "rows are placed by their keys; without the column `key` they are spread",
    "statistics.interval.ms": "an option cannot be a function; the writer has metrics",
    "on.statistics": "an option cannot be a function; the writer has metrics",
    "ssl.engine.factory.class": "it is a Java class",
    "sasl.login.class": "it is a Java class",
    "sasl.client.callback.handler.class": "it is a Java class",
    "sasl.login.callback.handler.class": "it is a Java class; for tokens give secrets=, a function that returns "
    "{'sasl_oauth_token_provider': ...}",
    "sasl.oauthbearer.token.endpoint.url": "Java would fetch tokens there; give secrets=, a function that returns "
    "{'sasl_oauth_token_provider': ...}",
}
"""Cannot be set, and why."""

EXACTLY_ONCE: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "acks": (("all", "-1"), "otherwise a batch is lost if its leader fails before a replica has it"),
    "enable.idempotence": (("true",), "without it a repeated batch may be in the log twice, and transactions are not possible"),
}
"""Can only be set to the value that they have."""

TUNES_JAVA: Final = frozenset(
    {
        "auto.include.jmx.reporter", "client.dns.lookup", "client.rack", "enable.metrics.push", "metric.reporters",
        "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms", "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms", "receive.buffer.bytes", "send.buffer.bytes", "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin", "sasl.kerberos.service.name", "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor", "sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms",
        "sasl.login.refresh.buffer.seconds", "sasl.login.refresh.min.period.seconds", "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter", "sasl.login.retry.backoff.max.ms", "sasl.login.retry.backoff.ms", "security.providers",
        "socket.connection.setup.timeout.max.ms", "ssl.cipher.suites", "ssl.enabled.protocols", "ssl.keymanager.algorithm", "ssl.protocol",
        "ssl.provider", "ssl.secure.random.implementation", "ssl.trustmanager.algorithm",
    }
)  # fmt: skip
"""Settings of Java's client that this one does not need."""

TRANSLATED: Final = stores.STORE_NAMES | {JAAS, TIMEOUT}


def read_kafka_options(given: Mapping[str, Any], names: Collection[str] = (), *, spelt: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The options `kafka.*` to use, without `kafka.` in their names. Raises ConfigError for refused and unknown ones. `names`: other names
    that may have been meant. `spelt`: how the user wrote them, if not with `kafka.`."""
    kept: dict[str, Any] = {}
    for name, value in given.items():
        dotted = name.replace("_", ".")
        if dotted in FORBIDDEN:
            raise ConfigError(f"Kafka option '{name}' {FORBIDDEN[dotted]}")
        if dotted in REASONS:
            raise ConfigError(f"kafka.{name} cannot be set: {REASONS[dotted]}")
        if dotted in EXACTLY_ONCE:
            allowed, reason = EXACTLY_ONCE[dotted]
            if str(value).lower() not in allowed:
                raise ConfigError(f"kafka.{name}={value!r} cannot be set: exactly once needs {allowed[0]}: {reason}")
        elif dotted in TUNES_JAVA:
            log.info("kafka.%s has no meaning for this client, and is ignored", name)
        elif dotted in TRANSLATED or known_setting(name):
            kept[dotted if dotted in TRANSLATED else name] = value
        else:
            raise unknown((spelt or {}).get(name, f"{KAFKA}{name}"), names)
    return kept


def producer_settings(kafka: Mapping[str, Any], *, provided: bool = False) -> dict[str, Any]:
    """A producer's settings from the options that `read_kafka_options` kept: it reads login modules, opens stores and finds files.
    `provided`: whether a function may provide tokens. Call it where the producer is made. Raises ConfigError."""
    # Set explicitly, because a producer with retries=0 alone switches idempotence off.
    settings: dict[str, Any] = {"enable_idempotence": True, **{name: value for name, value in kafka.items() if name not in TRANSLATED}}
    if TIMEOUT in kafka:
        settings[OWNERS_TIMEOUT] = _number(TIMEOUT, kafka[TIMEOUT])
    if JAAS in kafka:
        _add(settings, jaas.read_jaas(str(kafka[JAAS])), JAAS)
        _check_mechanism(settings, kafka, provided=provided)
    if any(name in kafka for name in stores.STORE_NAMES):
        of_stores: dict[str, Any] = {name: settings.pop(name) for name in (stores.KEY_PASSWORD, stores.VERIFY) if name in settings}
        if stores.VERIFY in of_stores:
            read_check_hostname(f"{KAFKA}{stores.VERIFY}", of_stores[stores.VERIFY])
        of_stores |= {name: kafka[name] for name in stores.STORE_NAMES if name in kafka}
        _add(settings, stores.read_stores({name: str(value) for name, value in of_stores.items()}), "ssl.*store.*")
    for name, value in settings.items():
        if own_name(name) in stores.FILES and isinstance(value, str):
            settings[name] = stores.find_file(value)
    return settings


def _check_mechanism(settings: dict[str, Any], kafka: Mapping[str, Any], *, provided: bool) -> None:
    """The login module's mechanism, if it names one, and what is missing for it."""
    chosen = next((str(value) for name, value in settings.items() if own_name(name) == "sasl_mechanism"), None)
    tokens = "sasl_username" not in settings
    if chosen is None:
        if "ScramLoginModule" in str(kafka[JAAS]):
            raise ConfigError("kafka.sasl.mechanism is missing: SCRAM-SHA-256 or SCRAM-SHA-512, as the brokers have it")
        settings["sasl_mechanism"] = SaslMechanism.OAUTHBEARER.value if tokens else SaslMechanism.PLAIN.value
    if tokens and not any(own_name(name) == "sasl_oauth_token_provider" for name in settings):
        where = "does not return one" if provided else "is not set"
        raise ConfigError(
            f"kafka.{JAAS}: Java's OAuthBearerLoginModule makes or fetches tokens itself, which is not done here: give secrets=, a "
            f"function that returns {{'sasl_oauth_token_provider': ...}}; it {where}"
        )


def _add(settings: dict[str, Any], more: Mapping[str, Any], source: str) -> None:
    named = {own_name(name) for name in settings}
    for name, value in more.items():
        if name in named:
            raise ConfigError(f"kafka.{source} says {name}, which is set as well: one of them")
        settings[name] = value


def _number(name: str, value: object) -> int:
    try:
        return int(str(value))
    except ValueError:
        raise ConfigError(f"kafka.{name}={value!r}: a whole number of milliseconds") from None


def own_name(name: str) -> str:
    """The producer's name of a setting in any spelling."""
    return DOTTED.get(name) or DOTTED.get(name.replace("_", ".")) or name


def known_setting(name: str) -> bool:
    return own_name(name) in Settings.__struct_fields__ or name in CODEC_NAMES


def unknown(key: str, names: Collection[str]) -> ConfigError:
    name = key.lower()
    plain = name.removeprefix(KAFKA)
    if plain in OF_SPARK:
        return ConfigError(f"unknown option {key.removeprefix(KAFKA)!r}: {OF_SPARK[plain]}")
    if not name.startswith(KAFKA) and (known_setting(name) or name in TRANSLATED):
        return ConfigError(f"unknown option {key!r}; did you mean {KAFKA + name!r}? Kafka's settings begin with {KAFKA}")
    of_kafka = (*DOTTED, *TRANSLATED, *EXACTLY_ONCE, *TUNES_JAVA)
    candidates = {each.lower(): each for each in (*names, *(KAFKA + each for each in of_kafka))}
    candidates |= {f"{KAFKA}{each.lower()}": each for each in names}
    near = difflib.get_close_matches(name, candidates, n=1, cutoff=0.6)
    return ConfigError(f"unknown option {key!r}" + (f"; did you mean {candidates[near[0]]!r}?" if near else ""))
