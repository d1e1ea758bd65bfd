"""Properties of librdkafka: which become our settings, which have no effect, and which are refused."""

from __future__ import annotations

import re
import ssl
import sys
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Producer as TheirProducer

from fencepost.compat.confluent import Producer
from fencepost.compat.confluent.config import read_config
from fencepost.compat.confluent.config_names import FLAGS, HARMLESS_NAMES, NUMBERS, OWN, PASSED_ON, REFUSED_NAMES, SAME
from tests.gil import needs_gil

NOWHERE = "127.0.0.1:1"


def settings(**properties: Any) -> dict[str, Any]:
    """Our settings for these properties, written with underscores."""
    return read_config({"bootstrap.servers": NOWHERE, **{name.replace("_", "."): value for name, value in properties.items()}}, {}).settings


def test_the_defaults_are_librdkafkas() -> None:
    """Where our default would behave differently, librdkafka's counts. Idempotence, which only adds, is ours."""
    assert settings() == {
        "bootstrap_servers": NOWHERE,
        "client_id": "rdkafka",
        "partitioner": "crc32",
        "buffer_memory": 1 << 30,
        "max_request_size": 1_000_000,
        "max_in_flight": 5,
        "delivery_timeout_ms": 300_000,
        "request_timeout_ms": 60_000,
        "reconnect_backoff_ms": 100,
        "reconnect_backoff_max_ms": 10_000,
    }
    config = read_config({}, {})
    assert (config.messages_max, config.missing_topic_s, config.only_errors) == (100_000, 30.0, False)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"linger_ms": "0.5"}, {"linger_ms": 0.5}),
        ({"queue_buffering_max_ms": 7}, {"linger_ms": 7}),
        ({"queue_buffering_max_kbytes": 64}, {"buffer_memory": 65_536, "max_request_size": 65_536}),
        ({"batch_size": 100_000_000}, {"batch_size": 1_048_576}),
        ({"message_max_bytes": 1000}, {"max_request_size": 1024}),
        ({"max_in_flight": 1_000_000}, {"max_in_flight": 5}),
        ({"max_in_flight": 100, "enable_idempotence": "false"}, {"max_in_flight": 100, "enable_idempotence": False}),
        ({"message_timeout_ms": 0}, {"delivery_timeout_ms": float("inf"), "request_timeout_ms": 60_000}),
        ({"delivery_timeout_ms": 1000}, {"delivery_timeout_ms": 1000, "request_timeout_ms": 995}),
        ({"message_timeout_ms": 4}, {"delivery_timeout_ms": 4, "linger_ms": 2, "request_timeout_ms": 2}),
        ({"topic_metadata_refresh_interval_ms": -1}, {"metadata_max_age_ms": float("inf")}),
        ({"connections_max_idle_ms": 0}, {"connections_max_idle_ms": float("inf")}),
        ({"retry_backoff_ms": 5000}, {"retry_backoff_ms": 5000, "retry_backoff_max_ms": 5000}),
        ({"reconnect_backoff_ms": 20_000}, {"reconnect_backoff_max_ms": 20_000}),
        ({"compression_codec": "lz4", "compression_level": -1}, {"compression_type": "lz4"}),
        ({"compression_type": "zstd", "compression_level": 3}, {"compression_type": "zstd", "compression_level": 3}),
        ({"request_required_acks": 1}, {"acks": 1}),
        ({"partitioner": "murmur2_random"}, {"partitioner": "default"}),
        ({"transactional_id": "x", "transaction_timeout_ms": 5000}, {"transactional_id": "x", "transaction_timeout_ms": 5000}),
        ({"transaction_timeout_ms": 5000, "transactional_id": None}, {}),
        ({"bootstrap_servers": "a, b:1,[::1],[::2]:5"}, {"bootstrap_servers": "a:9092,b:1,[::1]:9092,[::2]:5"}),
        ({"ssl_ca_location": "/no/file", "sasl_username": "u", "sasl_password": "p"}, {}),
        ({"default_topic_config": {"message.timeout.ms": 900}, "message_timeout_ms": 5}, {"delivery_timeout_ms": 900}),
    ],
    ids=str,
)
def test_what_becomes_of_a_property(given: dict[str, Any], expected: dict[str, Any]) -> None:
    """Each property sets ours, in our unit. What protocol or defaults leave unused has no effect, as there."""
    made = settings(**given)
    assert {name: made.get(name) for name in expected} == expected
    if not expected:
        assert made == settings()


def test_tls_that_needs_a_context() -> None:
    """A CA in memory, ciphers and a certificate that is not verified make an SSLContext."""
    made = settings(security_protocol="ssl", enable_ssl_certificate_verification="false")
    context = made["ssl_context"]
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)
    with pytest.raises(KafkaException, match=r"ssl\.ca\.pem"):
        settings(security_protocol="ssl", ssl_ca_pem="no certificate")
    plain = settings(security_protocol="ssl", ssl_ca_location="/ca.pem", ssl_endpoint_identification_algorithm="none")
    assert (plain["ssl_cafile"], plain["ssl_check_hostname"]) == ("/ca.pem", "none")


