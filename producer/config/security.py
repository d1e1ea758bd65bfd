"""Reading and checking the settings of TLS and SASL: their names, their values, and which of them exclude each other.

Every error names the setting and the reason. No error shows a password.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from fencepost.producer.config.secret import Secret
from fencepost.producer.config.settings import SaslMechanism, SecurityProtocol, Settings
from fencepost.producer.errors import ConfigError
from fencepost.producer.wire.tls import TlsPipe

ALIASES: Final[dict[str, str]] = {
    "security.protocol": "security_protocol",
    "ssl.ca.location": "ssl_cafile",
    "ssl.truststore.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.keystore.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    "ssl.endpoint.identification.algorithm": "ssl_check_hostname",
    "ssl.context": "ssl_context",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_username",
    "sasl.password": "sasl_password",
    "sasl_plain_username": "sasl_username",
    "sasl_plain_password": "sasl_password",
    "sasl.oauth.token.provider": "sasl_oauth_token_provider",
    "oauth_cb": "sasl_oauth_token_provider",
    "sasl.oauthbearer.config": "sasl_oauthbearer_config",
}
"""Java's names, librdkafka's and those of the other Python clients."""

PASSWORD: Final = ("sasl_username", "sasl_password")
TOKEN: Final = ("sasl_oauth_token_provider", "sasl_oauthbearer_config")
NEEDS: Final[dict[SaslMechanism, tuple[str, ...]]] = {
    SaslMechanism.PLAIN: PASSWORD,
    SaslMechanism.SCRAM_SHA_256: PASSWORD,
    SaslMechanism.SCRAM_SHA_512: PASSWORD,
    SaslMechanism.OAUTHBEARER: TOKEN[:1],
}
"""The settings that each mechanism needs."""

TAKES: Final[dict[SaslMechanism, tuple[str, ...]]] = {**dict.fromkeys(SaslMechanism, PASSWORD), SaslMechanism.OAUTHBEARER: TOKEN}
"""The settings that each mechanism uses."""

CHECKS: Final[dict[str, bool]] = {"https": True, "true": True, "1": True, "": False, "none": False, "false": False, "0": False}
"""The words that switch the check of the host name on and off: Kafka's 'https' and '', librdkafka's 'none', and those of a bool."""

NOT_MECHANISMS: Final[dict[str, str]] = {
    "GSSAPI": "Kerberos is not supported",
    "AWS_MSK_IAM": "use OAUTHBEARER, with a 'sasl_oauth_token_provider' that signs for AWS",
}
"""Mechanisms of other clients, and what an error says of them."""


def check_security(s: Settings, *, given: Collection[str], written: Mapping[str, str]) -> None:
    """Refuse settings that contradict each other or would be ignored. `given`: the names of the settings that the caller gave. `written`:
    the names that the caller used for them."""
    protocol = s.security_protocol
    said = f"{written['security_protocol']}={protocol.value}"
    for name in sorted(given):
        if name.startswith("ssl_") and not protocol.tls:
            with_tls = "SASL_SSL" if protocol.sasl else "SSL, or SASL_SSL with SASL"
            raise ConfigError(f"{written[name]} is set, but {said} uses no TLS: set it to {with_tls}")
        if name.startswith("sasl_") and not protocol.sasl:
            with_sasl = "SASL_SSL" if protocol.tls else "SASL_SSL, or SASL_PLAINTEXT without TLS"
            raise ConfigError(f"{written[name]} is set, but {said} uses no SASL: set it to {with_sasl}")
    if protocol.tls:
        _check_tls(s, given, written)
    if protocol.sasl:
        _check_sasl(s, given, written)


def _check_tls(s: Settings, given: Collection[str], written: Mapping[str, str]) -> None:
    beside = [name for name in sorted(given) if name.startswith("ssl_") and name != "ssl_context"]
    if s.ssl_context is not None:
        if beside:
            raise ConfigError(
                f"{written[beside[0]]} would be ignored beside ssl_context: put it into the context, or leave ssl_context out"
            )
        _try_out(s.ssl_context)
    if s.ssl_certfile is None:
        for name in ("ssl_keyfile", "ssl_password"):
            if name in given:
                raise ConfigError(f"{written[name]} is set without ssl_certfile: set ssl_certfile to the certificate of the key")


def _try_out(context: ssl.SSLContext) -> None:
    """Refuse a context that is not for clients now, not when the first connection fails."""
    try:
        TlsPipe(context, server_hostname="broker")
    except (ValueError, ssl.SSLError) as error:
        raise ConfigError(f"ssl_context cannot be used for a client: {error}") from None


def _check_sasl(s: Settings, given: Collection[str], written: Mapping[str, str]) -> None:
    mechanism = s.sasl_mechanism
    if mechanism is None:
        raise ConfigError(f"{written['security_protocol']}={s.security_protocol.value} needs sasl_mechanism: one of {_mechanisms()}")
    said = f"{written['sasl_mechanism']}={mechanism.value}"
    for name in NEEDS[mechanism]:
        if name not in given:
            raise ConfigError(f"{said} needs {name}")
    for name in (*PASSWORD, *TOKEN):
        if name in given and name not in TAKES[mechanism]:
            raise ConfigError(f"{said} does not use {written[name]}: it uses {' and '.join(TAKES[mechanism])}")
    for name in PASSWORD:
        value = getattr(s, name)
        text = value.reveal() if isinstance(value, Secret) else value
        if text is not None and (not text or "\0" in text):
            raise ConfigError(f"{written[name]} {'is empty' if not text else 'contains a NUL character'}: no broker accepts that")
        if text is not None and not text.isascii() and not _is_utf8(text):
            raise ConfigError(f"{written[name]} cannot be encoded as UTF-8")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _mechanisms() -> str:
    return ", ".join(each.value for each in SaslMechanism)


def _protocol(key: str, value: object) -> SecurityProtocol:
    if isinstance(value, SecurityProtocol):
        return value
    name = value.upper() if isinstance(value, str) else ""
    if name not in SecurityProtocol.__members__:
        raise ConfigError(f"{key}={value!r}: the security protocols are {', '.join(SecurityProtocol.__members__)}")
    return SecurityProtocol[name]


def _mechanism(key: str, value: object) -> SaslMechanism | None:
    if value is None or isinstance(value, SaslMechanism):
        return value
    name = value.upper() if isinstance(value, str) else ""
    try:
        return SaslMechanism(name)
    except ValueError:
        hint = f"{NOT_MECHANISMS[name]}; " if name in NOT_MECHANISMS else ""
        raise ConfigError(f"{key}={value!r}: {hint}the SASL mechanisms are {_mechanisms()}") from None


def _secret(key: str, value: object) -> Secret[str] | None:
    if isinstance(value, Secret):
        value = value.reveal()
    if value is None:
        return None
    if not isinstance(value, str):
        raise ConfigError(f"{key} must be a str, not {type(value).__name__}")
    return Secret(value)


def _path(key: str, value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str | os.PathLike) or not isinstance(path := os.fspath(value), str) or not path:
        raise ConfigError(f"{key}={value!r}: it must be a path, as a str or a pathlib.Path that is not empty")
    return path


def read_check_hostname(key: str, value: object) -> bool:
    """A bool, or Kafka's name of the check. None is refused: it must not switch the check off in a program that means the default."""
    known = CHECKS.get(str(value).lower()) if isinstance(value, str | int) else None
    if known is None:
        words = "it must be True or 'https' to check the host name, False or '' not to"
        raise ConfigError(f"{key}={value!r}: {words}{'; leave it out for the default, True' if value is None else ''}")
    return known


