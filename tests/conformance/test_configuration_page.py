"""docs/configuration.md states the defaults of Kafka's producer as Apache Kafka does."""

from __future__ import annotations

import html
import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from tests.conformance.kafka import KafkaCluster

PAGE = Path(__file__).resolve().parents[2] / "docs" / "make_configuration.py"
ENTRY = re.compile(r'<a id="([\w.]+)"></a>.*?<th>Default:</th><td>(.*?)</td>', re.DOTALL)


def made() -> ModuleType:
    spec = spec_from_file_location("make_configuration", PAGE)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_kafkas_defaults_are_kafkas(kafka: KafkaCluster) -> None:
    """Kafka's own `ProducerConfig` has the same settings and defaults as the page."""
    printed = kafka.tool("org.apache.kafka.clients.producer.ProducerConfig")
    theirs = {name: html.unescape(default).split(" (")[0] for name, default in ENTRY.findall(printed)}
    page = made()
    ours = {page.kafka_name(setting): default for setting, (default, _) in page.KAFKA.items()}
    assert {name: theirs.get(name) for name in ours} == ours
    stars = tuple(name[:-1] for name in page.MISSING if name.endswith("*"))
    assert sorted(name for name in theirs if name not in ours and name not in page.MISSING and not name.startswith(stars)) == []
    assert sorted(name for name in page.MISSING if not name.endswith("*") and name not in theirs) == []
