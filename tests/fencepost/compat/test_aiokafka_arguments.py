"""The constructor of `fencepost.compat.aiokafka.AIOKafkaProducer`: aiokafka's arguments, what becomes of them, and what is refused."""

from __future__ import annotations

import asyncio
import inspect
import ssl
from pathlib import Path
from typing import Any

import aiokafka
import pytest
from aiokafka.producer.producer import _missing

from fencepost.broker_stub import BrokerStub, Sasl, Tls
from fencepost.compat.aiokafka import AIOKafkaProducer
from fencepost.producer.config.settings import Partitioner, Settings
from tests.certificates import Authority, authority
from tests.fencepost.compat.aiokafka_producers import made
from tests.producer.stub_helpers import run_story

__all__ = ["authority"]

METHODS = (
    "start",
    "stop",
    "flush",
    "partitions_for",
    "send",
    "send_and_wait",
    "create_batch",
    "send_batch",
    "begin_transaction",
    "commit_transaction",
    "abort_transaction",
    "transaction",
    "send_offsets_to_transaction",
)


def settings(**arguments: Any) -> Settings:
    """What fencepost's producer is given."""
    return AIOKafkaProducer(**arguments)._settings


def test_the_arguments_are_aiokafkas() -> None:
    """Each of them, keyword-only, in the same order, and with the same default but for acks, enable_idempotence and partitioner, whose
    None means fencepost's."""
    ours = inspect.signature(AIOKafkaProducer).parameters
    theirs = inspect.signature(aiokafka.AIOKafkaProducer).parameters
    assert list(ours) == list(theirs)
    assert all(each.kind is inspect.Parameter.KEYWORD_ONLY for each in ours.values())
    assert {name for name in ours if ours[name].default != theirs[name].default} == {"acks", "enable_idempotence", "partitioner"}


@pytest.mark.parametrize("method", METHODS)
def test_the_methods_take_aiokafkas_arguments(method: str) -> None:
    """By the same names, in the same order, with the same defaults."""
    ours, theirs = (inspect.signature(getattr(of, method)).parameters for of in (AIOKafkaProducer, aiokafka.AIOKafkaProducer))
    assert [(each.name, each.kind, each.default) for each in ours.values()] == [
        (each.name, each.kind, each.default) for each in theirs.values()
    ]
    assert inspect.iscoroutinefunction(getattr(AIOKafkaProducer, method)) is inspect.iscoroutinefunction(
        getattr(aiokafka.AIOKafkaProducer, method)
    )


def test_it_has_every_public_method_of_aiokafkas() -> None:
    """None is missing."""
    names = [name for name in vars(aiokafka.AIOKafkaProducer) if not name.startswith("_")]
    assert len(names) > 12
    assert [name for name in names if not hasattr(AIOKafkaProducer, name)] == []


@pytest.mark.parametrize(
    ("arguments", "acks", "idempotent"),
    [
        ({}, -1, True),
        ({"acks": "all"}, -1, True),
        ({"acks": -1}, -1, True),
        ({"acks": _missing}, -1, True),
        ({"acks": 1}, 1, False),
        ({"acks": 0}, 0, False),
        ({"enable_idempotence": True}, -1, True),
        ({"enable_idempotence": False}, -1, False),
        ({"enable_idempotence": False, "acks": _missing}, -1, False),
        ({"enable_idempotence": False, "acks": "all"}, -1, False),
        ({"enable_idempotence": False, "acks": 1}, 1, False),
        ({"transactional_id": "a"}, -1, True),
        ({"transactional_id": "a", "enable_idempotence": False}, -1, True),
    ],
)
def test_it_is_safe_unless_the_caller_says_otherwise(arguments: dict[str, Any], acks: int, idempotent: bool) -> None:
    """Unset is fencepost's default, acks=all with idempotence. What the caller sets is honoured."""
    found = settings(**arguments)
    assert (found.acks, found.enable_idempotence) == (acks, idempotent)


