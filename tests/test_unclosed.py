"""For a socket that was not closed, the report names the place that created it, at any time of garbage collection."""

from __future__ import annotations

import gc
import os
import socket
import sys
import warnings
from types import ModuleType

import pytest


def forget(made: socket.socket) -> None:
    """Leave the socket to the garbage collector, as an exception's frames do."""
    around: list[object] = [made]
    around.append(around)


def test_it_says_where_it_was_made() -> None:
    """The warning about a socket that was never closed shows the line that made the socket."""
    forget(socket.socket())
    with pytest.warns(ResourceWarning, match=r"unclosed <socket\.socket fd=(.|\n)*test_it_says_where_it_was_made"):
        gc.collect()


def test_closed_ones_say_nothing() -> None:
    """A socket that was closed causes no warning."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with socket.socket() as closed:
            forget(closed)
        gc.collect()
    assert not [each for each in told if "test_closed_ones" in str(each.message)]


def test_some_packages_are_forgiven(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their sockets are closed without a report."""
    theirs = ModuleType("kafka.net")
    exec("import socket\ndef connect(): return socket.socket()", theirs.__dict__)
    monkeypatch.setitem(sys.modules, "kafka.net", theirs)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        made = theirs.connect()
        number = made.fileno()
        forget(made)
        del made
        gc.collect()
    assert not [each for each in told if "test_some_packages" in str(each.message)]
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)
