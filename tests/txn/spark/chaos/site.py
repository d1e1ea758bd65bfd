"""The brokers of the chaos tests: the stub in its own process, or Apache Kafka, each with transaction version 1 or 2."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from tests.conformance.fixtures import require_kafka
from tests.conformance.kafka import KafkaCluster
from tests.conformance.survival.reader import Admin

STUB = """
import sys
from fencepost.broker_stub import BrokerStub, Control
with BrokerStub(transaction_version=int(sys.argv[1]), journal=1000) as stub, Control(stub) as control:
    print(stub.bootstrap, control.url, flush=True)
    sys.stdin.read()
"""
LEVELS = {1: 0, 2: 2}
"""Of the feature transaction.version, for the two versions of transactions that there are (KIP-890)."""
END_S = 20.0


class Site(Struct, frozen=True):
    """`control`: the address at which the stub returns its journal; None for Kafka."""

    name: str
    bootstrap: str
    control: str | None = None

    def topic(self, name: str, partitions: int) -> str:
        """Create a topic."""
        Admin(self.bootstrap).create(name, partitions=partitions)
        return name

    def journal(self, api: str) -> list[dict[str, Any]]:
        """The stub's exchanges of an API."""
        assert self.control is not None
        with urllib.request.urlopen(f"{self.control}/journal?api={api}&limit=1000", timeout=END_S) as answer:
            told: dict[str, list[dict[str, Any]]] = json.load(answer)
        return told["exchanges"]


@contextmanager
def stub_site(transactions: int) -> Iterator[Site]:
    command = [sys.executable, "-c", STUB, str(LEVELS[transactions])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            bootstrap, url = process.stdout.readline().split()
            yield Site(f"stub TV{transactions}", bootstrap, url)
        finally:
            process.kill()
            process.wait(END_S)


@contextmanager
def kafka_site(transactions: int) -> Iterator[Site]:
    require_kafka()
    with KafkaCluster(features={"transaction.version": LEVELS[transactions]}) as cluster:
        yield Site(f"Kafka TV{transactions}", cluster.bootstrap)
