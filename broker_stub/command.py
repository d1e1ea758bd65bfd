"""Runs a cluster in the foreground until it is told to stop: what `python -m broker_stub` and `fencepost broker` do.

It prints one line when clients may connect, and nothing else. SIGINT and SIGTERM end it; a second one is not needed.
"""

import signal
import sys
import threading
from collections.abc import Mapping

from broker_stub.stub import BrokerStub


def serve(
    *,
    brokers: int = 1,
    host: str = "127.0.0.1",
    port: int = 9092,
    auto_create_topics: bool = True,
    default_partitions: int = 1,
    default_replication_factor: int | None = None,
    config: Mapping[str, str] | None = None,
    seed: int = 0,
) -> None:
    """Blocks until a signal; raises OSError when a port is taken."""
    stopped = threading.Event()
    before = {number: signal.signal(number, lambda *_: stopped.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    stub = BrokerStub(
        brokers=brokers,
        host=host,
        port=port,
        auto_create_topics=auto_create_topics,
        default_partitions=default_partitions,
        default_replication_factor=default_replication_factor,
        config=config,
        journal=0,
        seed=seed,
    )
    try:
        with stub:
            print(f"{brokers} broker{'s' if brokers > 1 else ''} listening on {stub.bootstrap}", flush=True)
            stopped.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    print("stopped", file=sys.stderr)
