"""Reads settings, and returns the result or the text of the refusal."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.producer import ConfigError, Settings
from fencepost.producer.config.reader import read_settings

BARE: dict[str, Any] = {"bootstrap_servers": "a:9092"}


def read(**given: Any) -> Settings:
    """These settings besides the address."""
    return read_settings({**BARE, **given})


def refusal(given: dict[str, Any]) -> str:
    """The text with which the reader refuses these settings."""
    with pytest.raises(ConfigError) as refused:
        read_settings({**BARE, **given})
    return str(refused.value)
