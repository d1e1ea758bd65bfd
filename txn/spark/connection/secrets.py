"""A producer's settings on their way to the process that makes it: shown without secrets, and pickled with as few as possible.

A driver or executor calls `resolve` where it uses the settings. Only then files are found, stores are opened, and the program's function
for secrets is called. With such a function a pickle contains its name and no secret. For a function of the main script it contains the code
and the globals that it uses, so the function should read the environment. Without a function it contains the secrets of the options,
because executors cannot log in otherwise. No secret is printed, logged or put into an exception.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from fencepost.producer.config.bootstrap_servers import read_servers
from fencepost.producer.config.reader import read_settings
from fencepost.producer.config.secret import HIDDEN
from fencepost.producer.errors import ConfigError
from fencepost.txn.spark.connection.kafka_options import KAFKA, OWNERS_TIMEOUT, TRANSLATED, own_name, producer_settings, read_kafka_options

Provider = Callable[[], Mapping[str, Any]]

SERVERS: Final = "bootstrap_servers"
SECRET_WORDS: Final = ("password", "secret", "jaas", "keystore.key", "oauthbearer", "oauth", "token", "credential")
"""A setting with one of these in its name is not shown."""


def is_secret(name: str) -> bool:
    return any(word in name for word in SECRET_WORDS)


def shown(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with their secrets hidden."""
    return {name: HIDDEN if is_secret(name) else value for name, value in settings.items()}


def _is_of_connections(name: str) -> bool:
    return name in TRANSLATED or own_name(name).startswith((SERVERS, "ssl_", "sasl_", "security_"))


def check_provider(provider: Provider | None) -> None:
    """Refuse settings whose pickle would contain a secret, or that cannot be pickled. Raises ConfigError."""
    if provider is None:
        return
    name = getattr(provider, "__qualname__", None)
    if not callable(provider):
        raise ConfigError(f"secrets must be a function that returns settings, not a {type(provider).__name__}: the pickle would hold them")
    if not isinstance(name, str) or "<" in name or getattr(provider, "__self__", None) is not None:
        what = name if isinstance(name, str) else f"a {type(provider).__name__}"
        raise ConfigError(
            f"secrets={what}: a function at the top of a module, which is pickled by its name; what a lambda, a nested function, a method "
            "or a partial holds would be pickled with it"
        )


def _mark_of(provider: Provider | None) -> tuple[Any, ...] | None:
    """Identifies a function. A function of the main script is pickled with its code, because another script is main on an executor."""
    if provider is None:
        return None
    code = getattr(provider, "__code__", None)
    constants = () if code is None else tuple(each for each in code.co_consts if isinstance(each, str | bytes | int | float | None))
    return provider.__module__, provider.__qualname__, code and (code.co_code, code.co_names), constants


class KafkaSettings:
    """See the module. `given`: the options by Kafka's names, without `kafka.`."""

    __slots__ = ("_given", "_provider")

    def __init__(self, given: Mapping[str, Any], provider: Provider | None = None) -> None:
        check_provider(provider)
        self._given = dict(given)
        self._provider = provider

    @classmethod
    def of(cls, settings: Mapping[str, Any], secrets: Provider | None = None, *, names: Collection[str] = ()) -> KafkaSettings:
        """From keyword arguments: a producer's settings in either spelling, and `kafka.*`. `names`: the caller's own settings, for the
        suggestion after an unknown name. Raises ConfigError."""
        kafka: dict[str, Any] = {}
        spelt: dict[str, str] = {}
        for name, value in settings.items():
            bare = name[len(KAFKA) :] if name.lower().startswith(KAFKA) else name
            if bare in kafka:
                raise ConfigError(f"{name} is set twice, with {KAFKA!r} before it and without")
            kafka[bare], spelt[bare] = value, name
        made = cls(read_kafka_options(kafka, names, spelt=spelt), secrets)
        made.check()
        return made

    def check(self) -> None:
        """Refuse what is wrong without a look at files, stores and the function for secrets, which exist where producers are made. Raises
        ConfigError."""
        read_servers("bootstrap_servers", next((value for name, value in self._given.items() if own_name(name) == SERVERS), None))
        if self._provider is None:
            others = {name: value for name, value in self._given.items() if not _is_of_connections(name)}
            read_settings({"bootstrap_servers": "any:1", "enable_idempotence": True, **others})

    @property
    def key(self) -> bytes:
        """Equal for equal settings, also after pickling; it reveals none of them."""
        return hashlib.sha256(pickle.dumps((sorted(self._given.items(), key=lambda each: each[0]), _mark_of(self._provider)))).digest()

    def resolve(self) -> dict[str, Any]:
        """The settings of any client in this process. Raises ConfigError, which shows no secret, and any error of the function for
        secrets."""
        return self.resolve_owner(0)[0]

    def resolve_owner(self, timeout_ms: int) -> tuple[dict[str, Any], int]:
        """The same with the transaction timeout, which only a transaction's owner gets: the given one, or `timeout_ms`."""
        merged = dict(self._given)
        for name, value in self._provided().items():
            if name in merged:
                raise ConfigError(f"kafka.{name} is an option, and secrets= returns it as well: one of them")
            merged[name] = value
        settings = producer_settings(read_kafka_options(merged), provided=self._provider is not None)
        return settings, settings.pop(OWNERS_TIMEOUT, timeout_ms)

    def _provided(self) -> dict[str, Any]:
        if self._provider is None:
            return {}
        settings: object = self._provider()
        if not isinstance(settings, Mapping) or not all(isinstance(name, str) for name in settings):
            raise ConfigError(f"secrets= must return a mapping of names of settings to values, not a {type(settings).__name__}")
        return {name.lower().removeprefix("kafka."): value for name, value in settings.items()}

    def shown(self) -> dict[str, Any]:
        """What `explain` and logs show."""
        return shown(self._given) | ({"secrets": f"<{self._provider.__qualname__}>"} if self._provider is not None else {})

    def __repr__(self) -> str:
        return f"KafkaSettings({', '.join(f'{name}={value!r}' for name, value in self.shown().items())})"

    def __reduce__(self) -> tuple[type[KafkaSettings], tuple[Any, ...]]:
        return KafkaSettings, (self._given, self._provider)
