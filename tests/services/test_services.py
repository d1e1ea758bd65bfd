"""The services of docs/services.md under parallel requests: none is lost, none is there twice, and no answer is 500.

A worker is killed, stopped and reloaded meanwhile. The servers and frameworks are the real ones.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import fencepost
from fencepost.broker_stub import BrokerStub
from fencepost.producer.wire import Api
from tests.reading import read_values
from tests.services.serving import EXAMPLES, children, needs, seconds_until, serving
from tests.waiting import until

UVICORN = ("uvicorn", "orders_fastapi:app", "--port", "PORT", "--timeout-graceful-shutdown", "30")
GUNICORN = ("gunicorn", "orders_django:application", "--bind", "127.0.0.1:PORT", "--config", "gunicorn_config.py", "--threads", "32")
PARALLEL = 100

LEAVER = """
import socket, sys
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
connection.sendall(f"POST /orders/{sys.argv[2]}?seconds=4 HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n".encode())
print(flush=True)
connection.recv(9)
"""

pytestmark = [pytest.mark.timeout(240), pytest.mark.skipif(sys.platform == "win32", reason="the servers need fork and signals")]


@pytest.fixture
def stub() -> Iterator[BrokerStub]:
    with BrokerStub() as stub:
        stub.create_topic("orders", partitions=2)
        stub.create_topic("invoices", partitions=2)
        yield stub


def written(stub: BrokerStub) -> list[int]:
    """The committed orders; each must have its invoice."""
    orders = sorted(int(value.split()[1]) for value in read_values(stub.bootstrap, "orders", [0, 1]))
    assert orders == sorted(int(value.split()[1]) for value in read_values(stub.bootstrap, "invoices", [0, 1]))
    return orders


@pytest.mark.parametrize("parallel", [8, PARALLEL])
def test_fastapi(stub: BrokerStub, tmp_path: Path, parallel: int) -> None:
    """Parallel requests on a pool of 4."""
    needs("fastapi", "uvicorn")
    with serving(stub.bootstrap, tmp_path, *UVICORN) as service:
        answers = service.place(range(parallel))
        assert [answer.status for answer in answers] == [200] * parallel, answers
        assert service.ask("GET", "/ready").body["committed"] == parallel
    assert written(stub) == list(range(parallel))


def test_errors_as_http(stub: BrokerStub, tmp_path: Path) -> None:
    """A pool that is busy is 503, a lost reply to a commit is found out, and both say the truth about what was written."""
    needs("fastapi", "uvicorn")
    with serving(stub.bootstrap, tmp_path, *UVICORN, POOL_SIZE="1") as service:
        busy = threading.Thread(target=service.place, args=([0], "?seconds=15"))
        busy.start()
        until(lambda: service.ask("GET", "/ready").body.get("in_use"), "it is in its block")
        (answer,) = service.place([1])
        assert answer.status == 503
        assert "1 of size=1 is in use" in answer.body["error"]
        busy.join()
        stub.faults.on(Api.END_TXN).reply().times(1).disconnect()
        assert [each.status for each in service.place([2])] == [200]
        stub.faults.on(Api.PRODUCE).times(1).error(18)  # RECORD_LIST_TOO_LARGE
        assert [each.status for each in service.place([3])] == [422]
    assert written(stub) == [0, 2]


def test_a_client_that_disconnects(stub: BrokerStub, tmp_path: Path) -> None:
    """uvicorn lets its handler run to the end, which commits. Its slot is free again."""
    needs("fastapi", "uvicorn")
    with serving(stub.bootstrap, tmp_path, *UVICORN, POOL_SIZE="2") as service:
        leaving = [
            subprocess.Popen([sys.executable, "-c", LEAVER, str(service.port), str(number)], stdout=subprocess.PIPE) for number in (90, 91)
        ]
        for each in leaving:
            assert each.stdout is not None
            each.stdout.readline()
        until(lambda: service.ask("GET", "/ready").body.get("in_use") == 2, "both are in their blocks")
        for each in leaving:
            each.kill()
            each.communicate()
        assert [answer.status for answer in service.place(range(8))] == [200] * 8
    assert written(stub) == [*range(8), 90, 91]


def test_the_tests_with_faults(tmp_path: Path) -> None:
    """The example's own tests pass as their docstring says, with the fixture that comes with the package."""
    needs("fastapi", "httpx2")
    command = ["-q", "-p", "no:cacheprovider", "-p", "no:timeout", "-p", "no:hypothesispytest", "test_orders_fastapi.py"]
    above = str(Path(fencepost.__file__).parents[1])
    where = {**os.environ, "PYTHONPATH": above, "PYTHONSAFEPATH": "", "TMPDIR": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *command], cwd=EXAMPLES, capture_output=True, text=True, timeout=120, check=False, env=where
    )
    assert ran.returncode == 0, ran.stdout
    assert "4 passed" in ran.stdout


def test_two_instances(stub: BrokerStub, tmp_path: Path) -> None:
    """They run side by side, with ids of their own."""
    needs("fastapi", "uvicorn")
    with serving(stub.bootstrap, tmp_path, *UVICORN) as first, serving(stub.bootstrap, tmp_path, *UVICORN) as second:
        found: list[int] = []
        other = threading.Thread(target=lambda: found.extend(answer.status for answer in second.place(range(100, 140))))
        other.start()
        statuses = [answer.status for answer in first.place(range(40))]
        other.join()
        assert statuses + found == [200] * 80
        assert first.ask("GET", "/ready").body["instance"] != second.ask("GET", "/ready").body["instance"]
    assert written(stub) == [*range(40), *range(100, 140)]


