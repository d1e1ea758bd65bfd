"""A function that a setting names gives each command its tokens for OAUTHBEARER."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.broker_stub import BrokerStub, Sasl
from tests.credentials import jwt
from tests.fencepost.cli.shell import complaint, run
from tests.fencepost.cli.test_profiles import COMMANDS

PLACE = f"{__name__}:Tokens.with_expiry"
asked: list[str] = []


class Tokens:
    """Providers of each kind."""

    @staticmethod
    def with_expiry() -> tuple[str, float]:
        """A token and when it expires."""
        asked.append("with expiry")
        return jwt("alice"), time.time() + 3600

    @staticmethod
    async def awaited(config: str) -> str:
        """The token alone, with the text of sasl.oauthbearer.config."""
        asked.append(config)
        return jwt("alice")

    @staticmethod
    def failing() -> str:
        """An identity provider that refuses."""
        raise PermissionError("the role may not sign")

    number = 5


@pytest.fixture(scope="module")
def stub() -> Iterator[BrokerStub]:
    with BrokerStub(sasl=Sasl(mechanisms=["OAUTHBEARER"]), acls=[], super_users=["alice"]) as stub:
        stub.create_topic("t")
        yield stub


def profile_of(stub: BrokerStub, file: Path, *more: str) -> Path:
    """A file with the profile `default`."""
    lines = [f'bootstrap.servers = "{stub.bootstrap}"', 'security.protocol = "SASL_PLAINTEXT"', 'sasl.mechanism = "OAUTHBEARER"', *more]
    file.write_text("\n".join(["[default]", *lines]))
    file.chmod(0o600)
    return file


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:2]))
def test_each_command(stub: BrokerStub, tmp_path: Path, command: tuple[str, ...]) -> None:
    """Those of our clients and those of librdkafka, as the user of the token."""
    file = profile_of(stub, tmp_path / "config.toml", f'sasl.oauth.token.provider = "{PLACE}"')
    asked.clear()
    ran = run("--config", file, *command)
    assert ran.returncode == 0, ran
    assert set(asked) == {"with expiry"}


@pytest.mark.parametrize("command", [("topics", "list"), ("txn", "list")], ids=" ".join)
@pytest.mark.parametrize("name", ["sasl.oauth.token.provider", "sasl_oauth_token_provider"])
def test_a_coroutine_with_an_argument(stub: BrokerStub, tmp_path: Path, command: tuple[str, ...], name: str) -> None:
    """A token without an expiry does for librdkafka too, which asks for one."""
    provider = f"{__name__}:Tokens.awaited"
    file = profile_of(stub, tmp_path / "config.toml", f'{name} = "{provider}"', 'sasl.oauthbearer.config = "the shop"')
    asked.clear()
    ran = run("--config", file, *command)
    assert ran.returncode == 0, ran
    assert set(asked) == {"the shop"}


@pytest.mark.parametrize(
    ("provider", "said"),
    [
        ("tokens", "sasl.oauth.token.provider=tokens: give MODULE:FUNCTION, a function that returns a token and its expiry"),
        (":token", "sasl.oauth.token.provider=:token: give MODULE:FUNCTION"),
        ("no_such_module:token", "sasl.oauth.token.provider=no_such_module:token: ModuleNotFoundError: No module named 'no_such_module'"),
        (f"{__name__}:nothing", "AttributeError: module 'tests.fencepost.cli.test_token_provider' has no attribute 'nothing'"),
        (f"{__name__}:Tokens.number", "sasl.oauth.token.provider must be callable or have a method token(), not int"),
        (f"{__name__}:Tokens.failing", "PermissionError: the role may not sign"),
    ],
)
def test_mistakes(stub: BrokerStub, tmp_path: Path, provider: str, said: str) -> None:
    """Each is one line, and exit code 2."""
    file = profile_of(stub, tmp_path / "config.toml", f'sasl.oauth.token.provider = "{provider}"')
    for command in ("topics", "txn"):
        assert said in complaint(run("--config", file, command, "list", *(("--timeout", 1) if command == "txn" else ())))
