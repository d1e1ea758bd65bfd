"""`fencepost broker`: a cluster of the stub in the foreground.

It is written to be up before a script's next line needs it: nothing here loads typer. What the plain reader does not understand, help and
mistakes included, it leaves to typer, whose declaration of the same options is in `app`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final

_PLAIN: Final[dict[str, type]] = {"--brokers": int, "--host": str, "--port": int, "--partitions": int, "--control": str, "--emulate": str}


def read_plain(arguments: Sequence[str]) -> dict[str, Any] | None:
    """The options of a command line without surprises (`--name value` or `--name=value`, each once, numbers in range); None for others."""
    words = [part for argument in arguments for part in (argument.split("=", 1) if argument.startswith("--") else [argument])]
    if len(words) % 2:
        return None
    options: dict[str, Any] = {}
    for name, value in zip(words[::2], words[1::2], strict=True):
        kind = _PLAIN.get(name)
        key = name.removeprefix("--")
        if kind is None or key in options or not value or (kind is int and not (value.isascii() and value.isdigit())):
            return None
        options[key] = kind(value)
    in_range = options.get("brokers", 1) >= 1 and options.get("partitions", 1) >= 1 and options.get("port", 0) <= 65535
    return options if in_range else None


def run(
    *,
    brokers: int = 1,
    host: str = "127.0.0.1",
    port: int = 9092,
    partitions: int = 1,
    config: Sequence[str] | None = None,
    tls_cert: str | None = None,
    tls_key: str | None = None,
    tls_client_ca: str | None = None,
    sasl_user: Sequence[str] | None = None,
    control: str | None = None,
    virtual_clock: bool = False,
    emulate: str = "4.3",
) -> int:
    """Serve until a signal; returns the exit code. Says on standard error why it cannot."""
    from broker_stub.command import serve

    try:
        serve(
            brokers=brokers,
            host=host,
            port=port,
            default_partitions=partitions,
            config=dict(map(_pair, config or ())),
            tls_cert=tls_cert,
            tls_key=tls_key,
            tls_client_ca=tls_client_ca,
            sasl_users=dict(map(_user, sasl_user or ())),
            control=control,
            virtual_clock=virtual_clock,
            emulate=emulate,
        )
    except (OSError, ValueError) as error:
        print(f"fencepost broker: {error}", file=sys.stderr)
        return 1
    return 0


def _user(text: str) -> tuple[str, str]:
    name, colon, password = text.partition(":")
    if not colon or not name or not password:
        raise ValueError("--sasl-user takes NAME:PASSWORD")
    return name, password


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"--config {text!r} is not NAME=VALUE")
    return name, value