def _context(key: str, value: object) -> ssl.SSLContext | None:
    if value is not None and not isinstance(value, ssl.SSLContext):
        raise ConfigError(f"{key} must be an ssl.SSLContext, not {type(value).__name__}")
    return value


def _provider(key: str, value: object) -> Secret[Callable[..., object]] | None:
    """A callable, or an object with a method `token`, as kafka-python and aiokafka have it. It becomes a Secret, because the repr of a
    functools.partial shows its arguments, and those may contain a client's secret."""
    if isinstance(value, Secret):
        value = value.reveal()
    if value is None:
        return None
    provider = value if callable(value) else getattr(value, "token", None)
    if not callable(provider):
        raise ConfigError(f"{key} must be callable or have a method token(), not {type(value).__name__}")
    return Secret(provider)


SECRETS: Final = ("ssl_password", "sasl_password", "sasl_oauth_token_provider", "sasl_oauthbearer_config")
"""The settings that become a Secret."""

SECURITY_READERS: Final[dict[str, Callable[[str, Any], Any]]] = {
    "security_protocol": _protocol,
    "ssl_cafile": _path,
    "ssl_certfile": _path,
    "ssl_keyfile": _path,
    "ssl_password": _secret,
    "ssl_check_hostname": read_check_hostname,
    "ssl_context": _context,
    "sasl_mechanism": _mechanism,
    "sasl_password": _secret,
    "sasl_oauth_token_provider": _provider,
    "sasl_oauthbearer_config": _secret,
}


def hidden(given: Mapping[str, Any]) -> dict[str, Any]:
    """The same settings, with each secret in a Secret, for what keeps settings as they were given."""
    return {
        name: Secret(value) if value is not None and ALIASES.get(name, name) in SECRETS and not isinstance(value, Secret) else value
        for name, value in given.items()
    }
