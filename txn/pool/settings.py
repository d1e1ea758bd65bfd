"""The settings that a pool has besides a transactional producer's, in both spellings, checked when the pool is made."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from os import PathLike
from typing import Any, Final

from msgspec import Struct

from fencepost.producer.config.names import setting_name, spelled
from fencepost.producer.config.reader import read_settings
from fencepost.producer.config.security import hidden
from fencepost.producer.errors import ConfigError
from fencepost.producer.serializers import refuse_awaited
from fencepost.producer.telemetry.spans import Telemetry
from fencepost.txn.config.settings import read_transaction_settings
from fencepost.txn.loop.checks import INT32_MAX, check_text, check_within

SLOTS_MAX: Final = 10_000
RANGES: Final = {
    "size": (1, SLOTS_MAX),
    "warm": (0, SLOTS_MAX),
    "acquire_timeout_ms": (0, INT32_MAX),
    "close_timeout_ms": (0, INT32_MAX),
}
"""Whole numbers, from and to."""


class PoolSettings(Struct, frozen=True, kw_only=True):
    """Times in milliseconds. docs/services.md has these in a table."""

    transactional_id_prefix: str
    """The transactional ids are `{prefix}-{instance}-{slot}`, and `{prefix}-{instance}-guard`."""
    instance: str | None = None
    """A name that no other live process has. None: the pool chooses one."""
    size: int = 8
    """How many transactions can be open at once, each in a slot with a producer of its own."""
    warm: int = 1
    """How many slots `init` opens. The others are opened when they are needed."""
    acquire_timeout_ms: int = 10_000
    """How long the beginning of a transaction may take, with the wait for a free slot."""
    close_timeout_ms: int = 30_000
    """How long `close` may take, with the wait for open transactions."""
    lock_directory: str | PathLike[str] | None = None
    """Where the locks of chosen instances are. None: a directory of the user under the system's temporary directory."""

    def transactional_id(self, instance: str, slot: int | str) -> str:
        """The id of a slot, or of the guard."""
        return f"{self.transactional_id_prefix}-{instance}-{slot}"


def read_pool_settings(given: Mapping[str, Any], *, awaits: bool = True) -> tuple[PoolSettings, dict[str, Any]]:
    """These settings, and the producers'. `awaits`: whether the producers await serializers. Raises ConfigError."""
    ours: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for name, key, value in spelled(given, _name):
        if name == "transactional_id":
            raise ConfigError(
                f"{key}={value!r:.300}: a pool makes the ids of its producers: give it transactional_id_prefix={value!r:.300}"
            )
        if name in PoolSettings.__struct_fields__:
            ours[name] = value
        else:
            rest[key] = value
    if not ours.get("transactional_id_prefix"):
        raise ConfigError("transactional_id_prefix is missing: a name for the transactions of this service, the same in each process")
    settings = PoolSettings(**ours)
    check_text("transactional_id_prefix", settings.transactional_id_prefix)
    check_text("instance", settings.instance, optional=True)
    for name, (least, most) in RANGES.items():
        check_within(name, getattr(settings, name), least, most)
    if settings.warm > settings.size:
        raise ConfigError(f"warm={settings.warm}: at most size={settings.size}")
    if not isinstance(settings.lock_directory, str | PathLike | None):
        raise ConfigError(f"lock_directory={settings.lock_directory!r:.300}: the path of a directory, or None")
    _check_producer(rest, settings.transactional_id_prefix, awaits=awaits)
    return settings, hidden(rest)


def _check_producer(given: dict[str, Any], prefix: str, *, awaits: bool) -> None:
    """Refuse now what each producer would refuse."""
    _, producers = read_transaction_settings({**given, "transactional_id": prefix})
    try:
        settings = read_settings(producers)
    except ConfigError:
        for name in filter(_is_unknown, producers):
            near = difflib.get_close_matches(name.replace(".", "_"), PoolSettings.__struct_fields__, n=1, cutoff=0.75)
            if near:
                raise ConfigError(f"unknown setting {name!r}; did you mean {near[0]!r}?") from None
        raise
    if not settings.enable_idempotence:
        raise ConfigError("a transaction needs acks=all, enable_idempotence=True and retries: leave these settings out")
    if not awaits:
        refuse_awaited(settings)
    if settings.telemetry:
        Telemetry(settings.client_id)


def _is_unknown(name: str) -> bool:
    try:
        setting_name(name)
    except ConfigError:
        return True
    return False


def _name(key: str, value: object) -> str:
    """Ours in one spelling; the producers' unchanged."""
    name = key.replace(".", "_")
    return name if name in PoolSettings.__struct_fields__ or name == "transactional_id" else key
