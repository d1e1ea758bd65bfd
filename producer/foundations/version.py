"""The version that the project calls itself, as brokers see it in ApiVersions."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.1.0"