def test_the_defaults() -> None:
    """aiokafka's, where fencepost has such a setting."""
    found = settings()
    assert found.bootstrap_servers == ("localhost:9092",)
    assert found.client_id.startswith("aiokafka-producer-")
    assert settings().client_id != found.client_id
    assert (found.linger_ms, found.batch_size, found.max_request_size) == (0, 16_384, 1_048_576)
    assert (found.request_timeout_ms, found.max_block_ms, found.delivery_timeout_ms) == (40_000, 40_000, 80_000)
    assert (found.retry_backoff_ms, found.metadata_max_age_ms, found.connections_max_idle_ms) == (100, 300_000, 540_000)
    assert (found.compression_type.name, found.partitioner) == ("NONE", Partitioner.DEFAULT)


def test_what_is_given_arrives() -> None:
    """Each argument in its setting."""

    def place(key: object, everywhere: list[int], available: list[int]) -> int:
        return 0

    found = settings(
        bootstrap_servers=["a", "b:1", "[::1]", "::1", "[::1]:7"],
        client_id="me",
        metadata_max_age_ms=1_000,
        request_timeout_ms=5_000,
        compression_type="gzip",
        max_batch_size=1_000,
        partitioner=place,
        max_request_size=64 << 20,
        linger_ms=7,
        retry_backoff_ms=2_000,
        connections_max_idle_ms=None,
    )
    assert found.bootstrap_servers == ("a:9092", "b:1", "[::1]:9092", "[::1]:9092", "[::1]:7")
    assert (found.client_id, found.metadata_max_age_ms, found.connections_max_idle_ms) == ("me", 1_000, float("inf"))
    assert (found.linger_ms, found.request_timeout_ms, found.delivery_timeout_ms, found.max_block_ms) == (7, 5_000, 10_007, 5_000)
    assert (found.batch_size, found.max_request_size, found.buffer_memory) == (1_000, 64 << 20, 64 << 20)
    assert (found.compression_type.name, found.retry_backoff_ms, found.retry_backoff_max_ms) == ("GZIP", 2_000, 2_000)
    assert found.partitioner is place


