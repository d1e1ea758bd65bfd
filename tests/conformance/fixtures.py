"""pytest fixtures for a real Kafka: `kafka` (one broker for the whole run), `kafka_cluster` (with the test's options) and `java_tools`
(Kafka's command-line tools).

Any test package may import them. If there is no Kafka, the tests are skipped with the reason. With FENCEPOST_KAFKA=require they fail. With
FENCEPOST_KAFKA=off they are skipped without a search for one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol

import pytest
from _pytest.outcomes import Skipped

from tests.conformance.kafka import KafkaCluster, KafkaUnavailable
from tests.drawn import drawn

if TYPE_CHECKING:
    from tests.conformance.java_tools import JavaTools, OneByOne


TOLD_ALIKE: Final = drawn(3, of="stories that Kafka tells as the stub does")
"""For the row of Kafka of a long story: the stub's row runs each time, and a released Kafka does not change."""


class ClusterFactory(Protocol):
    def __call__(self, **options: Any) -> KafkaCluster: ...


@pytest.fixture(scope="session")
def kafka() -> KafkaCluster:
    """One broker with default features, shared by every test of the run. Use your own topics, and do not stop it."""
    require_kafka()
    return shared_kafka()


@pytest.fixture
def kafka_cluster() -> Iterator[ClusterFactory]:
    """Starts clusters with the options of `KafkaCluster`; they are closed when the test ends."""
    require_kafka()
    started: list[KafkaCluster] = []

    def start(**options: Any) -> KafkaCluster:
        cluster = KafkaCluster(**options)
        started.append(cluster)
        return cluster.start()

    yield start
    for cluster in started:
        cluster.close()


@pytest.fixture(scope="session")
def java_tools() -> JavaTools | OneByOne:
    """Kafka's tools, for tests that run several."""
    require_kafka()
    return shared_tools()


def require_kafka() -> None:
    """Skip the test if there is no real Kafka. With FENCEPOST_KAFKA=require, fail it."""
    reason = why_no_kafka()
    if reason is None:
        return
    if os.environ.get("FENCEPOST_KAFKA") == "require":
        pytest.fail(f"FENCEPOST_KAFKA=require, but {reason}", pytrace=False)
    raise NoKafka(f"no real Kafka: {reason}")


def require_older_kafka() -> None:
    """Skip or fail the test, as `require_kafka` does, if the older release is missing. Some tests use it, and it is fetched separately."""
    require_kafka()
    from tests.conformance.kafka_home import OLDER_VERSION, kafka_home

    require(lambda: kafka_home(OLDER_VERSION))


def require(find: Callable[[], object]) -> None:
    """Skip or fail the test, as `require_kafka` does, if this raises KafkaUnavailable."""
    try:
        find()
    except KafkaUnavailable as missing:
        if os.environ.get("FENCEPOST_KAFKA") == "require":
            pytest.fail(f"FENCEPOST_KAFKA=require, but {missing}", pytrace=False)
        raise NoKafka(str(missing)) from None


class NoKafka(Skipped):
    """A skip that always points to this line, not to the test. pytest then shows all of them as one line."""

    # pytest recognises skips by this attribute when it prints them.
    __module__ = Skipped.__module__
    __qualname__ = Skipped.__qualname__

    @property
    def _use_item_location(self) -> bool:
        return False

    @_use_item_location.setter
    def _use_item_location(self, wanted: bool) -> None:
        """Fixtures are asked to point at the test; this one does not."""


@cache
def why_no_kafka() -> str | None:
    """The sentence that says what is missing, or None. It fetches Kafka if needed."""
    if os.environ.get("FENCEPOST_KAFKA") == "off":
        return "FENCEPOST_KAFKA=off"
    from tests.conformance.kafka_home import find_java, kafka_home

    try:
        find_java()
        kafka_home()
    except KafkaUnavailable as missing:
        return str(missing)
    return None


@cache
def shared_kafka() -> KafkaCluster:
    """The broker behind the `kafka` fixture."""
    # Cached here: pytest would start one for every conftest that imports the fixture. Its own atexit hook closes it.
    cluster = KafkaCluster()
    try:
        return cluster.start()
    except BaseException:
        cluster.close()
        raise


@cache
def shared_tools() -> JavaTools | OneByOne:
    """The JVM behind the `java_tools` fixture."""
    from tests.conformance.java_tools import JavaTools, OneByOne, compiles
    from tests.conformance.kafka_home import find_java

    return JavaTools() if compiles(find_java()) else OneByOne(shared_kafka())
