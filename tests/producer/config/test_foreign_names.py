"""Settings of other clients: the error for each says what to do here instead."""

from __future__ import annotations

import ctypes
import inspect
import re
from pathlib import Path

import aiokafka
import confluent_kafka
import kafka
import pytest

from fencepost.producer import ConfigError, Settings
from fencepost.producer.config.foreign_names import ENDLESS, INSTEAD, KIBIBYTES, SAME_AS, instead_of
from fencepost.producer.config.names import DOTTED, setting_name
from tests.producer.config.reading import refusal


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("message.timeout.ms", 5, "use 'delivery_timeout_ms', which does the same here"),
        ("message_timeout_ms", 5, "use 'delivery_timeout_ms', which does the same here"),
        ("message.timeout.ms", "0", "use 'delivery_timeout_ms': 0 there is float('inf') here"),
        ("topic.metadata.refresh.interval.ms", -1, "use 'metadata_max_age_ms': -1 there is float('inf') here"),
        ("queue.buffering.max.ms", 5, "use 'linger_ms'"),
        ("queue.buffering.max.kbytes", 1_048_576, "use 'buffer_memory', which counts bytes: 1048576 there is 1073741824 here"),
        ("queue.buffering.max.kbytes", "64", "64 there is 65536 here"),
        ("queue.buffering.max.kbytes", "much", "1 there is 1024 here"),
        ("queue.buffering.max.kbytes", 10**20, "1 there is 1024 here"),
        ("queue.buffering.max.kbytes", None, "1 there is 1024 here"),
        ("queue.buffering.max.messages", 1, "no setting limits how many records wait; 'buffer_memory' limits their bytes"),
        ("batch.num.messages", 1, "no setting limits how many records a batch has; 'batch_size' limits its bytes"),
        ("max_batch_size", 1, "use 'batch_size'"),
        ("stats_cb", print, "use 'on_statistics'"),
        ("error_cb", print, "each record's future has its error"),
        ("on_delivery", print, "give it to send("),
        ("dr_cb", print, "give it to send("),
        ("debug", "all", "Python's logging"),
        ("message.send.max.retries", 1, "use 'retries'"),
        ("socket.timeout.ms", 1, "use 'request_timeout_ms'"),
        ("metadata.broker.list", "a:1", "use 'bootstrap_servers'"),
        ("client.rack", "r", "a producer writes to the leaders"),
        ("enable.metrics.push", True, "producer.stats() has the numbers"),
        ("api_version", (3, 0), "the producer asks each broker for its versions"),
        ("ssl.ca.pem", "", "use 'ssl_cafile', the name of a PEM file"),
        ("ssl.certificate.pem", "", "use 'ssl_certfile' and 'ssl_keyfile', the names of PEM files"),
        ("ssl_ciphers", "", "with set_ciphers("),
        ("ssl.truststore.password", "", "PEM files, no stores"),
        ("enable.ssl.certificate.verification", False, "use 'ssl_context'"),
        ("sasl.kerberos.service.name", "kafka", "Kerberos is not supported"),
        ("sasl_oauthbearer_token_endpoint_url", "", "use 'sasl_oauth_token_provider'"),
        ("sasl.jaas.config", "", "JAAS is Java's"),
        ("transactional_id", "a", "TransactionalProducer(transactional_id=...) has it"),
        ("transaction.timeout.ms", 1, "TransactionalProducer(transactional_id=...) has it"),
        ("group_id", "g", "a producer has no group"),
        ("auto.offset.reset", "latest", "a consumer's setting"),
    ],
)
def test_a_setting_of_another_client_is_translated(key: str, value: object, words: str) -> None:
    """The error names the setting that does the same here, with its unit, or says why there is none."""
    said = refusal({key: value})
    assert f"unknown setting {key!r}: " in said
    assert words in said


def test_one_error_names_every_unknown_setting() -> None:
    """A user learns from one error about all settings of another client."""
    said = refusal({"linger.ms": 5, "debug": "all", "lingr_ms": 5, "message.timeout.ms": 5, "acks": "all"})
    assert [said.count(word) for word in ("unknown setting", "'debug'", "'lingr_ms'; did you mean", "'message.timeout.ms'")] == [3, 1, 1, 1]


def test_an_unknown_setting_is_reported_before_a_wrong_value() -> None:
    """Every name is checked before any value is read."""
    said = refusal({"bootstrap_servers": "x", "acks": 7, "liger_ms": 1})
    assert "unknown setting 'liger_ms'; did you mean 'linger_ms'" in said
    assert "acks" not in said


def test_translations_lead_to_settings() -> None:
    """Every setting that an error recommends exists, and no name in the tables is one of this producer's."""
    recommended = {*SAME_AS.values(), *KIBIBYTES.values(), *re.findall(r"'(\w+_\w+)'", " ".join(INSTEAD))} - {"round_robin"}
    assert recommended <= set(Settings.__struct_fields__)
    foreign = [*SAME_AS, *KIBIBYTES, *" ".join(INSTEAD.values()).split()]
    assert not set(foreign) & DOTTED.keys()
    assert len(foreign) == len(set(foreign))
    assert ENDLESS.keys() <= SAME_AS.keys()


def librdkafkas(directory: Path) -> list[str]:
    """The name of each setting that the library in confluent-kafka's package has."""
    (file,) = Path(confluent_kafka.__file__).parents[1].glob("confluent_kafka.libs/librdkafka*")
    libc, printed = ctypes.CDLL(None), directory / "settings"
    libc.fopen.restype = ctypes.c_void_p
    opened = ctypes.c_void_p(libc.fopen(bytes(printed), b"w"))
    ctypes.CDLL(str(file)).rd_kafka_conf_properties_show(opened)
    libc.fclose(opened)
    return re.findall(r"^(\S+) +\| +[CP*] +\|", printed.read_text(), re.MULTILINE)


def test_no_setting_of_another_client_is_unheard_of(tmp_path: Path) -> None:
    """Each setting of librdkafka, kafka-python and aiokafka is one here, too, or the error says what to do instead. docs/configuration.md
    does the same for Java's."""
    names = librdkafkas(tmp_path)
    assert len(names) > 150
    names += [*kafka.KafkaProducer.DEFAULT_CONFIG, *inspect.signature(aiokafka.AIOKafkaProducer).parameters]
    assert [name for name in names if not is_setting(name) and instead_of(name.replace("_", ".")) is None] == []


def is_setting(name: str) -> bool:
    try:
        setting_name(name)
    except ConfigError:
        return False
    return True
