"""The settings of the transactional producer that a pipeline or a job makes for itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from fencepost.producer.errors import ConfigError

LINGER_MS: Final = 50
"""A commit sends what lingers at once, and until then larger batches cost less."""


PAUSE_MAX_MS: Final = 10_000
"""The default of `retry_backoff_max_ms`."""


class Owner(Protocol):
    """The settings of a pipeline or a job, as far as its producer depends on them."""

    @property
    def bootstrap_servers(self) -> Any: ...

    @property
    def batch_ms(self) -> int: ...

    @property
    def call_timeout_ms(self) -> int: ...

    @property
    def transaction_timeout_ms(self) -> int: ...

    @property
    def retry_backoff_ms(self) -> int: ...

    @property
    def retry_backoff_max_ms(self) -> int: ...


def check_transaction_timeout(owner: Owner) -> None:
    """Refuse a batch that the coordinator would abort before it is full, or during one pause before something is tried again."""
    if owner.batch_ms >= owner.transaction_timeout_ms:
        raise ConfigError(
            f"batch_ms={owner.batch_ms}: it must be less than transaction_timeout_ms={owner.transaction_timeout_ms}, after which the"
            " coordinator aborts the batch's transaction"
        )
    for name in ("retry_backoff_ms", "retry_backoff_max_ms"):
        pause_ms = getattr(owner, name)
        if pause_ms >= owner.transaction_timeout_ms:
            raise ConfigError(
                f"{name}={pause_ms}: it must be less than transaction_timeout_ms={owner.transaction_timeout_ms}, because a transaction may"
                " be open during such a pause, and the coordinator would abort it"
            )


def longest_pause(given: Mapping[str, Any]) -> dict[str, Any]:
    """`retry_backoff_max_ms` where only a short `transaction_timeout_ms` is given: its half."""
    timeout_ms = given.get("transaction_timeout_ms")
    if "retry_backoff_max_ms" in given or not isinstance(timeout_ms, int) or timeout_ms // 2 >= PAUSE_MAX_MS:
        return {}
    return {"retry_backoff_max_ms": max(1, timeout_ms // 2)}


def transaction_settings(owner: Owner, transactional_id: str, given: Mapping[str, Any], **defaults: Any) -> dict[str, Any]:
    """A producer's settings. `given` replaces the defaults, and what the owner decides replaces both."""
    spelled = {str(name).replace(".", "_") for name in given}
    defaults |= {
        "max_block_ms": owner.call_timeout_ms,
        "linger_ms": min(LINGER_MS, owner.batch_ms),
        "on_open_transaction": "abort",  # What a killed run left open was never prepared.
    }
    return {
        **{name: value for name, value in defaults.items() if name not in spelled},
        **given,
        "bootstrap_servers": owner.bootstrap_servers,
        "transactional_id": transactional_id,
        "transaction_timeout_ms": owner.transaction_timeout_ms,
    }
