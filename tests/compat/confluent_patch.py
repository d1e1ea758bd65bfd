"""A pytest plugin for other projects' tests: before the first of them is imported, `confluent_kafka` gets our producers.

Only names are replaced: `FENCEPOST_SIDE=ours` puts fencepost.compat.confluent's producers where confluent_kafka has its own. With
`theirs` nothing is replaced, so that both runs have the same plugins.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

MADE: list[str] = []
"""A word for each producer of ours that the tests made."""


def replace() -> None:
    """Put our names in place of theirs."""
    import confluent_kafka

    from fencepost.compat import confluent

    for name in ("Producer", "SerializingProducer"):
        setattr(confluent_kafka, name, getattr(confluent, name))
    count_ours()


def count_ours() -> None:
    """Count the producers of ours that are made."""
    from fencepost.compat.confluent.underlying import Underlying

    make = Underlying.__init__

    def counted(self: Underlying, settings: Mapping[str, Any]) -> None:
        MADE.append("transactional" if "transactional_id" in settings else "plain")
        make(self, settings)

    Underlying.__init__ = counted  # type: ignore[method-assign]


def without_trivup() -> None:
    """confluent-kafka's fixtures import what starts a Kafka, also if they are told of one that runs."""
    try:
        import trivup.clusters.KafkaCluster  # type: ignore[import-not-found]  # noqa: F401
    except ImportError:
        for name in ("trivup", "trivup.clusters", "trivup.clusters.KafkaCluster"):
            sys.modules[name] = ModuleType(name)
        sys.modules["trivup.clusters.KafkaCluster"].KafkaCluster = object  # type: ignore[attr-defined]


without_trivup()
if os.environ.get("FENCEPOST_SIDE") == "ours":
    replace()


def pytest_sessionfinish() -> None:
    """Tell the runner how many producers of ours were made."""
    if "FENCEPOST_COMPAT_COUNT" in os.environ:
        Path(os.environ["FENCEPOST_COMPAT_COUNT"]).write_text(str(len(MADE)))
