"""Secrets: used where a producer is made, and in no text and no more pickles than they have to be."""

from __future__ import annotations

import copy
import functools
import pickle
import traceback
from typing import Any

import pytest
from pyspark import cloudpickle

from fencepost.producer.config.reader import read_settings
from fencepost.producer.errors import ConfigError
from fencepost.txn.spark.connection.options import read_options
from fencepost.txn.spark.connection.secrets import KafkaSettings

SECRET = "hunter2-of-alice"
JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="{SECRET}";'
OPEN = {"kafka.bootstrap.servers": "b:9092", "kafka.security.protocol": "SASL_PLAINTEXT"}


def give() -> dict[str, str]:
    return {"kafka.sasl.jaas.config": "".join(["org.apache.kafka.PlainLoginModule required username=alice password='", *SECRET, "';"])}


def give_token() -> dict[str, Any]:
    return {"sasl.mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": lambda: "token"}


def give_text() -> Any:
    return SECRET


def give_nonsense() -> dict[str, str]:
    return {"sasl.jaas.config": f"Nonsense required password='{SECRET}'"}


@pytest.mark.parametrize("name", ["sasl.jaas.config", "sasl.password", "ssl.key.password", "ssl.keystore.key", "ssl.truststore.password"])
def test_nothing_shows_a_secret(name: str) -> None:
    """Neither repr nor str nor `explain` shows a secret. They show what is none."""
    options = read_options({**OPEN, f"kafka.{name}": SECRET})
    for text in (repr(options), str(options), f"{options.kafka}", str(options.kafka.shown()), repr(copy.copy(options.kafka))):
        assert SECRET not in text
        assert "b:9092" in text
        assert name in text


def test_a_provider_leaves_nothing_in_the_pickle() -> None:
    """The pickle has the function's name; it is called where the settings are used."""
    options = read_options(OPEN, secrets=give)
    dumps: Any
    for dumps in (pickle.dumps, cloudpickle.dumps):
        pickled = dumps(options.kafka)
        assert SECRET.encode() not in pickled
    there = pickle.loads(pickle.dumps(options.kafka))
    settings = read_settings(there.resolve())
    assert settings.sasl_password is not None
    assert settings.sasl_password.reveal() == SECRET
    assert "give" in repr(there)
    assert SECRET not in repr(there)


def test_secrets_that_are_options_go_with_them() -> None:
    """Executors could not log in otherwise."""
    kafka = pickle.loads(pickle.dumps(read_options({**OPEN, "kafka.sasl.jaas.config": JAAS}).kafka))
    assert kafka.resolve()["sasl_password"] == SECRET


def test_a_provider_of_tokens() -> None:
    """OAUTHBEARER, where Java has a login module of its own."""
    jaas = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
    settings = read_settings(read_options({**OPEN, "kafka.sasl.jaas.config": jaas}, secrets=give_token).kafka.resolve())
    assert settings.sasl_oauth_token_provider is not None
    assert settings.sasl_oauth_token_provider.reveal()() == "token"


class Holder:
    def __init__(self, secret: str) -> None:
        self.secret = secret

    def give(self) -> dict[str, str]:
        return {"sasl.password": self.secret}


@pytest.mark.parametrize(
    "provider",
    [
        lambda: {"sasl.password": SECRET},
        functools.partial(dict, **{"sasl.password": SECRET}),
        Holder(SECRET).give,
        {"sasl.password": SECRET},
    ],
    ids=["lambda", "partial", "method", "settings"],
)
def test_what_would_take_a_secret_along_is_no_provider(provider: Any) -> None:
    """A lambda, a partial, a method and the settings themselves would be pickled with what they hold; the refusal does not show it."""
    with pytest.raises(ConfigError, match="secrets") as raised:
        KafkaSettings({}, provider)
    assert SECRET not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize("provider", [give_text, give_nonsense])
def test_what_a_provider_gives_wrong_is_not_shown(provider: Any) -> None:
    """An error names the setting or the type."""
    with pytest.raises(ConfigError) as raised:
        read_options(OPEN, secrets=provider).kafka.resolve()
    assert SECRET not in "".join(traceback.format_exception(raised.value))


def test_option_and_provider_do_not_compete() -> None:
    """One of them; the error names the setting."""
    with pytest.raises(ConfigError, match=r"kafka\.sasl\.jaas\.config is an option, and secrets= returns it as well"):
        read_options({**OPEN, "kafka.sasl.jaas.config": JAAS}, secrets=give).kafka.resolve()


def test_a_provider_in_the_main_script() -> None:
    """It is pickled with its code, and known by it where it arrives, in every task anew."""
    space: dict[str, Any] = {"__name__": "__main__"}
    exec("def provider():\n    return {'sasl.password': 'x'}\ndef other():\n    return {}\n", space)  # as a script has it
    settings = KafkaSettings({}, space["provider"])
    there = cloudpickle.loads(cloudpickle.dumps(settings))  # type: ignore[no-untyped-call]  # not typed by pyspark
    assert there.key == settings.key
    assert KafkaSettings({}, space["other"]).key != settings.key
    assert KafkaSettings({"client.id": "a"}, space["provider"]).key != settings.key
