"""The Java for Spark: where it is, and what to install if there is none.

pyspark starts `java` from JAVA_HOME or the path, and its own error says little. This module makes no session, and does not check Java's
version: Spark does.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from fencepost.producer.errors import Misuse

ADVICE = (
    "Spark runs on Java, and there is none: neither JAVA_HOME nor the path leads to one. Install Java 17 or 21: on Debian and Ubuntu "
    "`apt-get install openjdk-17-jre-headless`, on Fedora and RHEL `dnf install java-17-openjdk-headless`, on macOS `brew install "
    "openjdk@17`, with conda `conda install -c conda-forge openjdk=17`; and set JAVA_HOME if it is not on the path"
)


class JavaMissing(Misuse, RuntimeError):
    """There is no Java. The text says which package to install."""


def find_java() -> str:
    """The path of `java`, found as pyspark finds it. Raises JavaMissing, also for a JAVA_HOME without one."""
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
