"""Why a handler refuses one topic, partition or resource of a request."""

from __future__ import annotations

from typing import NamedTuple


class Refusal(NamedTuple):
    """An error code, and Kafka's text for it if the response carries one."""

    code: int
    message: str | None = None