@needs_gil
@pytest.mark.parametrize(
    "given",
    [
        {"nope": 1},
        {5: 5},
        {"linger_ms": 5},
        {"buffer.memory": 5},
        {"linger.ms": "abc"},
        {"linger.ms": None},
        {"linger.ms": -1},
        {"linger.ms": True},
        {"batch.size": 1.5e300},
        {"partitioner": "murmur"},
        {"partitioner": len},
        {"compression.type": "foo"},
        {"acks": 7},
        {"acks": "some"},
        {"enable.idempotence": "perhaps"},
        {"enable.idempotence": True, "acks": 1},
        {"message.timeout.ms": 10, "linger.ms": 50},
        {"transactional.id": "a", "enable.idempotence": False},
        {"transactional.id": ""},
        {"on_delivery": 7},
        {"bootstrap.servers": "a:b:c"},
        {"bootstrap.servers": 5},
        {"security.protocol": "telnet"},
        {"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN"},
        {"security.protocol": "sasl_plaintext"},
        {"security.protocol": "ssl", "ssl.ca.location": "/no/such/file"},
        {"sasl.kerberos.principal": "x"},
        {"plugin.library.paths": "x"},
    ],
    ids=str,
)
def test_what_is_refused(given: dict[Any, Any]) -> None:
    """A property that does not exist, has a wrong value or is not carried over is a KafkaException with _INVALID_ARG, which names it."""
    with pytest.raises(KafkaException) as raised:
        Producer({"bootstrap.servers": NOWHERE, **given})
    error = raised.value.args[0]
    assert error.code() == KafkaError._INVALID_ARG
    assert any(str(name) in error.str() for name in given), error.str()


@needs_gil
def test_no_configuration() -> None:
    """Without any argument, or with one that is no dict, `Producer` raises TypeError, as it does for a callback that cannot be called."""
    for arguments in ((), (5,), ("bootstrap.servers",)):
        with pytest.raises(TypeError, match="expected configuration dict"):
            Producer(*arguments)
    for name in ("error_cb", "stats_cb", "throttle_cb"):
        with pytest.raises(TypeError, match=f"expected {name} property as a callable function"):
            Producer({name: 5})


@needs_gil
def test_a_configuration_in_three_forms() -> None:
    """The properties may be a dict, keyword arguments or both, and the logger a property or an argument."""
    import logging

    logger = logging.getLogger("test-compat")
    for producer in (
        Producer({"client.id": "x", "logger": logger}),
        Producer({"client.id": "y"}, logger=logger, **{"client.id": "x"}),
        Producer(**{"client.id": "x", "logger": logger}),
    ):
        with producer:
            assert producer._config.settings["client_id"] == "x"
            assert producer._config.logger is logger
            assert producer._config.properties == {"client.id": "x"}


def test_each_refusal_says_what_to_do() -> None:
    """Every property of the table of refusals is refused with its own words."""
    for name, reason in REFUSED_NAMES.items():
        with pytest.raises(KafkaException, match=re.escape(reason)):
            read_config({name.replace("*", "x"): "1"}, {})


def test_every_property_of_librdkafka_has_a_row() -> None:
    """Each property that the installed librdkafka takes for a producer stands in a table, and none stands in two."""
    tables = (NUMBERS, FLAGS, PASSED_ON, OWN, HARMLESS_NAMES, REFUSED_NAMES)
    rows = [name for table in tables for name in table] + list(SAME)
    assert len(rows) == len(set(rows))
    beginnings = tuple(name[:-1] for name in REFUSED_NAMES if name.endswith("*"))
    missing = [name for name in properties_of_librdkafka() if name not in rows and not name.startswith(beginnings)]
    assert missing == []


def properties_of_librdkafka() -> list[str]:
    """The names that librdkafka's library contains and its producer does not call unknown."""
    from importlib.util import find_spec
    from pathlib import Path

    found = find_spec("confluent_kafka")
    assert found is not None
    assert found.origin is not None
    directory = Path(found.origin).parent
    libraries = [*directory.glob("cimpl*.so"), *directory.parent.glob("confluent_kafka.libs/librdkafka*")]
    texts = {
        text.decode() for library in libraries for text in re.findall(rb"(?<=\x00)[a-z]+(?:[._][a-z_]+)+(?=\x00)", library.read_bytes())
    }
    return sorted(text for text in texts if "." in text and is_known(text))


def is_known(name: str) -> bool:
    try:
        TheirProducer({name: "\x01"}).close()
    except KafkaException as error:
        return "No such configuration property" not in str(error)
    except (AttributeError, TypeError):  # confluent-kafka reads the value itself
        return True
    return True


def test_without_the_gil(monkeypatch: pytest.MonkeyPatch) -> None:
    """The count of messages would be wrong there, so the constructor says what to do."""
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    with pytest.raises(RuntimeError, match=r"GIL, which is off: start Python with PYTHON_GIL=1, or use fencepost\.Producer"):
        Producer({"bootstrap.servers": "localhost:9092"})
