"""aiokafka's constructor arguments as fencepost's settings.

What fencepost cannot do is refused by name: Kerberos, and batches above 1 MiB. What aiokafka ignores is ignored here too: `sasl_*` without
a SASL protocol, and `ssl_context` without TLS.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, Final

from fencepost.producer.config.limits import AT_LEAST, BATCH_SIZE_MAX
from fencepost.producer.config.settings import Partitioner
from fencepost.producer.errors import ConfigError

log = logging.getLogger("fencepost.compat")

PORT: Final = 9092
ACKS: Final = (0, 1, -1, "all")
CODECS: Final = (None, "gzip", "snappy", "lz4", "zstd")
TLS: Final = ("SSL", "SASL_SSL")
SASL: Final = ("SASL_PLAINTEXT", "SASL_SSL")
NUMBERS: Final = count(1)
"""The numbers in default client ids."""
BUFFER_MEMORY: Final = 32 * 1024 * 1024
LONGEST_BACKOFF_MS: Final = 1_000.0
LONGEST_CONNECT_MS: Final = 10_000.0

SMALLEST_REQUEST: Final = int(AT_LEAST["max_request_size"])
"""A smaller max_request_size is a limit of records alone."""

SAME: Final = ("metadata_max_age_ms", "request_timeout_ms", "linger_ms", "retry_backoff_ms", "security_protocol")
"""Arguments that have the same name and meaning here."""


def read_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of an AsyncProducer. `given`: every argument of the constructor. Raises ConfigError, which is a ValueError."""
    settings: dict[str, Any] = {name: given[name] for name in SAME}
    for name in ("linger_ms", "request_timeout_ms", "retry_backoff_ms", "max_batch_size", "max_request_size"):
        if isinstance(given[name], bool) or not isinstance(given[name], int | float):
            raise ConfigError(f"{name}={given[name]!r}: it must be a number")
    settings.update(
        bootstrap_servers=_servers(given["bootstrap_servers"]),
        client_id=f"aiokafka-producer-{next(NUMBERS)}" if given["client_id"] is None else given["client_id"],
        compression_type=_codec(given["compression_type"]),
        partitioner=_partitioner(given["partitioner"]),
        batch_size=_batch_size(given["max_batch_size"]),
        max_request_size=max(SMALLEST_REQUEST, int(given["max_request_size"])),
        buffer_memory=max(BUFFER_MEMORY, int(given["max_request_size"])),
        connections_max_idle_ms=float("inf") if given["connections_max_idle_ms"] is None else given["connections_max_idle_ms"],
        retry_backoff_max_ms=max(LONGEST_BACKOFF_MS, given["retry_backoff_ms"]),
        socket_connection_setup_timeout_ms=min(LONGEST_CONNECT_MS, given["request_timeout_ms"]),
        # aiokafka's one timeout is how long `send` waits, how long a request takes, and half of the longest time to an outcome.
        max_block_ms=given["request_timeout_ms"],
        delivery_timeout_ms=given["linger_ms"] + 2 * given["request_timeout_ms"],
    )
    settings.update(_acknowledgement(given["acks"], given["enable_idempotence"], given["transactional_id"]))
    settings.update(_security(given))
    if given["transactional_id"] is not None:
        settings.update(transactional_id=given["transactional_id"], transaction_timeout_ms=given["transaction_timeout_ms"])
    return settings


def is_unset(acks: object) -> bool:
    """Whether the caller gave no acks: None here, and a bare object() in aiokafka, which frameworks pass on."""
    return acks is None or type(acks) is object


def _servers(given: object) -> list[str]:
    """The servers, with aiokafka's default port."""
    if isinstance(given, str):
        return [_with_port(each.strip()) for each in given.split(",") if each.strip()]
    if not isinstance(given, Sequence) or not all(isinstance(each, str) for each in given):
        raise ConfigError(f"bootstrap_servers={given!r}: it must be a 'host:port', or a list of them")
    return [_with_port(each.strip()) for each in given]


def _with_port(server: str) -> str:
    if server.startswith("["):
        return server if "]:" in server else f"{server}:{PORT}"
    if server.count(":") > 1 and "://" not in server:
        return f"[{server}]:{PORT}"  # a bare IPv6 address
    return server if ":" in server.rpartition("://")[2] else f"{server}:{PORT}"


