"""Reads a configuration with librdkafka's property names, and makes our producer's settings of it.

It refuses, by name, what cannot be carried over and what librdkafka does not have. `config_names` has the tables.
"""

from __future__ import annotations

import logging
import re
import ssl
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from msgspec import Struct

from fencepost.compat.confluent.config_names import FLAGS, HARMLESS_NAMES, NUMBERS, OWN, PASSED_ON, SAME, refusal
from fencepost.compat.confluent.partitioners import PARTITIONERS
from fencepost.producer.config.limits import AT_LEAST, BATCH_SIZE_MAX
from fencepost.producer.config.security import hidden

log = logging.getLogger("fencepost.compat.confluent")

NO_BROKERS: Final = "bootstrap.servers-is-not-configured.invalid:9092"
"""The address of a producer without bootstrap.servers, which librdkafka takes. The name exists nowhere (RFC 2606)."""

BOOLEANS: Final[dict[object, bool]] = {
    **dict.fromkeys((True, 1, "1", "true", "t"), True),
    **dict.fromkeys((False, 0, "0", "false", "f"), False),
}
CALLBACKS: Final = ("error_cb", "stats_cb", "throttle_cb")
PORT: Final = re.compile(r"[^:\]]:\d+$|\]:\d+$")
"""An address ends with a port; an IPv6 address in brackets may end with the bracket."""
IN_FLIGHT_MAX: Final = 5


class Config(Struct, frozen=True, kw_only=True):
    """`settings`: of our producer. `properties`: what the program gave, under librdkafka's names. Both have passwords as Secrets.
    `messages_max`: 0 for no limit."""

    settings: dict[str, Any]
    properties: dict[str, Any]
    messages_max: int = 100_000
    missing_topic_s: float = 30.0
    only_errors: bool = False
    on_delivery: Callable[..., Any] | None = None
    error_cb: Callable[..., Any] | None = None
    stats_cb: Callable[..., Any] | None = None
    throttle_cb: Callable[..., Any] | None = None
    logger: logging.Logger = log


def read_config(config: object, given: Mapping[str, Any]) -> Config:
    """The configuration from the arguments of `Producer`. Raises TypeError without one, and KafkaException."""
    if config is None and not given:
        raise TypeError("expected configuration dict")
    if config is not None and not isinstance(config, Mapping):
        raise TypeError(f"expected configuration dict, not {type(config).__name__}")
    properties = {**(config or {}), **given}
    properties.update(properties.pop("default.topic.config", {}))
    logger = properties.pop("logger", None)
    named: dict[str, Any] = {}
    for name, value in properties.items():
        named[_known(name)] = value
    if named.pop("bootstrap.servers", None) in (None, ""):
        servers: Any = NO_BROKERS
        log.warning("No `bootstrap.servers` configured: the producer will not be able to connect to a cluster")
    else:
        servers = _with_ports(properties.get("bootstrap.servers") or properties.get("metadata.broker.list"))
    settings = {"client_id": "rdkafka", **_settings(named), "bootstrap_servers": servers}
    _fit(settings, named)
    _add_tls(settings, named)
    callbacks = {name: _callback(name, named.get(name)) for name in CALLBACKS}
    settings.pop("statistics_interval_ms", None)
    interval = _number("statistics.interval.ms", named.get("statistics.interval.ms", 0))
    if callbacks["stats_cb"] is not None and interval:
        settings["statistics_interval_ms"] = interval
    on_delivery = named.get("on_delivery")
    if on_delivery is not None and not callable(on_delivery):
        raise _invalid("on_delivery requires a callable object")
    return Config(
        settings=hidden(settings),
        properties=hidden(properties),
        messages_max=int(_number("queue.buffering.max.messages", named.get("queue.buffering.max.messages", 100_000))),
        missing_topic_s=_number("topic.metadata.propagation.max.ms", named.get("topic.metadata.propagation.max.ms", 30_000)) / 1000.0,
        only_errors=_flag("delivery.report.only.error", named.get("delivery.report.only.error", False)),
        on_delivery=on_delivery,
        logger=logger if logger is not None else log,
        **callbacks,
    )


