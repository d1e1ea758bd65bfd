"""Shared by the commands of `fencepost txn`: options, requests to a cluster, and exit codes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from fencepost.cli.error_lines import CommandError
from fencepost.cli.options import connection
from fencepost.cli.waiting import waiting

if TYPE_CHECKING:
    from fencepost.producer.config.settings import Settings
    from fencepost.txn.protocol.cluster_client import ClusterClient

CLIENT_ID: Final = "fencepost-txn"
OTHER_WAY: Final = 1
NOBODY_KNOWS: Final = 3
STATES: Final = {
    state.lower(): state
    for state in ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "PrepareEpochFence", "Dead")
}
"""Kafka's states of a transaction (`TransactionState`), by their names in lower case."""

Config = Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A setting of the producer; repeatable.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on each line.")]
Timeout = Annotated[float, typer.Option(min=0, metavar="SECONDS", help="How long to wait for an answer.")]

T = TypeVar("T")


def settings_from(bootstrap: str | None, config: list[str] | None) -> Settings:
    from fencepost.cli.reachability import settings_for

    servers, given = connection(bootstrap, "--config", config)
    return settings_for(servers, {"client_id": CLIENT_ID, **given})


def ask_within(ask: Callable[[ClusterClient], Awaitable[T]], settings: Settings, timeout_s: float) -> T:
    """The answer of `ask` within the timeout. It repeats the request if that can help."""
    from fencepost.producer.errors import FencepostError
    from fencepost.txn.protocol.ask_now import ask_patiently
    from fencepost.txn.protocol.cluster_client import Unanswered

    try:
        with waiting(f"an answer from the brokers at {','.join(settings.bootstrap_servers)}", timeout_s):
            return ask_patiently(settings, ask, timeout_s)
    except Unanswered as error:
        raise CommandError(f"no answer within {timeout_s:g} s: {error}") from None
    except FencepostError as error:
        raise CommandError(str(error)) from None


def moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000.0, UTC).isoformat(timespec="milliseconds")
