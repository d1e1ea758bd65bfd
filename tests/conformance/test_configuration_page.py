"""docs/configuration.md states the defaults of Kafka's producer as Apache Kafka does, and docs/stub-configs.md those of its brokers."""

from __future__ import annotations

import html
import re

from fencepost.broker_stub.configs.resource_types import ResourceType
from fencepost.broker_stub.configs.topic_configs import BROKER_CONFIGS, KAFKAS_DEFAULTS
from fencepost.producer.wire.messages.configs import DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResponse
from tests.conformance.kafka import KafkaCluster
from tests.conformance.raw import RawConnection
from tests.pages import generator

DEFAULT_CONFIG = 5
ENTRY = re.compile(r'<a id="([\w.]+)"></a>.*?<th>Default:</th><td>(.*?)</td>', re.DOTALL)


def test_kafkas_defaults_are_kafkas(kafka: KafkaCluster) -> None:
    """Kafka's own `ProducerConfig` has the same settings and defaults as the page."""
    printed = kafka.tool("org.apache.kafka.clients.producer.ProducerConfig")
    theirs = {name: html.unescape(default).split(" (")[0] for name, default in ENTRY.findall(printed)}
    page = generator("make_configuration")
    ours = {page.kafka_name(setting): default for setting, (default, _) in page.KAFKA.items()}
    assert {name: theirs.get(name) for name in ours} == ours
    stars = tuple(name[:-1] for name in page.MISSING if name.endswith("*"))
    assert sorted(name for name in theirs if name not in ours and name not in page.MISSING and not name.startswith(stars)) == []
    assert sorted(name for name in page.MISSING if not name.endswith("*") and name not in theirs) == []


def test_the_defaults_of_brokers_are_kafkas(kafka: KafkaCluster) -> None:
    """DescribeConfigs of a Kafka has the stub's default of each broker config that both have, or the one that the stub names as Kafka's."""
    node, address = next(iter(kafka.addresses.items()))
    asked = [DescribeConfigsResource(resource_type=ResourceType.BROKER, resource_name=str(node), configuration_keys=None)]
    with RawConnection(address) as connection:
        answer = connection.ask(DescribeConfigsRequest(resources=asked, include_synonyms=True), 4)
    assert isinstance(answer, DescribeConfigsResponse)
    theirs = {
        each.name: synonym.value
        for each in answer.results[0].configs
        for synonym in each.synonyms
        if synonym.source == DEFAULT_CONFIG and synonym.name == each.name and synonym.value is not None
    }
    ours = {name: KAFKAS_DEFAULTS.get(name, defined.default) for name, defined in BROKER_CONFIGS.items() if name in theirs}
    assert len(ours) > 60
    assert ours == {name: theirs[name] for name in ours}
    assert KAFKAS_DEFAULTS.keys() <= ours.keys()
