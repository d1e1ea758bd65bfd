"""A pipeline with OAUTHBEARER: one provider gives its consumer and its producer their tokens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub, Sasl
from fencepost.producer import AuthenticationFailed, Producer
from fencepost.producer.config.reader import read_settings
from fencepost.producer.network.librdkafka_tokens import UNTOLD_S, OauthCallback
from fencepost.txn import AsyncPipeline, Pipeline
from tests.credentials import jwt
from tests.txn.pipeline.helpers import LIMIT_S

SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}


def bare() -> str:
    """The token alone."""
    return jwt("alice")


def short(config: str) -> tuple[str, float]:
    """A token that must be replaced while the pipeline runs, from a function with librdkafka's argument."""
    assert config == "the shop"
    return jwt("alice"), time.time() + 1


async def awaited() -> tuple[str, float]:
    """A token from a function that is async."""
    await asyncio.sleep(0)
    return jwt("alice"), time.time() + 600


def refused() -> str:
    """An identity provider that refuses."""
    raise PermissionError("the role may not sign")


def wrong() -> int:
    """A program's mistake."""
    return 7


@pytest.fixture(scope="module")
def stub() -> Iterator[BrokerStub]:
    with BrokerStub(sasl=Sasl(mechanisms=["OAUTHBEARER"])) as stub:
        yield stub


@pytest.fixture
def source(stub: BrokerStub, request: pytest.FixtureRequest) -> str:
    """A topic of this test with one message."""
    name: str = request.node.name.replace("[", "-").strip("]")
    with Producer({**SASL, "bootstrap.servers": stub.bootstrap, "oauth_cb": bare}) as producer:
        producer.send(name, b"a").result(LIMIT_S)
    return name


def settings(stub: BrokerStub, source: str, **connection: Any) -> dict[str, Any]:
    """A pipeline's settings. `connection`: names with `__` for a dot."""
    tokens = {name.replace("__", "."): value for name, value in connection.items()}
    return {
        "bootstrap_servers": stub.bootstrap,
        "source": source,
        "group": source,
        "sink": f"{source}-out",
        "transform": lambda message: message.value(),
        "connection": {**SASL, **tokens},
    }


@pytest.mark.parametrize(
    "tokens",
    [
        {"sasl__oauth__token__provider": bare},
        {"sasl_oauth_token_provider": awaited},
        {"oauth_cb": short, "sasl__oauthbearer__config": "the shop"},
    ],
    ids=["bare", "awaited", "short"],
)
def test_a_pipeline(stub: BrokerStub, source: str, tokens: dict[str, Any]) -> None:
    """It reads and writes with each kind of provider that a producer takes, under each of its names."""
    with Pipeline(**settings(stub, source, **tokens)) as pipeline:
        pipeline.run(timeout=LIMIT_S, max_batches=1)
    assert [record.value for record in stub.records(f"{source}-out", 0)] == [b"a"]


def test_on_a_loop(stub: BrokerStub, source: str) -> None:
    """The consumer asks for its token on the thread of a loop that runs."""

    async def story() -> None:
        async with AsyncPipeline(**settings(stub, source, oauth_cb=awaited)) as pipeline:
            await pipeline.run(timeout=LIMIT_S, max_batches=1)

    asyncio.run(story())
    assert [record.value for record in stub.records(f"{source}-out", 0)] == [b"a"]


@pytest.mark.parametrize(
    ("provider", "said"),
    [
        (refused, "provider raised PermissionError: the role may not sign"),
        (wrong, "provider returned int"),
    ],
)
def test_no_token(stub: BrokerStub, provider: Callable[[], Any], said: str) -> None:
    """`run` raises what the provider raised, and not what librdkafka makes of it."""
    pipeline = Pipeline(**settings(stub, "never-read", oauth_cb=provider))
    with pytest.raises(AuthenticationFailed, match=said):
        pipeline.run(timeout=LIMIT_S)


def test_what_librdkafka_gets(caplog: pytest.LogCaptureFixture) -> None:
    """A token and an expiry, also from a provider that tells none. A failure is in the log, because librdkafka hides it; so is a provider
    that does not return."""

    def callback(provider: Callable[..., Any]) -> OauthCallback:
        mine = {"bootstrap.servers": "localhost:9092", **SASL, "oauth_cb": provider, "request.timeout.ms": 300}
        return OauthCallback(read_settings(mine))

    _, expires_at, principal, extensions = callback(bare)()
    assert abs(expires_at - time.time() - UNTOLD_S) < 10
    assert (principal, extensions) == ("", {})
    assert callback(lambda: ("token", 4e9, None, {"tenant": "shop"}))() == ("token", 4e9, "", {"tenant": "shop"})
    with pytest.raises(OSError, match="the role may not sign"):
        callback(refused)()
    assert "the role may not sign" in caplog.text
    with pytest.raises(AuthenticationFailed, match=r"returned nothing within 0.3 s \(request_timeout_ms\)"):
        callback(lambda: time.sleep(1)).prepare()