SETTING: Final = re.compile(r"\b[a-z]+(?:_[a-z]+)*\b")
PROPERTY: Final = {kind.setting: name for name, kind in NUMBERS.items()} | {
    setting: name for name, setting in {**FLAGS, **PASSED_ON}.items()
}


def in_their_words(text: str) -> str:
    """An error's text with librdkafka's names for our settings."""
    return SETTING.sub(lambda word: PROPERTY.get(word[0], word[0]), text)


def _with_ports(servers: object) -> object:
    """The addresses, with librdkafka's port 9092 where one names none."""
    if not isinstance(servers, str):
        return servers
    named = [each.strip() for each in servers.split(",") if each.strip()]
    return ",".join(each if PORT.search(each) else f"{each}:9092" for each in named)


def _known(name: object) -> str:
    """The property's usual name. Raises KafkaException for one that is not carried over."""
    if not isinstance(name, str):
        raise _invalid(f'No such configuration property: "{name}": names are str')
    usual = SAME.get(name, name)
    if usual in NUMBERS or usual in FLAGS or usual in PASSED_ON or usual in OWN or usual in HARMLESS_NAMES:
        return usual
    instead = refusal(usual)
    if instead:
        raise _invalid(f'Configuration property "{name}" is not supported by fencepost.compat.confluent: {instead}')
    raise _invalid(f'No such configuration property: "{name}"')