def _codec(given: object) -> object:
    if given not in CODECS:
        raise ConfigError(f"compression_type={given!r}: it must be one of {', '.join(map(repr, CODECS))}")
    return "none" if given is None else given


def _partitioner(given: Any) -> Partitioner | Callable[..., int | None]:
    """aiokafka's own partitioner is recognised by its name: fencepost's default places keys as it does."""
    if given is None or (type(given).__module__, type(given).__name__) == ("aiokafka.partitioner", "DefaultPartitioner"):
        return Partitioner.DEFAULT
    if not callable(given):
        raise ConfigError(f"partitioner={given!r}: it must be a function of (key, all_partitions, available_partitions)")
    function: Callable[..., int | None] = given
    return function


def _batch_size(given: float) -> int:
    if not 0 <= given <= BATCH_SIZE_MAX:
        raise ConfigError(
            f"max_batch_size={given}: from 0 to {BATCH_SIZE_MAX} bytes here; lower it. A record may be larger, up to max_request_size"
        )
    return int(given)


def _acknowledgement(acks: Any, idempotent: bool | None, transactional_id: object) -> dict[str, Any]:
    """Safe unless the caller says otherwise: acks=all with idempotence. acks=0, acks=1 and enable_idempotence=False are obeyed."""
    if not is_unset(acks) and (isinstance(acks, bool) or acks not in ACKS):
        raise ConfigError(f"acks={acks!r}: it must be 0, 1, 'all' or -1")
    if transactional_id is not None:
        idempotent = True
    weak = not is_unset(acks) and acks in (0, 1)
    if idempotent and weak:
        cause = "transactional_id" if transactional_id is not None else "enable_idempotence=True"
        raise ConfigError(f"acks={acks}: {cause} needs acks='all'; leave acks out")
    if is_unset(acks):
        return {"acks": "all", "enable_idempotence": idempotent is not False}
    return {"acks": acks, "enable_idempotence": not weak and idempotent is not False}


def _security(given: Mapping[str, Any]) -> dict[str, Any]:
    """What the protocol uses of TLS and SASL."""
    protocol, context = given["security_protocol"], given["ssl_context"]
    if protocol not in (*TLS, *SASL, "PLAINTEXT"):
        raise ConfigError(f"security_protocol={protocol!r}: it must be PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL")
    settings: dict[str, Any] = {}
    if protocol in TLS:
        if context is None:
            raise ConfigError(f"security_protocol={protocol} needs ssl_context: give ssl.create_default_context() or a context of yours")
        settings["ssl_context"] = context
    elif context is not None:
        log.warning("ssl_context is ignored, because security_protocol=%s uses no TLS: set it to SSL or SASL_SSL", protocol)
    if protocol in SASL:
        settings.update(_sasl(given))
    return settings


def _sasl(given: Mapping[str, Any]) -> dict[str, Any]:
    mechanism = given["sasl_mechanism"]
    if mechanism == "GSSAPI":
        raise ConfigError("sasl_mechanism='GSSAPI': Kerberos is not supported; use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER")
    if mechanism == "OAUTHBEARER":
        provider = given["sasl_oauth_token_provider"]
        if not callable(getattr(provider, "token", None)):
            raise ConfigError(f"sasl_oauth_token_provider={provider!r}: OAUTHBEARER needs an object with an async method token()")
        return {"sasl_mechanism": mechanism, "sasl_oauth_token_provider": _token_function(provider)}
    username, password = given["sasl_plain_username"], given["sasl_plain_password"]
    if username is None or password is None:
        raise ConfigError(f"sasl_mechanism={mechanism!r} needs sasl_plain_username and sasl_plain_password")
    return {"sasl_mechanism": mechanism, "sasl_username": username, "sasl_password": password}


def _token_function(provider: Any) -> Callable[[], Any]:
    """aiokafka's token provider as a coroutine function."""

    async def token() -> tuple[str, None, None, Mapping[str, str] | None]:
        extensions = getattr(provider, "extensions", None)
        return await provider.token(), None, None, extensions() if callable(extensions) else None

    return token