def test_a_graceful_stop(stub: BrokerStub, tmp_path: Path) -> None:
    """Requests that are under way end with 200, and are there."""
    needs("fastapi", "uvicorn")
    with serving(stub.bootstrap, tmp_path, *UVICORN) as service:
        found: list[int] = []
        asking = threading.Thread(target=lambda: found.extend(answer.status for answer in service.place(range(4), "?seconds=4")))
        asking.start()
        until(lambda: service.ask("GET", "/ready").body.get("in_use") == 4, "all are in their blocks")
        service.process.send_signal(signal.SIGTERM)
        asking.join()
        assert service.process.wait(30) in (0, -signal.SIGTERM)
        assert found == [200] * 4
    assert written(stub) == [0, 1, 2, 3]


def test_a_reload(stub: BrokerStub, tmp_path: Path) -> None:
    """`uvicorn --reload`: the new process works, and each request that was answered with 200 is there once."""
    needs("fastapi", "uvicorn")
    for file in EXAMPLES.glob("*.py"):
        shutil.copy(file, tmp_path)
    with serving(stub.bootstrap, tmp_path, *UVICORN, "--reload", "--app-dir", str(tmp_path), "--reload-dir", str(tmp_path)) as service:
        done = [number for number, answer in enumerate(service.place(range(20))) if answer.status == 200]
        before = service.log.read_text().count("Application startup complete")
        program = tmp_path / "orders_fastapi.py"
        program.write_text(program.read_text() + "\n# changed\n")
        until(lambda: service.log.read_text().count("Application startup complete") > before, "it has reloaded", timeout_s=60.0)
        until(service.is_ready, "the service is ready", timeout_s=60.0)
        done += [100 + number for number, answer in enumerate(service.place(range(100, 120))) if answer.status == 200]
        assert done[-20:] == list(range(100, 120))
    assert written(stub) == done


@pytest.mark.parametrize("more", [(), ("--preload",)], ids=["", "preload"])
def test_django_with_prefork(stub: BrokerStub, tmp_path: Path, more: tuple[str, ...]) -> None:
    """Two workers with threads of gunicorn, each with ids of its own."""
    needs("django", "gunicorn")
    with serving(stub.bootstrap, tmp_path, *GUNICORN, "--workers", "2", *more) as service:
        answers = service.place(range(PARALLEL))
        assert [answer.status for answer in answers] == [200] * PARALLEL, answers
    assert written(stub) == list(range(PARALLEL))
    assert "Traceback" not in service.log.read_text()


def test_a_killed_worker(stub: BrokerStub, tmp_path: Path) -> None:
    """kill -9 in the middle of its transactions. Its successor takes its ids over, and aborts what it left open: readers wait for seconds,
    not for the timeout of the transaction."""
    needs("django", "gunicorn")
    with serving(stub.bootstrap, tmp_path, *GUNICORN, "--workers", "1") as service:
        assert [answer.status for answer in service.place(range(8))] == [200] * 8
        found: list[int] = []
        asking = threading.Thread(target=lambda: found.extend(answer.status for answer in service.place(range(50, 54), "?seconds=20")))
        asking.start()
        until(lambda: service.ask("GET", "/ready").body.get("in_use") == 4, "all are in their blocks")
        instance = service.ask("GET", "/ready").body["instance"]
        (worker,) = children(service.process.pid)
        os.kill(worker, signal.SIGKILL)
        asking.join()
        assert found == [0] * 4
        until(service.is_ready, "the next worker", timeout_s=60.0, pause_max_s=0.2)
        assert service.ask("GET", "/ready").body["instance"] == instance
        assert [answer.status for answer in service.place(range(8, 12))] == [200] * 4
        assert seconds_until(lambda: written(stub) == list(range(12)), "readers see what was committed after it") < 20.0


def test_celery(stub: BrokerStub, tmp_path: Path) -> None:
    """A prefork worker with two processes: each task's order is there, and one that was killed leaves nothing half done."""
    needs("celery")
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
    folders = {"data_folder_in": str(tmp_path / "in"), "data_folder_out": str(tmp_path / "in"), "processed_folder": str(tmp_path / "out")}
    program = f"""
import orders_celery
app = orders_celery.app
app.conf.update(broker_url="filesystem://", broker_transport_options={folders!r})
"""
    (tmp_path / "on_files.py").write_text(program)
    above = f"{Path(fencepost.__file__).parents[1]}{os.pathsep}{EXAMPLES}{os.pathsep}{tmp_path}"
    where = {**os.environ, "KAFKA": stub.bootstrap, "PYTHONPATH": above, "PYTHONSAFEPATH": "", "TMPDIR": str(tmp_path)}
    send = "import on_files, orders_celery; [orders_celery.place.delay(number) for number in range(40)]"
    subprocess.run([sys.executable, "-c", send], env=where, cwd=tmp_path, check=True, timeout=60)
    with (tmp_path / "log").open("wb") as log:
        worker = subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", "on_files", "worker", "--concurrency", "2", "-l", "INFO"],
            env=where, cwd=tmp_path, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        until(lambda: len(read_values(stub.bootstrap, "invoices", [0, 1])) >= 40, "all tasks", timeout_s=90.0, pause_max_s=0.3)
    finally:
        worker.terminate()
        worker.wait(30)
    assert sorted(set(written(stub))) == list(range(40))
    assert len(written(stub)) == 40
    ids = {exchange.request.transactional_id for exchange in stub.journal.requests(Api.END_TXN)}  # type: ignore[attr-defined]
    assert len({each.rpartition("-")[0] for each in ids}) == 2, ids
    assert "Traceback" not in (tmp_path / "log").read_text()
