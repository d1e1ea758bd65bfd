"""`fencepost broker`: a cluster of the stub in the foreground.

It starts fast, so that a script's next line can use it: nothing here imports typer. `read_plain` leaves help, mistakes and less common
options to typer. `broker_command` declares the same options for typer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fencepost.cli.output import warn

NOT_STARTED: Final = 2  # As `error_lines.USAGE`, which loads typer.
_PLAIN: Final[dict[str, type]] = {
    "--brokers": int,
    "--host": str,
    "--port": int,
    "--partitions": int,
    "--control": str,
    "--ui-port": int,
    "--emulate": str,
    "--data-dir": str,
    "--log-dirs": int,
}


def read_plain(arguments: Sequence[str]) -> dict[str, Any] | None:
    """The options of a simple command line; None for any other.

    Simple means `--name value` or `--name=value`, each name once, and numbers in range.
    """
    words = [part for argument in arguments for part in (argument.split("=", 1) if argument.startswith("--") else [argument])]
    if len(words) % 2:
        return None
    options: dict[str, Any] = {}
    for name, value in zip(words[::2], words[1::2], strict=True):
        kind = _PLAIN.get(name)
        key = name.removeprefix("--").replace("-", "_")
        if kind is None or key in options or not value or (kind is int and not (value.isascii() and value.isdigit())):
            return None
        options[key] = kind(value)
    in_range = (
        min(options.get("brokers", 1), options.get("log_dirs", 1)) >= 1
        and options.get("partitions", 1) >= 1
        and max(options.get("port", 0), options.get("ui_port", 0)) <= 65535
    )
    return options if in_range else None


def page_port(ui: bool, ui_port: int | None) -> int | None:
    """The port of the inspector; 0 for a free one, None for no inspector."""
    return 0 if ui and ui_port is None else ui_port


def run(
    *,
    brokers: int = 1,
    host: str | None = None,
    port: int | None = None,
    advertised_host: str | None = None,
    partitions: int | None = None,
    config: Sequence[str] | None = None,
    properties: str | None = None,
    tls_cert: str | None = None,
    tls_key: str | None = None,
    tls_client_ca: str | None = None,
    sasl_user: Sequence[str] | None = None,
    sasl_mechanism: Sequence[str] | None = None,
    authorizer: bool = False,
    super_user: Sequence[str] | None = None,
    acl: Sequence[str] | None = None,
    control: str | None = None,
    ui: bool = False,
    ui_port: int | None = None,
    virtual_clock: bool = False,
    emulate: str = "4.3",
    data_dir: str | None = None,
    log_dirs: int = 1,
) -> int:
    """Serve until a signal; return the exit code. On failure it prints the reason to standard error."""
    from fencepost.broker_stub.command import serve
    from fencepost.cli.passwords import users, value_of

    try:
        serve(
            brokers=brokers,
            host=host,
            port=port,
            advertised_host=advertised_host,
            default_partitions=partitions,
            config=dict(value_of("--config", each) for each in config or ()),
            properties=properties,
            tls_cert=tls_cert,
            tls_key=tls_key,
            tls_client_ca=tls_client_ca,
            sasl_users=users("--sasl-user", sasl_user or ()),
            sasl_mechanisms=sasl_mechanism or (),
            authorizer=authorizer,
            super_users=super_user or (),
            acls=acl or (),
            control=control,
            ui_port=page_port(ui, ui_port),
            virtual_clock=virtual_clock,
            emulate=emulate,
            data_dir=data_dir,
            log_dirs=log_dirs,
        )
    except (OSError, ValueError) as error:
        warn(f"fencepost broker: {error}")
        return NOT_STARTED
    return 0
