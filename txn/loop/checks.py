"""Checks of settings that pipelines and jobs have in common. Each raises ConfigError, if it does not say otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fencepost.producer.errors import ConfigError

INT32_MAX: Final = 2_147_483_647
TEXT_CHARS_MAX: Final = 200
OWNED: Final = ("transactional_id", "transaction_timeout_ms", "bootstrap_servers")
"""A producer's settings that pipelines and jobs have themselves."""


def check_within(name: str, value: Any, least: int, most: int) -> None:
    """Refuse what is no whole number in this range."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConfigError(f"{name}={value!r}: a whole number from {least} to {most}")


def check_text(name: str, value: Any, *, optional: bool = False) -> None:
    """Refuse what is no printable text."""
    if value is None and optional:
        return
    if not isinstance(value, str) or not value.strip() or len(value) > TEXT_CHARS_MAX or not value.isprintable():
        raise ConfigError(f"{name}={value!r:.300}: a printable text of 1 to {TEXT_CHARS_MAX} characters")


def check_producer(given: Mapping[str, Any], owner: str) -> None:
    """Refuse settings of the producer that the owner, a pipeline or a job, has itself."""
    for name in given:
        known = str(name).replace(".", "_")
        if known in OWNED:
            raise ConfigError(f"producer={{{name!r}: ...}}: set the {owner}'s own {known}")
        if known.endswith("_serializer"):
            raise ConfigError(f"producer={{{name!r}: ...}}: a {owner}'s transform returns bytes; serialize there")


def check_batches(batches: object) -> None:
    """Refuse a wrong `max_batches`. Raises TypeError or ValueError."""
    if batches is None:
        return
    if isinstance(batches, bool) or not isinstance(batches, int):
        raise TypeError(f"max_batches={batches!r}: a whole number or None, not {type(batches).__name__}")
    if batches < 1:
        raise ValueError(f"max_batches={batches}: at least 1")


def unknown(name: str, known: Sequence[str], otherwise: str) -> ConfigError:
    """The error for a name that is no setting: it suggests a similar one, or says where others go."""
    import difflib  # only for an unknown name

    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return ConfigError(f"unknown setting {name!r}: {f'did you mean {near[0]!r}?' if near else otherwise}")
