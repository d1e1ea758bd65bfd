"""Installs quixstreams once into a virtual environment in the per-user cache: it pins confluent-kafka, and brings forty packages."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from functools import cache
from pathlib import Path
from typing import Final

from tests.conformance.kafka_home import KafkaUnavailable, locked

VERSION: Final = "3.28.1"
FETCH_TIMEOUT_S: Final = 600.0


@cache
def quix_python() -> Path:
    """The interpreter that has quixstreams. pip fetches it if it is missing."""
    home = Path.home() / ".cache" / "fencepost" / f"quixstreams-{VERSION}-{sys.implementation.cache_tag}"
    python = home / "bin" / "python"
    home.parent.mkdir(parents=True, exist_ok=True)
    with locked(home.with_name(home.name + ".lock")):
        if not (home / "complete").exists():
            shutil.rmtree(home, ignore_errors=True)
            venv.create(home, with_pip=True)
            _install(python)
            (home / "complete").touch()
    return python


def _install(python: Path) -> None:
    command = [str(python), "-m", "pip", "install", "--quiet", "--no-input", f"quixstreams=={VERSION}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise KafkaUnavailable(f"pip did not install quixstreams {VERSION} within {FETCH_TIMEOUT_S:.0f} s") from None
    if done.returncode != 0:
        raise KafkaUnavailable(f"pip could not install quixstreams {VERSION}: {done.stderr.strip().splitlines()[-1:]}")
