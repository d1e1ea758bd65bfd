"""`python -m tests.conformance.run_kafka`: starts a real Kafka, prints its address, and runs until Ctrl-C or SIGTERM. Then it removes the
data.
"""

from __future__ import annotations

import argparse
import signal
import sys
from types import FrameType

from tests.conformance.kafka import JVM_BENCH, JVM_FAST, KafkaCluster, KafkaUnavailable


def main() -> int:
    parser = argparse.ArgumentParser(prog="run_kafka", description=__doc__)
    parser.add_argument("--brokers", type=int, default=1)
    parser.add_argument("--port", type=int, default=0, help="port of the first broker (default: free ports)")
    parser.add_argument("--feature", action="append", default=[], metavar="NAME=LEVEL", help="for example transaction.version=0")
    parser.add_argument("--config", action="append", default=[], metavar="NAME=VALUE", help="a broker property")
    parser.add_argument("--bench", action="store_true", help="use JVM flags for measurements, not for a quick start")
    parser.add_argument("--until-eof", action="store_true", help="also stop when standard input ends")
    options = parser.parse_args()

    def stop(signum: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    try:
        with KafkaCluster(
            brokers=options.brokers,
            port=options.port,
            features={name: int(level) for name, _, level in (given.partition("=") for given in options.feature)},
            config={name: value for name, _, value in (given.partition("=") for given in options.config)},
            jvm=JVM_BENCH if options.bench else JVM_FAST,
        ) as cluster:
            print(cluster.bootstrap, flush=True)
            if options.until_eof:
                sys.stdin.read()
            else:
                while True:
                    signal.pause()
    except KafkaUnavailable as missing:
        print(f"no real Kafka: {missing}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
