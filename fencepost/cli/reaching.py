"""Whether a broker can be reached at an address, found out before librdkafka tries: it goes on trying where the reason will not go away.

The answer is a sentence that names what was found there and the setting that does not fit it. It only opens a connection and hangs up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from fencepost.cli.complaints import Complaint
from fencepost.cli.waiting import waiting
from fencepost.producer.config.bootstrap_servers import addresses
from fencepost.producer.config.names import DOTTED
from fencepost.producer.config.reader import read_settings
from fencepost.producer.config.settings import Settings
from fencepost.producer.errors import ConfigError
from fencepost.producer.network.connector import Connector

REACH_MS: Final = 5_000
SHARED: Final = ("security.", "ssl.", "sasl.")


def settings_for(bootstrap: str, given: Mapping[str, str], **more: Any) -> Settings:
    """The producer's settings for links; a Complaint where they contradict themselves."""
    try:
        return read_settings({"bootstrap_servers": bootstrap, "socket_connection_setup_timeout_ms": REACH_MS, **more, **given})
    except ConfigError as error:
        raise Complaint(str(error)) from None


def reach(bootstrap: str, given: Mapping[str, str]) -> None:
    """Return once one of the addresses answers as a broker; a Complaint says for each why it does not. `given`: librdkafka's settings."""
    shared = {name: value for name, value in given.items() if name.startswith(SHARED)}
    # What only librdkafka understands it has to try by itself; an address can be read all the same.
    foreign = shared.keys() - DOTTED.keys()
    settings = settings_for(bootstrap, {} if foreign else shared)
    if not foreign:
        reasons = asyncio.run(_try_each(settings))
        if reasons:
            raise Complaint("; ".join(reasons))


async def _try_each(settings: Settings) -> list[str]:
    reasons = []
    dialer = Connector(settings)
    for address in addresses(settings):
        try:
            with waiting(f"an answer from {address}", settings.socket_connection_setup_timeout_ms / 1000):
                link, _, _ = await dialer.open(address.host, address.port)
        except OSError as error:
            reasons.append(f"{address}: {error}")
        else:
            link.silence()
            await asyncio.sleep(0)  # the transport is closed in the loop's next turn
            return []
    return reasons
