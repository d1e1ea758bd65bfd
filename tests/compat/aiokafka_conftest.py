"""The fixtures for aiokafka's own tests, in place of those that start Kafka in a container: `aiokafka_suite` copies it beside the tests.

FENCEPOST_KAFKA_BOOTSTRAP names a Kafka to use. Without it the stub serves: one cluster for all files, and one with logins and permissions
for test_sasl.py. The stub has one listener for clients, so the one test that writes with TLS and reads without it is left out.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import os
import unittest
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from fencepost import BrokerStub, Sasl

# Before the patch: what this helper sends always goes through aiokafka's own producer.
importlib.import_module("tests._testutil")
importlib.import_module("aiokafka_patch")

KAFKA_VERSION = "4.3.0"
ADMIN = "admin"
USERS = {"test": "test", "test2": "test2", ADMIN: ADMIN}
BOOTSTRAP = os.environ.get("FENCEPOST_KAFKA_BOOTSTRAP")


class Acls:
    """The permissions that a test sets, through an administrator's client."""

    def __init__(self, bootstrap: str) -> None:
        self._admin = AdminClient(
            {
                "bootstrap.servers": bootstrap,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": ADMIN,
                "sasl.password": ADMIN,
            }
        )
        self._made: list[Any] = []

    def list_acl(self, principal: str | None = None) -> None:
        """Nothing looks at the list."""

    def add_acl(self, *, operation: str, **given: Any) -> None:
        allowed = given.pop("allow_principal", None)
        user = allowed or given.pop("deny_principal")
        kind, name = next((kind, name) for kind, name in given.items() if name)
        binding = AclBinding(
            {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP, "cluster": ResourceType.BROKER}.get(
                kind, ResourceType.TRANSACTIONAL_ID
            ),
            "kafka-cluster" if kind == "cluster" else name,
            ResourcePatternType.LITERAL,
            f"User:{user}",
            "*",
            AclOperation[operation.upper()],
            AclPermissionType.ALLOW if allowed else AclPermissionType.DENY,
        )
        for done in self._admin.create_acls([binding]).values():
            done.result(timeout=30)
        self._made.append(binding)

    def cleanup(self) -> None:
        names = ("restype", "name", "resource_pattern_type", "principal", "host", "operation", "permission_type")
        filters = [AclBindingFilter(*(getattr(each, name) for name in names)) for each in self._made]
        self._made.clear()
        for done in (self._admin.delete_acls(filters) if filters else {}).values():
            done.result(timeout=30)


class NoKerberos:
    """Kerberos needs a server of its own."""

    def kinit(self, principal: str) -> None:
        raise unittest.SkipTest("no Kerberos here")

    def kdestroy(self) -> None:
        """Nothing was set up."""


class Users:
    """The users are there from the start."""

    def add_scram_user(self, username: str, password: str) -> None:
        assert USERS[username] == password


@pytest.fixture(scope="session")
def plain_hosts() -> Iterator[str]:
    if BOOTSTRAP:
        yield BOOTSTRAP
        return
    with BrokerStub(default_partitions=2) as stub:
        yield stub.bootstrap


@pytest.fixture(scope="session")
def sasl_hosts() -> Iterator[str]:
    config = {"allow.everyone.if.no.acl.found": "true"}
    sasl = Sasl(users=USERS, mechanisms=["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
    with BrokerStub(default_partitions=2, sasl=sasl, acls=[], super_users=[ADMIN], config=config) as stub:
        yield stub.bootstrap


@pytest.fixture(scope="class")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield loop
    if not loop.is_closed():
        loop.call_soon(loop.stop)
        loop.run_forever()
        loop.close()
    gc.collect()
    asyncio.set_event_loop(None)


@pytest.fixture(autouse=True)
def collect_garbage() -> Iterator[None]:
    yield
    gc.collect()


@pytest.fixture(scope="class")
def setup_test_class_serverless(request: pytest.FixtureRequest, loop: asyncio.AbstractEventLoop) -> None:
    request.cls.loop = loop


@pytest.fixture(scope="class")
def setup_test_class(request: pytest.FixtureRequest, loop: asyncio.AbstractEventLoop) -> None:
    case = request.cls
    case.loop, case.kafka_version = loop, KAFKA_VERSION
    case.kerberos_utils, case.kafka_config = NoKerberos(), Users()
    if case.__module__.endswith("test_sasl"):
        hosts = request.getfixturevalue("sasl_hosts")
        case.acl_manager = Acls(hosts)
        case.kafka_sasl_plain_port = int(hosts.rpartition(":")[2])
    else:
        hosts = request.getfixturevalue("plain_hosts")
    case.hosts = hosts.split(",")
    host, _, port = case.hosts[0].rpartition(":")
    case.kafka_host, case.kafka_port = host, int(port)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = [each for each in items if each.get_closest_marker("ssl") is None]
