"""The settings of the pipeline's consumer, for librdkafka. A setting with which results could be lost or doubled is refused."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from fencepost.producer.config.reader import read_settings
from fencepost.producer.errors import ConfigError
from fencepost.producer.network.librdkafka_tokens import OauthCallback
from fencepost.txn.pipeline.repeats import OnceInAWhile
from fencepost.txn.pipeline.settings import PipelineSettings

log = logging.getLogger("fencepost.pipeline.consumer")
log.addFilter(OnceInAWhile())

OWNED: Final = {"group.id": "group", "bootstrap.servers": "bootstrap_servers", "metadata.broker.list": "bootstrap_servers"}
"""librdkafka's names of settings that the pipeline has itself."""
INSTANCE: Final = "group.instance.id"
FIXED: Final = {
    "enable.auto.commit": (False, "the transaction commits the offsets, together with the results"),
    "enable.auto.offset.store": (False, "the pipeline knows which messages it has processed"),
    "isolation.level": (
        "read_committed",
        "with read_uncommitted it would read aborted messages, and committed offsets would be read while the transaction of a killed"
        " instance is still open: its messages would count twice",
    ),
    "enable.partition.eof": (True, "the pipeline uses it to know when it has read everything"),
}
"""Settings with the only value that a pipeline can have, and why."""
DEFAULTS: Final = {"fetch.queue.backoff.ms": 20}
"""Where librdkafka's own default does not suit a pipeline. Once 100,000 messages (queued.min.messages) wait to be read, it fetches nothing
for a whole second, in which a pipeline could process several times as many."""
TOKENS: Final = ("sasl.oauth.token.provider", "sasl.oauthbearer.config", "oauth.cb")
"""Settings of tokens, with dots. The provider of the producer serves the consumer too."""
RESETS: Final = ("earliest", "latest", "error", "smallest", "largest", "beginning", "end")
MAX_POLL_MS: Final = 300_000
"""librdkafka's default of max.poll.interval.ms."""


def consumer_settings(settings: PipelineSettings) -> dict[str, Any]:
    """Everything for the consumer. Raises ConfigError."""
    given = {str(name): value for name, value in settings.consumer.items()}
    for name, value in given.items():
        _refuse(name.replace("_", "."), name, value)
    reset = given.get("auto.offset.reset", "earliest")
    if str(reset) not in RESETS:
        raise ConfigError(f"consumer={{'auto.offset.reset': {reset!r}}}: earliest, latest or error")
    longest = _whole_number("max.poll.interval.ms", given.get("max.poll.interval.ms", MAX_POLL_MS))
    if settings.batch_ms >= longest:
        raise ConfigError(f"batch_ms={settings.batch_ms}: it must be less than the consumer's max.poll.interval.ms={longest}")
    return {
        "auto.offset.reset": reset,
        "logger": log,
        **DEFAULTS,
        **_connection(settings),
        **given,
        **{name: value for name, (value, _) in FIXED.items()},
        **({INSTANCE: settings.instance} if settings.instance is not None else {}),
        "bootstrap.servers": settings.servers,
        "group.id": settings.group,
    }


def has_consumer_protocol(settings: Mapping[str, Any]) -> bool:
    """Whether the consumer's group has the consumer protocol (KIP-848)."""
    return str(settings.get("group.protocol")).lower() == "consumer"


def _connection(settings: PipelineSettings) -> dict[str, Any]:
    """The settings of both clients, with the token provider as librdkafka takes it."""
    tokens = {name: value for name, value in settings.connection.items() if name.replace("_", ".") in TOKENS}
    if not tokens:
        return dict(settings.connection)
    both = read_settings({**settings.connection, "bootstrap_servers": settings.servers})
    others = {name: value for name, value in settings.connection.items() if name not in tokens}
    return {**others, "oauth_cb": OauthCallback(both)} if both.sasl_oauth_token_provider is not None else others


def _whole_number(name: str, value: object) -> int:
    try:
        return int(str(value))
    except ValueError:
        raise ConfigError(f"consumer={{{name!r}: {value!r}}}: a whole number") from None


def _refuse(known: str, name: str, value: object) -> None:
    if known in OWNED:
        raise ConfigError(f"consumer={{{name!r}: ...}}: set the pipeline's own {OWNED[known]}")
    if known == INSTANCE:
        raise ConfigError(f"consumer={{{name!r}: ...}}: set the pipeline's own instance, which names the transactional id too")
    if known in FIXED:
        wanted, why = FIXED[known]
        if str(value).lower() != str(wanted).lower():
            raise ConfigError(f"consumer={{{name!r}: {value!r}}}: a pipeline needs {wanted!r}, because {why}")
