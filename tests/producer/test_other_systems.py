"""Systems that lack what others have: what can be imported there, and what an import that fails says."""

from __future__ import annotations

import subprocess
import sys

import pytest

PACKAGES = ("fencepost.producer", "fencepost.txn", "fencepost.broker_stub", "fencepost")


def imported(package: str, before: str) -> subprocess.CompletedProcess[str]:
    """Import everything public of a package in a process of its own, `before` that run."""
    every = f"package = import_module('{package}')\nfor name in package.__all__: getattr(package, name)"
    program = f"{before}\nfrom importlib import import_module\n{every}\nprint('imported')"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_system_without_fork(package: str) -> None:
    """On Windows there is no fork, nor anything to register for it: everything public can be imported all the same."""
    lacking = "import os, sys\nfor name in ('register_at_fork', 'fork', 'writev', 'forkpty'): delattr(os, name)"
    ended = imported(package, lacking)
    assert ended.stdout == "imported\n", ended.stderr


def test_an_import_that_fails_says_why() -> None:
    """What is missing is in the error, where Python says of an AttributeError only that the name cannot be imported."""
    program = "import asyncio, atexit, logging\ndel atexit.register\nfrom fencepost.producer import Producer"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False)
    assert "ImportError: fencepost.producer.producer: module 'atexit' has no attribute 'register'" in ended.stderr
