"""A broker whose disk is slow does the same on the stub and on Apache Kafka, whose writes wait in a library that is preloaded."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import Producer
from tests.conformance.fixtures import TOLD_ALIKE, require_kafka
from tests.conformance.kafka import KafkaCluster
from tests.conformance.survival.reader import Admin
from tests.once import once_is_enough
from tests.waiting import until

pytestmark = [pytest.mark.timeout(300), pytest.mark.alone, once_is_enough("asks Kafka itself")]

NODES = (1, 2, 3)
CONFIG = {"replica.lag.time.max.ms": 2_000}
WRITE_S = 0.3
AT_ONCE = 4


class Site:
    """`slow` makes each write of a broker take so many milliseconds."""

    def __init__(self, bootstrap: str, slow: Callable[[int, int], object]) -> None:
        self.bootstrap = bootstrap
        self.slow = slow
        self.admin = Admin(bootstrap)
        self.admin.create("t", partitions=1, replicas=len(NODES), config={"min.insync.replicas": "1"})

    def in_sync(self) -> tuple[int, int]:
        """The leader, and how many replicas are in sync."""
        found: dict[int, tuple[int, int]] = self.admin.in_sync("t")
        return found[0]

    def seconds(self, *, acks: Any = "all", at_once: int = 1) -> float:
        """How long as many producers wait that send at the same time: the shortest of two times."""
        found = []
        with ExitStack() as stack:
            settings: dict[str, Any] = {"acks": acks, "enable_idempotence": acks == "all"}
            producers = [stack.enter_context(Producer(bootstrap_servers=self.bootstrap, **settings)) for _ in range(at_once)]
            for _ in range(3):  # the first time they connect
                began = time.perf_counter()
                for future in [producer.send("t", b"x") for producer in producers]:
                    future.result(60)
                found.append(time.perf_counter() - began)
        return min(found[1:])


@contextmanager
def on_stub(directory: Path) -> Iterator[Site]:
    with BrokerStub(brokers=len(NODES), config=CONFIG) as stub:
        yield Site(stub.bootstrap, stub.slow_disk)


@contextmanager
def on_kafka(directory: Path) -> Iterator[Site]:
    require_kafka()
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("the library that makes writes slow needs Linux and a C compiler")
    library, source = directory / "slow_disk.so", Path(__file__).with_name("slow_disk.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_PRELOAD", str(library))
        with KafkaCluster(brokers=len(NODES), config=CONFIG) as kafka:
            patch.undo()
            yield Site(kafka.bootstrap, lambda node, ms: (kafka.brokers[node].log_dir(1) / "slow-ms").write_text(str(ms)))


@pytest.mark.parametrize("where", [on_stub, pytest.param(on_kafka, marks=TOLD_ALIKE)], ids=["stub", "kafka"])
def test_a_slow_disk(where: Callable[[Path], Any], tmp_path: Path) -> None:
    """The leader writes requests one after the other. A follower writes at once what has come meanwhile, and holds up only acks=all. It
    leaves the ISR when it falls behind. No broker is fenced."""
    with where(tmp_path) as site:
        leader, _ = until(site.in_sync, "in sync", good=lambda found: found[1] == len(NODES), timeout_s=60)
        follower = next(node for node in NODES if node != leader)
        site.slow(leader, int(WRITE_S * 1000))
        assert site.seconds(acks=1) >= WRITE_S
        assert site.seconds(at_once=AT_ONCE) >= AT_ONCE * WRITE_S
        site.slow(leader, 0)
        site.slow(follower, int(WRITE_S * 1000))
        assert site.seconds(acks=1) < WRITE_S
        assert WRITE_S <= site.seconds(at_once=AT_ONCE) < AT_ONCE * WRITE_S
        assert site.in_sync() == (leader, len(NODES))
        site.slow(follower, 3_000)
        with Producer(bootstrap_servers=site.bootstrap, acks=1, enable_idempotence=False) as producer:

            def behind() -> bool:
                producer.send("t", b"x").result(60)
                return bool(site.in_sync() == (leader, len(NODES) - 1))

            until(behind, "the follower leaves the ISR", timeout_s=60)
        site.slow(follower, 0)
        until(site.in_sync, "it is back", good=lambda found: found == (leader, len(NODES)), timeout_s=60)
