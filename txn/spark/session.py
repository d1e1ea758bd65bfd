"""A Java for Spark: where it is, and what to install where there is none. And a Python for its workers; and what a job is called.

pyspark starts `java` from JAVA_HOME or the path, and says little when that fails. Sessions are the program's own business, and are not made
here; whether a Java is of the right version is Spark's to say.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from producer.core.errors import Misuse

log = logging.getLogger("fencepost.spark")

PYTHON: Final = "PYSPARK_PYTHON"
ANY_PYTHON: Final = "python3"
"""What Spark starts where nobody says which Python: whatever is the first of that name on the path."""
DESCRIPTION: Final = "spark.job.description"

ADVICE = (
    "Spark runs on Java, and there is none: neither JAVA_HOME nor the path leads to one. Install Java 17 or 21: on Debian and Ubuntu "
    "`apt-get install openjdk-17-jre-headless`, on Fedora and RHEL `dnf install java-17-openjdk-headless`, on macOS `brew install "
    "openjdk@17`, with conda `conda install -c conda-forge openjdk=17`; and set JAVA_HOME if it is not on the path"
)


class JavaMissing(Misuse, RuntimeError):
    """No Java can be found. The text says which package to install."""


def find_java() -> str:
    """The path of `java` as pyspark will look for it. Raises JavaMissing, also for a JAVA_HOME without one."""
    home = os.environ.get("JAVA_HOME")
    if home:
        found = Path(home, "bin", "java")
        if not os.access(found, os.X_OK):
            raise JavaMissing(f"JAVA_HOME={home!r}: there is no {found}. {ADVICE}")
        return str(found)
    on_path = shutil.which("java")
    if on_path is None:
        raise JavaMissing(ADVICE)
    return on_path


def settle_python(context: Any) -> None:
    """Where executors are on this host and nobody has said which Python is theirs, it is this one: what is first on the path, where no
    environment was activated, has no fencepost. `context`: Spark's, None under Connect."""
    if context is None or not context.master.startswith("local") or os.environ.get(PYTHON) or context.pythonExec != ANY_PYTHON:
        return
    if sys.executable:
        log.info("%s is not set: Python workers on this host are %s, as the driver is", PYTHON, sys.executable)
        context.pythonExec = sys.executable


@contextmanager
def described(context: Any, text: str) -> Iterator[None]:
    """Spark's pages call the jobs of the block that; what they were called before comes back after it."""
    if context is None:
        yield
        return
    before = context.getLocalProperty(DESCRIPTION)
    context.setLocalProperty(DESCRIPTION, text)
    try:
        yield
    finally:
        context.setLocalProperty(DESCRIPTION, before)
