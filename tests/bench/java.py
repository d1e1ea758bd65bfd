"""Kafka's ProducerPerformance in its own JVM, with the settings of all contenders.

It sends values without keys, because it cannot send keys. Its JVM warms up inside the measurement. It does not report the cost of a call.
"""

from __future__ import annotations

import re
import resource
import subprocess

from tests.bench.load import Figures, Load

TIMEOUT_S = 300.0
REPORT = re.compile(r"(\d+) records sent, ([\d.,]+) records/sec")


def run_java(load: Load) -> Figures:
    """Send all records of the load. The CPU time is the JVM's, from its start to its end."""
    settings = {
        "bootstrap.servers": load.bootstrap,
        "acks": "all",
        "enable.idempotence": "true",
        "linger.ms": f"{load.linger_ms:g}",
        "batch.size": load.batch_bytes,
        "buffer.memory": load.buffer_bytes,
        "compression.type": load.codec,
    }
    command = [
        *load.java,
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", load.topic, "--num-records", str(load.records), "--record-size", str(load.value_bytes), "--throughput", "-1"),
        *("--producer-props", *(f"{name}={value}" for name, value in settings.items())),
    ]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    reports = REPORT.findall(done.stdout)
    if done.returncode or not reports:
        raise RuntimeError(f"ProducerPerformance failed: {(done.stderr or done.stdout).strip()[-2000:]}")
    # The last line is about the whole run. Each earlier line is about some seconds.
    sent, per_s = reports[-1]
    if int(sent) != load.records:
        raise RuntimeError(f"ProducerPerformance sent {sent} of {load.records} records")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Figures(acked=load.records, acked_per_s=float(per_s.replace(",", "")), cpu_ns=cpu_s * 1e9 / load.records)