PASSWORD = {"sasl_plain_username": "u", "sasl_plain_password": "p"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"acks": 122}, "acks=122"),
        ({"acks": True}, "acks=True"),
        ({"acks": 1, "enable_idempotence": True}, "acks=1: enable_idempotence=True needs"),
        ({"acks": 0, "transactional_id": "a"}, "acks=0: transactional_id needs"),
        ({"transactional_id": ""}, "transactional_id=''"),
        ({"transactional_id": "a", "transaction_timeout_ms": 0}, "transaction_timeout_ms=0"),
        ({"compression_type": "my_custom"}, "compression_type='my_custom'"),
        ({"bootstrap_servers": 5}, "bootstrap_servers=5"),
        ({"bootstrap_servers": []}, "bootstrap_servers"),
        ({"bootstrap_servers": ["a:b:c:"]}, "a:b:c:"),
        ({"client_id": 5}, "client_id=5"),
        ({"linger_ms": "5"}, "linger_ms='5'"),
        ({"linger_ms": -1}, "linger_ms=-1"),
        ({"request_timeout_ms": 0}, "request_timeout_ms=0"),
        ({"max_batch_size": 2 << 20}, "max_batch_size=2097152: from 0 to 1048576"),
        ({"max_request_size": "1000"}, "max_request_size='1000'"),
        ({"partitioner": "murmur2"}, "partitioner='murmur2'"),
        ({"security_protocol": "SOME"}, "security_protocol='SOME'"),
        ({"security_protocol": "SSL"}, "needs ssl_context"),
        ({"security_protocol": "SASL_PLAINTEXT"}, "needs sasl_plain_username"),
        ({"security_protocol": "SASL_PLAINTEXT", "sasl_plain_username": "u"}, "needs sasl_plain_username"),
        ({"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "GSSAPI"}, "Kerberos is not supported; use PLAIN"),
        ({"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "DIGEST-MD5", **PASSWORD}, "DIGEST-MD5"),
        ({"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}, "sasl_oauth_token_provider=None"),
    ],
)
def test_what_is_wrong_is_refused_by_name(arguments: dict[str, Any], words: str) -> None:
    """ValueError, as in aiokafka, with the argument, its value and what is allowed."""
    with pytest.raises(ValueError) as refused:
        AIOKafkaProducer(**arguments)
    assert words in str(refused.value)


def test_deprecated_arguments_warn() -> None:
    """loop and api_version, as in aiokafka."""
    loop = asyncio.new_event_loop()
    try:
        for deprecated in ({"loop": loop}, {"api_version": "auto"}):
            with pytest.warns(DeprecationWarning, match=next(iter(deprecated))):
                AIOKafkaProducer(**deprecated)
    finally:
        loop.close()


def test_security_that_the_protocol_does_not_use_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    """As in aiokafka: frameworks give every argument. A TLS context that is not used is logged, though."""
    found = settings(sasl_mechanism="SCRAM-SHA-256", sasl_kerberos_service_name="k", **PASSWORD)
    assert (found.sasl_mechanism, found.sasl_username) == (None, None)
    assert caplog.records == []
    settings(ssl_context=ssl.create_default_context())
    assert ["ssl_context is ignored" in each.getMessage() for each in caplog.records] == [True]


class Provider(aiokafka.abc.AbstractTokenProvider):  # type: ignore[misc]  # aiokafka publishes no types
    """A token provider as aiokafka's users write it."""

    async def token(self) -> str:
        return "a.b.c"

    def extensions(self) -> dict[str, str]:
        return {"traceId": "5"}


@pytest.mark.parametrize(
    ("sasl", "arguments"),
    [
        (Sasl(users={"u": "p"}, mechanisms=["PLAIN"]), {"sasl_mechanism": "PLAIN", **PASSWORD}),
        (Sasl(users={"u": "p"}, mechanisms=["SCRAM-SHA-512"]), {"sasl_mechanism": "SCRAM-SHA-512", **PASSWORD}),
        (Sasl(oauth=lambda token: {"a.b.c": "u"}[token]), {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": Provider()}),
    ],
    ids=["PLAIN", "SCRAM", "OAUTHBEARER"],
)
def test_it_logs_in(sasl: Sasl, arguments: dict[str, Any]) -> None:
    """With each mechanism that aiokafka has, but Kerberos."""

    async def story() -> None:
        async with made(stub, security_protocol="SASL_PLAINTEXT", **arguments) as producer:
            assert (await producer.send_and_wait("t", b"v")).offset == 0

    with BrokerStub(sasl=sasl) as stub:
        run_story(story())


@pytest.mark.parametrize("login", [False, True], ids=["SSL", "SASL_SSL"])
def test_it_speaks_tls(authority: Authority, login: bool) -> None:
    """With the caller's context. A context that does not trust the broker is refused at the start, as a connection error."""
    server = authority.issue("127.0.0.1", "localhost")
    arguments: dict[str, Any] = {"security_protocol": "SASL_SSL" if login else "SSL", **(PASSWORD if login else {})}

    async def story() -> None:
        async with made(stub, ssl_context=ssl.create_default_context(cafile=authority.cafile), **arguments) as producer:
            assert (await producer.send_and_wait("t", b"v")).offset == 0
        with pytest.raises(aiokafka.errors.KafkaConnectionError):
            await made(stub, ssl_context=ssl.create_default_context(), **arguments).start()

    tls = Tls(Path(server.certfile), Path(server.keyfile))
    with BrokerStub(tls=tls, sasl=Sasl(users={"u": "p"}, mechanisms=["PLAIN"]) if login else None) as stub:
        run_story(story())


def test_the_second_server_may_answer() -> None:
    """As in aiokafka, `start` tries each server of the list."""

    async def story() -> None:
        servers = ["127.0.0.1:1", stub.bootstrap, "127.0.0.1:2"]
        async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
            assert (await producer.send_and_wait("t", b"v")).offset == 0

    with BrokerStub() as stub:
        run_story(story())
