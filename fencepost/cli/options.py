"""Options that several commands have: the broker's address, NAME=VALUE pairs, --config, --timeout and --json.

`asking_as` gives a command the options of those that ask a cluster. `ClusterOptions.ask` asks, within the timeout.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, TypeVar

import typer

from fencepost.cli.error_lines import CommandError
from fencepost.cli.numbers import a_number
from fencepost.cli.passwords import value_of, with_environment
from fencepost.cli.profiles import SERVERS, SERVERS_SPELLED, profile
from fencepost.cli.token_provider import with_provider
from fencepost.cli.waiting import waiting

if TYPE_CHECKING:
    from fencepost.producer.config.settings import Settings
    from fencepost.txn.protocol.cluster_client import ClusterClient

T = TypeVar("T")

BOOTSTRAP_VARIABLES: Final = ("FENCEPOST_BOOTSTRAP", "KAFKA_BOOTSTRAP_SERVERS")

TXN_CLIENT_ID: Final = "fencepost-txn"

TIMEOUT_S: Final = 15.0
"""How long a command waits for the answer to one request."""

TRANSACTION_STATES: Final = {
    state.lower(): state
    for state in ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "PrepareEpochFence", "Dead")
}
"""Kafka's states of a transaction (`TransactionState`), by their names in lower case."""

Bootstrap = Annotated[str | None, typer.Option(metavar="HOST:PORT", help=f"A broker; default: {' or '.join(BOOTSTRAP_VARIABLES)}.")]
Config = Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A setting of the producer; repeatable.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on each line.")]
Timeout = Annotated[float, typer.Option(min=0, metavar="SECONDS", callback=a_number, help="How long to wait for an answer.")]
Group = Annotated[str, typer.Argument(metavar="GROUP", help="The group's id.")]


class ClusterOptions(NamedTuple):
    """What the options say. `client_id`: the command's name in the brokers' logs."""

    client_id: str
    bootstrap: str | None
    config: list[str] | None
    timeout_s: float

    @property
    def address(self) -> str:
        """The given address, or that of the profile in use, or the environment's."""
        return bootstrap_from(self.bootstrap, "--config", self.config)

    def settings(self) -> Settings:
        """The settings of a client."""
        from fencepost.cli.reachability import settings_for

        servers, given = connection(self.bootstrap, "--config", self.config)
        return settings_for(servers, given, client_id=self.client_id)

    def given(self) -> dict[str, Any]:
        """The settings that the profile and --config name."""
        return client_settings(self.bootstrap, "--config", self.config)

    def ask(self, ask: Callable[[ClusterClient], Awaitable[T]]) -> T:
        """The answer of `ask` within the timeout."""
        return ask_within(ask, self.settings(), self.timeout_s)

    @contextmanager
    def wait(self, what: str) -> Iterator[None]:
        """Wait inside the block for `what`, which the cluster has."""
        with _answer(f"{what} at {self.address}", self.timeout_s):
            yield


def asking_as(client_id: str, *, timeout_s: float = TIMEOUT_S) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorates a command with a parameter `cluster: ClusterOptions`, for which typer sees the three options. `timeout_s`: the default."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        def with_options(bootstrap: Bootstrap = None, config: Config = None, timeout: Timeout = timeout_s, **given: Any) -> None:
            command(cluster=ClusterOptions(client_id, bootstrap, config, timeout), **given)

        # typer reads the signature. It resolves no names in one that is set, so these are resolved here.
        *options, _ = inspect.signature(with_options, eval_str=True).parameters.values()
        own = inspect.signature(command, eval_str=True)
        others = [each for each in own.parameters.values() if each.annotation is not ClusterOptions]
        both = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*others, *options)]
        functools.update_wrapper(with_options, command)
        setattr(with_options, "__signature__", own.replace(parameters=both))  # noqa: B010  # mypy knows no such attribute of a function
        return with_options

    return decorate


asks_about_groups = asking_as("fencepost-groups")
asks_about_transactions = asking_as(TXN_CLIENT_ID)


