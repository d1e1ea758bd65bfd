"""TEMPORARY"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from producer.config import read_settings


class SettingsBox:
    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = dict(settings)

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> SettingsBox:
        return cls(settings)

    def open(self) -> dict[str, Any]:
        return dict(self._settings)

    @property
    def key(self) -> object:
        return msgspec.json.encode(sorted(self._settings.items()))

    @property
    def largest(self) -> tuple[int, str]:
        s = read_settings(self._settings)
        return min(s.max_request_size, s.buffer_memory), f"max_request_size={s.max_request_size}"
