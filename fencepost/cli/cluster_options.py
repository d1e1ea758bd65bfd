"""The options --bootstrap, --config and --timeout of the commands that ask a cluster, and how those commands ask."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import typer

from fencepost.cli.error_lines import CommandError
from fencepost.cli.options import TIMEOUT_S, Bootstrap, bootstrap_from, client_settings, connection
from fencepost.cli.waiting import waiting

if TYPE_CHECKING:
    from fencepost.producer.config.settings import Settings
    from fencepost.txn.protocol.cluster_client import ClusterClient

T = TypeVar("T")

Config = Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A setting of the producer; repeatable.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on each line.")]
Timeout = Annotated[float, typer.Option(min=0, metavar="SECONDS", help="How long to wait for an answer.")]


class ClusterOptions(NamedTuple):
    """What the options say. `client_id`: the command's name in the brokers' logs."""

    client_id: str
    bootstrap: str | None
    config: list[str] | None
    timeout_s: float

    @property
    def address(self) -> str:
        """The given address, or that of the profile in use, or the environment's."""
        return bootstrap_from(self.bootstrap)

    def settings(self) -> Settings:
        """The settings of a client."""
        from fencepost.cli.reachability import settings_for

        servers, given = connection(self.bootstrap, "--config", self.config)
        return settings_for(servers, given, client_id=self.client_id)

    def given(self) -> dict[str, str]:
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
