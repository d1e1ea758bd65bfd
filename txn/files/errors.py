"""Why a file cannot be read, in one sentence for the user."""

from __future__ import annotations


class BadInput(Exception):
    """The file, or what is to be taken from it, is wrong. Nothing was read."""


class InputBroken(Exception):
    """The rest of the input cannot be read. The records before it can be sent."""
