"""The error classes of KIP-1050, in Kafka's own error table and in this project's."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fencepost.producer.core.error_classes import KINDS
from fencepost.producer.wire.codes import error_name
from tests.conformance.fixtures import require_kafka
from tests.conformance.java_tools import compiles
from tests.conformance.kafka_home import find_java, kafka_home


def test_every_code_is_of_the_class_that_kafka_gives_it() -> None:
    """A Java program reads `Errors` of Kafka's client: it has the same codes, names and classes."""
    require_kafka()
    java = find_java()
    if not compiles(java):
        pytest.skip(f"{java} has no compiler, which a Java program in one source file needs")
    source = Path(__file__).with_name("ErrorKinds.java")
    said = subprocess.run(
        [java, "-cp", f"{kafka_home()}/libs/*", source], capture_output=True, text=True, timeout=120, check=True
    ).stdout.splitlines()
    theirs = {int(code): (name, kind) for code, name, kind in map(str.split, said)}
    assert theirs == {code: (error_name(code), kind.name) for code, kind in KINDS.items()}
