"""The settings that a transactional producer has besides a producer's, in both spellings, checked.

All other settings go to `fencepost.producer.config.reader`. A setting that contradicts transactions is refused here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from fencepost.producer.config.names import spelled
from fencepost.producer.errors import ConfigError
from fencepost.txn.config.on_open import OnOpen
from fencepost.txn.recovery.token import BadToken, PreparedTransaction, read_token

DEFAULT_TIMEOUT_MS: Final = 60_000
TIMEOUT_MS_MAX: Final = 2_147_483_647
ID_BYTES_MAX: Final = 32_767


class TransactionSettings(Struct, frozen=True, kw_only=True):
    """`transactional_id`: identifies the producer's transactions; a second producer with the same id fences the first.
    `transaction_timeout_ms`: the coordinator aborts a transaction that is open for longer; at most the brokers' transaction.max.timeout.ms.
    `on_open_transaction`: what registering does to a transaction that is open under the id. `prepared`: tokens of transactions that
    registering must leave open. `transaction_two_phase_commit_enable`: ask for KIP-939, if brokers have it. `existing_topics`: topics that
    brokers must not create when the producer sends to a missing one, even if `allow_auto_create_topics` is True."""

    transactional_id: str
    transaction_timeout_ms: int
    on_open_transaction: OnOpen = OnOpen.ABORT_UNPREPARED
    prepared: tuple[PreparedTransaction, ...] = ()
    transaction_two_phase_commit_enable: bool = False
    existing_topics: tuple[str, ...] = ()


def read_transaction_settings(given: Mapping[str, Any]) -> tuple[TransactionSettings, dict[str, Any]]:
    """These settings, and the rest. Raises ConfigError."""
    ours: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for name, key, value in spelled(given, _name):
        if name in TransactionSettings.__struct_fields__:
            ours[name] = value
        else:
            rest[key] = value
    if "transactional_id" not in ours:
        raise ConfigError("transactional_id is missing: give the producer a name of its own, the same after a restart")
    name, timeout_ms = ours["transactional_id"], ours.get("transaction_timeout_ms", DEFAULT_TIMEOUT_MS)
    if not isinstance(name, str) or not name:
        raise ConfigError(f"transactional_id={name!r}: must be a non-empty text")
    try:
        encoded = name.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"transactional_id={name!r:.60} cannot be encoded as UTF-8: {error.reason}") from None
    if len(encoded) > ID_BYTES_MAX:
        raise ConfigError(f"transactional_id={name!r:.60}: Kafka's protocol takes at most {ID_BYTES_MAX} bytes")
    if isinstance(timeout_ms, bool) or not isinstance(timeout_ms, int) or not 0 < timeout_ms <= TIMEOUT_MS_MAX:
        raise ConfigError(f"transaction_timeout_ms={timeout_ms!r}: a whole number of milliseconds from 1 to {TIMEOUT_MS_MAX}")
    return (
        TransactionSettings(
            transactional_id=name,
            transaction_timeout_ms=timeout_ms,
            on_open_transaction=_read_policy(ours.get("on_open_transaction", OnOpen.ABORT_UNPREPARED)),
            prepared=_read_tokens(ours.get("prepared", ())),
            transaction_two_phase_commit_enable=_read_flag(ours.get("transaction_two_phase_commit_enable", False)),
            existing_topics=_read_topics(ours.get("existing_topics", ())),
        ),
        rest,
    )


def _read_policy(given: object) -> OnOpen:
    try:
        return OnOpen(given)
    except ValueError:
        raise ConfigError(f"on_open_transaction={given!r}: one of {', '.join(repr(each.value) for each in OnOpen)}") from None


def _read_flag(given: object) -> bool:
    if not isinstance(given, bool):
        raise ConfigError(f"transaction_two_phase_commit_enable={given!r}: True or False")
    return given


def _read_topics(given: object) -> tuple[str, ...]:
    topics = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else None
    if topics is None or not all(isinstance(each, str) for each in topics):
        what = "a single name: write [name]" if isinstance(given, str) else "a list of topics' names"
        raise ConfigError(f"existing_topics={given!r:.300}: {what}")
    return topics


def _read_tokens(given: Any) -> tuple[PreparedTransaction, ...]:
    """One token or several, each a PreparedTransaction or its text."""
    several = (given,) if isinstance(given, str | bytes | PreparedTransaction) else given
    try:
        return tuple(map(read_token, several))
    except (TypeError, BadToken) as error:
        raise ConfigError(f"prepared: tokens of prepared transactions, as prepare() returned them: {error}") from None


def _name(key: str, value: object) -> str:
    """Our settings in one spelling; the producer's unchanged."""
    name = key.replace(".", "_")
    return name if name in TransactionSettings.__struct_fields__ else key
