"""Checks whether a broker can be reached at an address, before librdkafka tries, which retries permanent errors without an end.

The error is a sentence that names what answers there, and the setting that does not fit. The check opens a connection and closes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from fencepost.cli.error_lines import CommandError
from fencepost.cli.waiting import waiting
from fencepost.producer.config.bootstrap_servers import addresses
from fencepost.producer.config.names import DOTTED
from fencepost.producer.config.reader import read_settings
from fencepost.producer.config.settings import Settings
from fencepost.producer.errors import ConfigError
from fencepost.producer.network.connector import Connector

REACH_MS: Final = 5_000
SHARED: Final = ("security.", "ssl.", "sasl.")
JAAS: Final = "sasl.jaas.config"
"""Librdkafka refuses it without a word of what to give instead."""


def settings_for(bootstrap: str, given: Mapping[str, str], **more: Any) -> Settings:
    """The producer's settings for connections. `more`: defaults of the command. Raises a CommandError if they contradict each other."""
    try:
        defaults = {"socket_connection_setup_timeout_ms": REACH_MS, **more}
        return read_settings({"bootstrap_servers": bootstrap, **with_defaults(given, defaults)})
    except ConfigError as error:
        raise CommandError(str(error)) from None


def with_defaults(given: Mapping[str, str], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The given settings, and the defaults of all others. A given name may have dots, a default's has none."""
    named = {DOTTED.get(name, name) for name in given}
    return {**{name: value for name, value in defaults.items() if name not in named}, **given}


def reach(bootstrap: str, given: Mapping[str, str]) -> None:
    """Return when one address answers as a broker. Otherwise a CommandError gives the reason for each. `given`: librdkafka's settings."""
    shared = {name: value for name, value in given.items() if name.startswith(SHARED)}
    # Settings that only librdkafka knows are left to it. The addresses are checked without them.
    foreign = shared.keys() - DOTTED.keys()
    settings = settings_for(bootstrap, {name: shared[name] for name in foreign if name == JAAS} if foreign else shared)
    if not foreign:
        reasons = asyncio.run(_try_each(settings))
        if reasons:
            raise CommandError("; ".join(reasons))


async def _try_each(settings: Settings) -> list[str]:
    reasons = []
    dialer = Connector(settings)
    for address in addresses(settings):
        dialer.look_for_sasl(address.host, address.port)
        try:
            with waiting(f"an answer from {address}", settings.socket_connection_setup_timeout_ms / 1000):
                connection, _, _ = await dialer.open(address.host, address.port)
        except OSError as error:
            reasons.append(f"{address}: {error}")
        else:
            connection.silence()
            await asyncio.sleep(0)  # the loop closes the transport in its next iteration
            return []
    return reasons
