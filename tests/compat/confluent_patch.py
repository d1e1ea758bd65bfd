"""A pytest plugin for other projects' tests: before the first of them is imported, `confluent_kafka` gets our producers.

Only names are replaced: `FENCEPOST_COMPAT=ours` puts fencepost.compat.confluent's producers where confluent_kafka has its own. With
`theirs` nothing is replaced, so that both runs have the same plugins.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType


def replace() -> None:
    """Put our names in place of theirs."""
    import confluent_kafka

    from fencepost.compat import confluent

    for name in ("Producer", "SerializingProducer"):
        setattr(confluent_kafka, name, getattr(confluent, name))


def without_trivup() -> None:
    """confluent-kafka's fixtures import what starts a Kafka, also if they are told of one that runs."""
    try:
        import trivup.clusters.KafkaCluster  # type: ignore[import-not-found]  # noqa: F401
    except ImportError:
        for name in ("trivup", "trivup.clusters", "trivup.clusters.KafkaCluster"):
            sys.modules[name] = ModuleType(name)
        sys.modules["trivup.clusters.KafkaCluster"].KafkaCluster = object  # type: ignore[attr-defined]


without_trivup()
if os.environ.get("FENCEPOST_COMPAT") == "ours":
    replace()


def pytest_report_header() -> str:
    """Says whose producer the tests import."""
    import confluent_kafka

    return f"confluent_kafka.Producer: {confluent_kafka.Producer.__module__}"
