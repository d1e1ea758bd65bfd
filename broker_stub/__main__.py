"""`python -m fencepost.broker_stub --brokers 3 --port 9092`."""

import argparse
import sys

from fencepost.broker_stub.cluster.release import NEWEST, RELEASES
from fencepost.broker_stub.command import serve
from fencepost.broker_stub.network.addresses import printable


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m fencepost.broker_stub", description="Run a Kafka-compatible cluster in memory.")
    parser.add_argument("--brokers", type=int, default=1, help="how many brokers")
    parser.add_argument("--host", help="the address to listen on; 127.0.0.1 if left out")
    parser.add_argument("--port", type=int, help="the first broker's port, the others follow it; 0 takes free ones, 9092 if left out")
    parser.add_argument("--advertised-host", metavar="HOST", help="where clients are told to connect to, if that is not --host")
    parser.add_argument("--partitions", type=int, help="partitions of an automatically created topic; 1 if left out")
    parser.add_argument("--config", action="append", default=[], metavar="NAME=VALUE", help="a broker config of Kafka; repeatable")
    parser.add_argument("--emulate", default=NEWEST, metavar="RELEASE", help=f"the release of Kafka to emulate: {' or '.join(RELEASES)}")
    given = parser.parse_args()
    try:
        serve(
            brokers=given.brokers,
            host=given.host,
            port=given.port,
            advertised_host=given.advertised_host,
            default_partitions=given.partitions,
            config=dict(_pair(text) for text in given.config),
            emulate=given.emulate,
        )
    except (OSError, ValueError) as error:
        sys.exit(f"broker_stub: {printable(str(error), longest=2000)}")


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--config {text!r} is not NAME=VALUE")
    return name, value


if __name__ == "__main__":
    main()
