"""What Spark needs beside Python: what is missing is named, with what to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.txn.spark.connection.java_home import JavaMissing, find_java
from fencepost.txn.spark.connection.secrets import KafkaSettings
from fencepost.txn.spark.connection.spark_context import settle_python
from fencepost.txn.spark.sink.metrics import BatchMetrics
from fencepost.txn.spark.sink.settings import WriterSettings
from fencepost.txn.spark.sink.writer_guards import WriterGuards
from tests.txn.spark.site import Site


def test_no_java_says_which_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without JAVA_HOME and a java on the path the error names packages to install."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaMissing, match="apt-get install openjdk-17-jre-headless"):
        find_java()


def test_a_java_home_without_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """pyspark believes JAVA_HOME more than the path, and so it has to be right."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing, match=f"JAVA_HOME='{tmp_path}'"):
        find_java()


def test_java_home_goes_before_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As pyspark has it."""
    java = tmp_path / "home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java() == str(java)
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(java.parent))
    assert find_java() == str(java)


WITHOUT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pyspark":
            raise ModuleNotFoundError(name)
import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "pyspark" else real(name, package)
sys.meta_path.insert(0, Absent())
from fencepost import txn
import fencepost
import pydoc
shown = pydoc.plain(pydoc.render_doc(fencepost))
assert "class Producer" in shown and "class TransactionalProducer" in shown
assert "BadRows" not in dir(fencepost)
try:
    import fencepost.txn.spark
except ImportError as error:
    print(error)
"""


def test_without_pyspark_the_extra_is_named() -> None:
    """Everything else can be imported without it, `help(fencepost)` shows it, and `txn.spark` says what to install."""
    ran = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=60, check=True)
    assert (
        ran.stdout.strip()
        == "fencepost.txn.spark needs pyspark: install fencepost's extra `spark`, in a checkout with pip install '.[spark]'"
    )


def test_workers_on_this_host_are_the_drivers_python(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers use the driver's Python, also if another `python3` is first on the path, because a program may be started by its
    interpreter's path."""
    context = site.spark.sparkContext
    monkeypatch.delenv("PYSPARK_PYTHON")
    monkeypatch.setattr(context, "pythonExec", "python3")
    site.by_hand(guard="turns")(site.rows("a", "b", key="value"), site.offsets(0))
    assert context.pythonExec == sys.executable
    assert site.committed() == ["a", "b"]


def test_registering_the_format_settles_the_python(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """After `register` the format can be read though the first `python3` on the path has no fencepost."""
    datasource = pytest.importorskip("fencepost.txn.spark.datasource.datasource", reason="pyspark before 4.0 has no Python data sources")
    context = site.spark.sparkContext
    monkeypatch.delenv("PYSPARK_PYTHON")
    monkeypatch.setattr(context, "pythonExec", "python3")
    datasource.register(site.spark)
    assert context.pythonExec == sys.executable


@pytest.mark.parametrize(
    ("master", "said", "python"), [("yarn", None, "python3"), ("local[2]", "python3", "python3"), ("local", None, "py")]
)
def test_a_python_that_is_settled(monkeypatch: pytest.MonkeyPatch, master: str, said: str | None, python: str) -> None:
    """What executors elsewhere have is not known here, and what the user says is left alone."""
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if said is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", said)
    context = SimpleNamespace(master=master, pythonExec=python)
    settle_python(context)
    assert context.pythonExec == python


@pytest.mark.parametrize("guard", ["driver", "turns"])
def test_what_jobs_are_called(site: Site, guard: str) -> None:
    """Spark's pages say which sink and which batch a job is of; what the program calls its own jobs stays."""
    context = site.spark.sparkContext
    context.setJobDescription("of the program")
    try:
        site.by_hand(guard=guard)(site.rows("a", key="value"), site.offsets(0))
        assert context.getLocalProperty("spark.job.description") == "of the program"
    finally:
        context.setJobDescription("")
    jobs = context._jsc.sc().statusStore().jobsList(None)
    described = [jobs.apply(place).description() for place in range(jobs.size())]
    assert "fencepost sink batch 0" in [each.get() for each in described if each.isDefined()]


def test_guards_of_a_context_that_was_stopped() -> None:
    """A program that stops its SparkContext and makes another one goes on with its writer: guards ask the context that there is."""

    def frame(context: object) -> Any:
        conf = SimpleNamespace(get=lambda name, default: "127.0.0.1")
        return SimpleNamespace(sparkSession=SimpleNamespace(sparkContext=context, conf=conf))

    first, second = frame("the first"), frame("the second")
    guards = WriterGuards(
        WriterSettings(sink_id="sink", topic="out"), KafkaSettings.of({"bootstrap_servers": "localhost:1"}, None, names=())
    )
    guard = guards.get("turns", first)
    assert guards.get("turns", first) is guard
    assert guards.get("turns", second) is not guard
    guards.close()


def test_a_new_context_is_reachable_until_it_is_not() -> None:
    """That executors did not reach the driver is known of one SparkContext. With another one the writer tries the guard turns again."""

    def frame(context: object) -> Any:
        conf = SimpleNamespace(get=lambda name, default: "127.0.0.1")
        return SimpleNamespace(sparkSession=SimpleNamespace(sparkContext=context, conf=conf))

    class Context:
        def getConf(self) -> Any:
            return SimpleNamespace(get=lambda name, default: default)

    first, second = frame(Context()), frame(Context())
    guards = WriterGuards(
        WriterSettings(sink_id="sink", topic="out"), KafkaSettings.of({"bootstrap_servers": "localhost:1"}, None, names=())
    )

    def chosen(df: Any, unreachable: int) -> str:
        return guards.choose(df, BatchMetrics(sink="sink", query=None, batch=0, unreachable=unreachable), None)[0]

    assert [chosen(first, 0), chosen(first, 1), chosen(first, 0)] == ["turns", "kafka-claims", "kafka-claims"]
    assert [chosen(second, 0), chosen(second, 0)] == ["turns", "turns"]
    guards.close()
