"""`fencepost txn commit`, `abort` and `status`: a prepared transaction by its token.

What became of it is said exactly: in words, in JSON and by the exit code.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.cli.complaints import Complaint, bootstrap_from, complaining
from fencepost.cli.txn_options import ASK_S, NOBODY_KNOWS, OTHER_WAY, Bootstrap, Config, Json, Timeout, settings_from

if TYPE_CHECKING:
    from txn.outcome import PreparedStatus
    from txn.resumed import Resumed
    from txn.token import PreparedTransaction

Token = Annotated[str, typer.Argument(metavar="TOKEN", help="What prepare() returned: the text, @FILE, or - for standard input.")]


def commit(token: Token, bootstrap: Bootstrap = None, json: Json = False, config: Config = None, timeout: Timeout = ASK_S) -> None:
    """Commit a prepared transaction. Exit code 1: it has been aborted; 3: nobody can tell."""
    with complaining("txn commit"):
        _end("commit", token, lambda resumed: resumed.commit(timeout), bootstrap, config, json=json)


def abort(token: Token, bootstrap: Bootstrap = None, json: Json = False, config: Config = None, timeout: Timeout = ASK_S) -> None:
    """Abort a prepared transaction. Exit code 1: it has been committed; 3: nobody can tell."""
    with complaining("txn abort"):
        _end("abort", token, lambda resumed: resumed.abort(timeout), bootstrap, config, json=json)


def status(token: Token, bootstrap: Bootstrap = None, json: Json = False, config: Config = None, timeout: Timeout = ASK_S) -> None:
    """What became of a prepared transaction, and how that is known; it changes nothing. Exit code 3: nobody can tell."""
    with complaining("txn status"):
        _end("status", token, lambda resumed: resumed.status(timeout), bootstrap, config, json=json)


def read_token_argument(given: str) -> PreparedTransaction:
    """The token that an argument is, or names."""
    from txn.token import BadToken, read_token

    try:
        if given == "-":
            text: str | bytes = sys.stdin.buffer.read()
        elif given.startswith("@"):
            text = Path(given[1:]).read_bytes()
        else:
            text = given
    except OSError as error:
        raise Complaint(f"{given}: {error.strerror or error}") from None
    try:
        return read_token(text.strip())
    except BadToken as error:
        raise Complaint(str(error)) from None


def _end(
    what: str,
    given: str,
    call: Callable[[Resumed], PreparedStatus],
    bootstrap: str | None,
    config: list[str] | None,
    *,
    json: bool,
) -> None:
    """Make the call and say what came of it."""
    from producer.core.cluster import Address
    from producer.core.errors import FencepostError
    from txn.errors import CommitOutcomeUnknown, TransactionAborted, TransactionCommitted
    from txn.outcome import Outcome
    from txn.resumed import Resumed

    token = read_token_argument(given)
    hint = token.coordinator
    try:
        servers = bootstrap_from(bootstrap)
    except Complaint:
        if hint is None and token.wrote:
            raise
        servers = str(Address(hint.host, hint.port)) if hint is not None else "localhost:9092"
    try:
        said = call(Resumed(token, settings_from(servers, config)))
    except (TransactionAborted, TransactionCommitted) as error:
        outcome = Outcome.ABORTED if isinstance(error, TransactionAborted) else Outcome.COMMITTED
        _tell({"transactional_id": token.transactional_id, "outcome": outcome.name, "why": str(error)}, json=json)
        raise typer.Exit(OTHER_WAY) from None
    except CommitOutcomeUnknown as error:
        _tell({"transactional_id": token.transactional_id, "outcome": Outcome.UNKNOWN.name, "why": str(error)}, json=json)
        raise typer.Exit(NOBODY_KNOWS) from None
    except FencepostError as error:
        raise Complaint(str(error)) from None
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
    raise typer.Exit(NOBODY_KNOWS if said.outcome is Outcome.UNKNOWN else 0)


def _tell(told: dict[str, Any], *, json: bool) -> None:
    if json:
        import msgspec

        print(msgspec.json.encode(told).decode())
        return
    already = "already " if told.get("already") else ""
    print(f"{told['transactional_id']}: {already}{told['outcome'].lower().replace('_', ' ')}: {told['why']}")
