"""Reading settings: what they become, and the words of a refusal."""

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
    """The words with which these settings are refused."""
    with pytest.raises(ConfigError) as refused:
        read_settings({**BARE, **given})
    return str(refused.value)
