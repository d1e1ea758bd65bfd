"""A report of librdkafka that comes again and again is logged once in half a minute."""

from __future__ import annotations

import logging
import re
import time

import pytest

from fencepost import Pipeline
from fencepost.txn.pipeline.repeats import SAME_S, Repeats


def test_the_same_text_is_new_after_a_while() -> None:
    """Other texts are new at once. The milliseconds that librdkafka adds make no other text."""
    repeats = Repeats()
    refused = "Connection refused (after {}ms in state CONNECT)"
    assert repeats.is_new(refused.format(0), 100.0)
    assert not repeats.is_new(refused.format(7), 100.0 + SAME_S - 1)
    assert repeats.is_new("1/1 brokers are down", 100.0 + SAME_S - 1)
    assert repeats.is_new(refused.format(0), 100.0 + SAME_S)


def test_a_broker_that_is_away_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """librdkafka tries many times a second to connect. Each of its lines is in the log once."""
    pipeline = Pipeline(bootstrap_servers="127.0.0.1:9", source="orders", group="billing", sink="invoices", transform=lambda message: None)
    with pipeline, caplog.at_level(logging.WARNING), pytest.raises(TimeoutError):
        pipeline.run(timeout=2)
    lines = [re.sub(r"\d+ms", "", each.getMessage()) for each in caplog.records if each.name.startswith("fencepost.pipeline")]
    assert any("Connection refused" in line for line in lines)
    assert len(lines) == len(set(lines))


def test_what_a_program_asked_for_is_logged_each_time(caplog: pytest.LogCaptureFixture) -> None:
    """Lines below WARNING, such as those of the setting `debug`."""
    log = logging.getLogger("fencepost.pipeline.consumer")
    again = f"a line that comes again, of {time.monotonic_ns()}"
    with caplog.at_level(logging.DEBUG, log.name):
        for _ in range(3):
            log.debug("a line of debug")
            log.error(again)
    assert [each.levelname for each in caplog.records] == ["DEBUG", "ERROR", "DEBUG", "DEBUG"]
