"""The runner of other projects' tests: it exchanges the producer, starts the stub, and says which tests pass on one side only."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SUITE = Path(__file__).with_name("aiokafka_suite.py")

HELPER = """
from aiokafka.producer import AIOKafkaProducer

HELPER = AIOKafkaProducer.__module__
"""
TESTS = """
import unittest

import pytest

from aiokafka.producer import AIOKafkaProducer

from ._testutil import HELPER


@pytest.mark.usefixtures("setup_test_class")
class TestProducer(unittest.TestCase):
    def test_sends(self):
        async def story():
            async with AIOKafkaProducer(bootstrap_servers=self.hosts) as producer:
                assert (await producer.send_and_wait("t", b"v", partition=1)).partition == 1

        self.loop.run_until_complete(story())

    def test_the_helper_is_theirs(self):
        assert HELPER.startswith("aiokafka.")

    def test_ours(self):
        assert AIOKafkaProducer.__module__.startswith("fencepost."), "not ours"

    def test_theirs(self):
        assert AIOKafkaProducer.__module__.startswith("aiokafka."), "not theirs"
"""


@pytest.mark.timeout(240)
def test_it_compares_both_producers(tmp_path: Path) -> None:
    """On a checkout with one file of tests: each side passes three, and the difference is told with its reason."""
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "__init__.py").write_text("")
    (tests / "_testutil.py").write_text(HELPER)
    (tests / "test_producer.py").write_text(TESTS)
    for name in ("transactional_producer", "transactional_consumer", "sasl", "consumer", "admin"):
        (tests / f"test_{name}.py").write_text("")
    ran = subprocess.run(
        [sys.executable, "-P", str(SUITE), "--aiokafka", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
    )
    assert ran.returncode == 0, ran.stderr
    lines = [line.split() for line in ran.stdout.splitlines()]
    assert ["test_producer", "3", "1", "0", "3", "1", "0"] in lines
    assert ["all", "3", "1", "0", "3", "1", "0"] in lines
    told = ran.stdout.split("pass only with")
    assert "test_theirs: AssertionError: not theirs" in told[1]
    assert "test_ours: AssertionError: not ours" in told[2]