def _settings(named: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that stand for one property each."""
    settings: dict[str, Any] = {"partitioner": _partitioner(named.get("partitioner", "consistent_random"))}
    for name, value in named.items():
        if name in NUMBERS and NUMBERS[name].setting:
            settings[NUMBERS[name].setting] = _number(name, value)
        elif FLAGS.get(name):
            settings[FLAGS[name]] = _flag(name, value)
        elif name in PASSED_ON and value is not None:
            settings[PASSED_ON[name]] = value
    return settings


def _number(name: str, value: object) -> float:
    """The number of a property; infinity for the value that means "without end"."""
    kind = NUMBERS[name]
    try:
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise ValueError
        number = int(value) if kind.whole else float(value)
    except (ValueError, OverflowError):
        raise _invalid(f'Invalid value for configuration property "{name}": {value!r:.60} is no number') from None
    if not kind.low <= number <= kind.high:
        raise _invalid(f'Configuration property "{name}" value {value} is outside allowed range {kind.low:.0f}..{kind.high:.0f}')
    return float("inf") if number == kind.endless and kind.setting else number


def _flag(name: str, value: object) -> bool:
    word = value.lower() if isinstance(value, str) else value
    if not isinstance(word, (bool, int, str)) or word not in BOOLEANS:
        raise _invalid(f'Expected bool value for "{name}": true or false, not {value!r:.60}')
    return BOOLEANS[word]


def _partitioner(value: object) -> object:
    if not isinstance(value, str) or value not in PARTITIONERS:
        raise _invalid(f'Invalid value for configuration property "partitioner": {value!s:.60} (one of {", ".join(PARTITIONERS)})')
    return PARTITIONERS[value]


def _callback(name: str, value: object) -> Any:
    if value is not None and not callable(value):
        raise TypeError(f"expected {name} property as a callable function")
    return value


def _fit(settings: dict[str, Any], named: Mapping[str, Any]) -> None:
    """Fill in librdkafka's defaults where ours would behave differently, and fit what librdkafka does not compare."""
    if not settings.get("transactional_id"):
        settings.pop("transaction_timeout_ms", None)  # librdkafka ignores it, too.
        if settings.get("transactional_id") is None:
            settings.pop("transactional_id", None)
    kibibytes = settings.get("buffer_memory", 1_048_576)
    settings["buffer_memory"] = int(kibibytes) * 1024
    largest = max(int(AT_LEAST["max_request_size"]), int(settings.get("max_request_size", 1_000_000)))
    settings["max_request_size"] = min(largest, settings["buffer_memory"])
    if "batch_size" in settings:
        settings["batch_size"] = min(int(settings["batch_size"]), BATCH_SIZE_MAX)
    if settings.get("compression_level") == -1:
        del settings["compression_level"]
    if settings.get("compression_type") in ("inherit", None):
        settings.pop("compression_type", None)
    if settings.get("retry_backoff_ms", 100) > settings.get("retry_backoff_max_ms", 1000):
        settings["retry_backoff_max_ms"] = settings["retry_backoff_ms"]
    settings.setdefault("reconnect_backoff_ms", 100)
    settings.setdefault("reconnect_backoff_max_ms", max(10_000, settings["reconnect_backoff_ms"]))
    if settings.get("acks") is not None and str(settings["acks"]) not in ("0", "1", "-1", "all"):
        raise _invalid(f'Invalid value for configuration property "acks": {settings["acks"]!r:.60} (0, 1, -1 or all)')
    if settings.get("enable_idempotence") is not True:
        # librdkafka takes any number without idempotence, which is its default. It is on here unless it is switched off.
        if settings.get("enable_idempotence", True):
            settings["max_in_flight"] = min(int(settings.get("max_in_flight", IN_FLIGHT_MAX)), IN_FLIGHT_MAX)
        else:
            settings.setdefault("max_in_flight", 1_000_000)
    _fit_times(settings, named)


def _fit_times(settings: dict[str, Any], named: Mapping[str, Any]) -> None:
    """A message needs the time of one request (`delivery_timeout_ms`); librdkafka asks only that it may linger."""
    delivery = settings.setdefault("delivery_timeout_ms", 300_000)
    linger = settings.get("linger_ms", 5)
    if linger >= delivery:
        if "linger.ms" in named:
            raise _invalid("`message.timeout.ms` must be greater than `linger.ms`")
        linger = settings["linger_ms"] = delivery / 2
    settings["request_timeout_ms"] = max(1, min(settings.get("request_timeout_ms", 60_000), delivery - linger))


def _add_tls(settings: dict[str, Any], named: Mapping[str, Any]) -> None:
    """Leave out the settings of TLS and SASL that the protocol does not use, as librdkafka does, and make a context where ours needs
    one."""
    protocol = str(settings.get("security_protocol", "plaintext")).lower()
    if "sasl" not in protocol:
        for name in [name for name in settings if name.startswith("sasl_")]:
            del settings[name]
    elif str(settings.get("sasl_mechanism", "GSSAPI")).upper() != "OAUTHBEARER":
        for name in ("sasl_oauth_token_provider", "sasl_oauthbearer_config"):
            settings.pop(name, None)
    if "ssl" not in protocol:
        for name in [name for name in settings if name.startswith("ssl_")]:
            del settings[name]
        return
    unchecked = not _flag("enable.ssl.certificate.verification", named.get("enable.ssl.certificate.verification", True))
    pem, ciphers = named.get("ssl.ca.pem"), named.get("ssl.cipher.suites")
    if not (unchecked or pem or ciphers):
        return
    try:
        context = ssl.create_default_context(cafile=settings.pop("ssl_cafile", None), cadata=pem)
        if ciphers:
            context.set_ciphers(ciphers)
        if certificate := settings.pop("ssl_certfile", None):
            context.load_cert_chain(certificate, settings.pop("ssl_keyfile", None), settings.pop("ssl_password", None))
    except (OSError, ValueError) as error:
        raise _invalid(f"ssl.ca.pem, ssl.ca.location, ssl.cipher.suites or the client's certificate: {error}") from None
    if str(settings.pop("ssl_check_hostname", "https")).lower() != "https" or unchecked:
        context.check_hostname = False
    if unchecked:
        context.verify_mode = ssl.CERT_NONE
    settings["ssl_context"] = context


def _invalid(text: str) -> KafkaException:
    return KafkaException(KafkaError(KafkaError._INVALID_ARG, text))
