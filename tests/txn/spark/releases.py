"""The running release of Spark, and the features that it lacks. Tests that need such a feature are skipped with the reason.

Other tests check what fencepost does if a feature is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyspark
import pytest

RELEASE: Final = tuple(int(part) for part in pyspark.__version__.split(".")[:2])

ARROW_WRITERS: Final = (4, 1), "Python data sources that write Arrow batches"
DATA_SOURCES: Final = (4, 0), "Python data sources"

CONNECT_SERVER: Final = (4, 0), "Connect server of its own (it is a package for the JVM)"

FILES: Final[Mapping[str, tuple[tuple[int, int], str]]] = {
    "test_checkpoint.py": ARROW_WRITERS,
    "test_connect.py": CONNECT_SERVER,
    "test_writer.py": ARROW_WRITERS,
    "test_writer_in_spark.py": ARROW_WRITERS,
    "test_rival_writers.py": ARROW_WRITERS,
    "test_write_topics.py": ARROW_WRITERS,
    "test_reader_in_spark.py": DATA_SOURCES,
    "test_reader.py": DATA_SOURCES,
}
"""What a whole file needs."""


def missing(needs: tuple[tuple[int, int], str]) -> str | None:
    """The reason why the feature is missing; None if it is there."""
    release, what = needs
    return None if release <= RELEASE else f"Spark {pyspark.__version__} has no {what}: from {release[0]}.{release[1]} on"


def needs(release: tuple[int, int], what: str) -> pytest.MarkDecorator:
    """Mark a test that needs a feature of newer releases."""
    why_not = missing((release, what))
    return pytest.mark.skipif(why_not is not None, reason=why_not or "")
