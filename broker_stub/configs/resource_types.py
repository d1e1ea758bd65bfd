"""The types of resources that have configs, with Kafka's numbers (`ConfigResource.Type`)."""

from __future__ import annotations

from enum import IntEnum


class ResourceType(IntEnum):
    """What a config belongs to."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32
