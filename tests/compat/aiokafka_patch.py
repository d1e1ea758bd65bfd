"""A pytest plugin for other projects' tests: with FENCEPOST_SIDE=ours their `from aiokafka import AIOKafkaProducer` finds fencepost's."""

from __future__ import annotations

import os

import aiokafka
import aiokafka.producer

OURS = os.environ.get("FENCEPOST_SIDE") == "ours"

if OURS:
    from fencepost.compat.aiokafka import AIOKafkaProducer

    aiokafka.AIOKafkaProducer = aiokafka.producer.AIOKafkaProducer = AIOKafkaProducer


def pytest_report_header() -> str:
    made = aiokafka.producer.AIOKafkaProducer
    return f"AIOKafkaProducer is {made.__module__}.{made.__qualname__}"