def ask_within(ask: Callable[[ClusterClient], Awaitable[T]], settings: Settings, timeout_s: float) -> T:
    """The answer of `ask` within the timeout. It repeats the request if that can help."""
    from fencepost.txn.protocol.ask_now import ask_patiently
    from fencepost.txn.protocol.cluster_client import Unanswered

    try:
        with _answer(f"an answer from the brokers at {','.join(settings.bootstrap_servers)}", timeout_s):
            return ask_patiently(settings, ask, timeout_s)
    except Unanswered as error:
        raise CommandError(f"no answer within {timeout_s:g} s: {error}") from None


@contextmanager
def _answer(what: str, timeout_s: float) -> Iterator[None]:
    """Say after a while what the command waits for. An error of the library is one of the command."""
    from fencepost.producer.errors import FencepostError

    try:
        with waiting(what, timeout_s):
            yield
    except FencepostError as error:
        raise CommandError(str(error)) from None


def bootstrap_from(bootstrap: str | None, option: str, given: Sequence[str] | None) -> str:
    """The address of the command line, or that of the profile in use, or the environment's. `given`: NAME=VALUE with the option of that
    name."""
    asked = _asked_servers(bootstrap, option, given)
    kept = _profile(asked)
    found = asked or next((kept[name] for name in SERVERS_SPELLED if kept.get(name)), None) or _of_environment()
    if not found:
        lacking = f"the profile has no {SERVERS}, but {', '.join(kept)}: " if kept else ""
        raise CommandError(
            f"no broker address: {lacking}give --bootstrap HOST:PORT or --profile NAME, or set {' or '.join(BOOTSTRAP_VARIABLES)}"
        )
    return found


def connection(bootstrap: str | None, option: str, given: Sequence[str] | None) -> tuple[str, dict[str, Any]]:
    """The brokers' address, and the client's settings, `given` as NAME=VALUE with the option of that name."""
    return bootstrap_from(bootstrap, option, given), client_settings(bootstrap, option, given)


def client_settings(bootstrap: str | None, option: str, given: Sequence[str] | None) -> dict[str, Any]:
    """The profile's settings, replaced by the given ones, with passwords from the environment, and the token provider itself; without the
    brokers' address."""
    named = pairs(option, given)
    replaced = {name.replace("_", ".") for name in named}
    of_profile = _profile(_asked_servers(bootstrap, option, given))
    kept = {name: value for name, value in of_profile.items() if name.replace("_", ".") not in replaced}
    both = {name: value for name, value in {**kept, **named}.items() if name not in SERVERS_SPELLED}
    return with_provider(with_environment(both))


def _asked_servers(bootstrap: str | None, option: str, given: Sequence[str] | None) -> str | None:
    """The address that the command line gives, as an option of its own or as a setting."""
    as_settings = [text for text in given or () if text.replace("@", "=").partition("=")[0] in SERVERS_SPELLED]
    asked = {f"{option} {name}=": value for name, value in pairs(option, as_settings).items()}
    if "" in asked.values():
        raise CommandError(f"{next(name for name in asked if not asked[name])} is empty: give HOST:PORT")
    if bootstrap:
        asked["--bootstrap "] = bootstrap
    if len(set(asked.values())) > 1:
        raise CommandError(f"{' and '.join(name + value for name, value in asked.items())} are different brokers: give one")
    return next(iter(asked.values()), None)


def _profile(asked: str | None) -> dict[str, str]:
    return profile(addressed=bool(asked or _of_environment()))


def _of_environment() -> str | None:
    return next(filter(None, map(os.environ.get, BOOTSTRAP_VARIABLES)), None)


def one_of(known: Iterable[str], option: str, given: Sequence[str] | None) -> list[str]:
    """The given names, in any case, as `known` spells them."""
    by_name = {name.lower(): name for name in known}
    for each in given or ():
        if each.lower() not in by_name:
            raise CommandError(f"{option} {each}: {option} is one of {', '.join(by_name.values())}")
    return [by_name[each.lower()] for each in given or ()]


def pairs(option: str, given: Sequence[str] | None) -> dict[str, str]:
    """The pairs of NAME=VALUE options, each name once. NAME@FILE reads the value from a file. NAME alone prompts for a password."""
    found: dict[str, str] = {}
    for text in given or ():
        try:
            name, value = value_of(option, text)
        except ValueError as error:
            raise CommandError(str(error)) from None
        if name in found:
            raise CommandError(f"{option} {name} is given twice")
        found[name] = value
    return found
