"""`fencepost txn commit`, `abort` and `status`: a prepared transaction by its token.

Each command reports the outcome in words, in JSON and by the exit code.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from fencepost.cli.error_lines import NO, UNKNOWN, CommandError
from fencepost.cli.options import TXN_CLIENT_ID, ClusterOptions, Json, asks_about_transactions
from fencepost.cli.output import say, say_json
from fencepost.cli.waiting import waiting

if TYPE_CHECKING:
    from fencepost.txn.recovery.outcome import PreparedStatus
    from fencepost.txn.recovery.resume import Resumed
    from fencepost.txn.recovery.token import PreparedTransaction

NO_BROKER: Final = "localhost:9092"
"""A placeholder for settings that need an address, when no broker is asked."""

Token = Annotated[str, typer.Argument(metavar="TOKEN", help="The token that prepare() returned: its text, @FILE, or - for standard input.")]


@asks_about_transactions
def commit(token: Token, json: Json = False, *, cluster: ClusterOptions) -> None:
    """Commit a prepared transaction. Exit code 1: it was aborted. 3: the outcome is unknown."""
    _end("commit", token, lambda resumed: resumed.commit(cluster.timeout_s), cluster, json=json)


@asks_about_transactions
def abort(token: Token, json: Json = False, *, cluster: ClusterOptions) -> None:
    """Abort a prepared transaction. Exit code 1: it was committed. 3: the outcome is unknown."""
    _end("abort", token, lambda resumed: resumed.abort(cluster.timeout_s), cluster, json=json)


@asks_about_transactions
def status(token: Token, json: Json = False, *, cluster: ClusterOptions) -> None:
    """Show the outcome of a prepared transaction, and the evidence. It changes nothing. Exit code 3: the outcome is unknown."""
    _end("status", token, lambda resumed: resumed.status(cluster.timeout_s), cluster, json=json)


def read_token_argument(given: str) -> PreparedTransaction:
    """The token of an argument: its text, a file or standard input."""
    from fencepost.txn.recovery.token import BadToken, read_token

    try:
        if given == "-":
            text: str | bytes = sys.stdin.buffer.read()
        elif given.startswith("@"):
            text = Path(given[1:]).read_bytes()
        else:
            text = given
    except OSError as error:
        raise CommandError(f"{given}: {error.strerror or error}") from None
    try:
        return read_token(text.strip())
    except BadToken as error:
        if text is not given or "{" in given:
            raise CommandError(str(error)) from None
        is_file = Path(given).is_file()
        raise CommandError(
            f"{given!r} is no token: for a file write @{given}"
            if is_file
            else f"{given!r} is no token. A token is the text that prepare() returned; a transactional id does not name a transaction"
        ) from None


def _end(what: str, given: str, call: Callable[[Resumed], PreparedStatus], cluster: ClusterOptions, *, json: bool) -> None:
    """Make the call and print its result."""
    from fencepost.cli.reachability import REACH_MS, with_defaults
    from fencepost.producer.errors import FencepostError
    from fencepost.txn.errors import CommitOutcomeUnknown, TransactionAborted, TransactionCommitted
    from fencepost.txn.recovery.outcome import Outcome
    from fencepost.txn.recovery.resume import Resumed, settings_for

    token = read_token_argument(given)
    shared = {"client_id": TXN_CLIENT_ID, "socket_connection_setup_timeout_ms": REACH_MS}
    try:
        servers: str | None = cluster.address
    except CommandError:
        if token.coordinator is None and token.wrote:
            raise
        servers = None if token.wrote else NO_BROKER
    try:
        settings = settings_for(token, servers, with_defaults(cluster.given(), shared))
        asked = ",".join(settings.bootstrap_servers)
        with waiting(f"an answer about transactional id {token.transactional_id!r} from the brokers at {asked}", cluster.timeout_s):
            said = call(Resumed(token, settings))
    except (TransactionAborted, TransactionCommitted) as error:
        outcome = Outcome.ABORTED if isinstance(error, TransactionAborted) else Outcome.COMMITTED
        _tell({"transactional_id": token.transactional_id, "outcome": outcome.name, "why": str(error)}, json=json)
        raise typer.Exit(NO) from None
    except CommitOutcomeUnknown as error:
        _tell({"transactional_id": token.transactional_id, "outcome": Outcome.UNKNOWN.name, "why": str(error)}, json=json)
        raise typer.Exit(UNKNOWN) from None
    except FencepostError as error:
        raise CommandError(str(error)) from None
    told: dict[str, Any] = {
        "transactional_id": token.transactional_id,
        "outcome": said.outcome.name,
        "already": said.already,
        "why": said.why,
        "deadline_left_s": said.deadline_left_s,
        "markers": said.markers,
    }
    if what == "status":
        del told["already"]
    _tell(told, json=json)
    raise typer.Exit(UNKNOWN if said.outcome is Outcome.UNKNOWN else 0)


def _tell(told: dict[str, Any], *, json: bool) -> None:
    if json:
        say_json(told)
        return
    already = "already " if told.get("already") else ""
    say(f"{told['transactional_id']}: {already}{told['outcome'].lower().replace('_', ' ')}: {told['why']}")
