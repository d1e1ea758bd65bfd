"""Reading `bootstrap_servers`: host:port, [IPv6]:port, and PROTOCOL://host:port where the protocol is the one that is set.

Kafka ignores the text before `://`. Here it must be the value of `security_protocol`, because a user who writes SSL:// expects TLS.
An IPv6 address needs brackets, because otherwise the beginning of the port is ambiguous. This module resolves no names. Every connection
resolves its name and tries all addresses, as Kafka does with `client.dns.lookup=use_all_dns_ips`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Final

from fencepost.producer.config.secret import HIDDEN
from fencepost.producer.config.settings import SecurityProtocol, Settings
from fencepost.producer.errors import ConfigError
from fencepost.producer.foundations.address import Address

PORT_MAX: Final = 65_535
PROTOCOLS: Final = tuple(protocol.value for protocol in SecurityProtocol)
DNS_LOOKUP: Final = "use_all_dns_ips"


def read_servers(key: str, value: object) -> tuple[str, ...]:
    """The servers, each checked, from a str with commas, a list or another sequence. Raises ConfigError."""
    if not isinstance(value, Sequence) or isinstance(value, bytes | bytearray):
        raise ConfigError(f"{key}={value!r}: it must be a str, or a list of str, not {type(value).__name__}")
    given: Sequence[object] = value.split(",") if isinstance(value, str) else value
    _refuse_users(key, given)
    servers: list[str] = []
    for server in given:
        if not isinstance(server, str):
            raise ConfigError(f"{key}={value!r}: a server must be a str 'host:port', not {server!r}")
        if server.strip():
            servers.append(server.strip())
    if not servers:
        raise ConfigError(f"{key}={value!r}: give at least one broker as 'host:port', several separated by commas")
    for server in servers:
        _read(server)
    return tuple(servers)


def _refuse_users(key: str, given: Sequence[object]) -> None:
    """Refuse `user:password@host:port` before another error shows it."""
    for server in given:
        if isinstance(server, str) and "@" in server:
            raise ConfigError(
                f"{key}: '{HIDDEN}@{server.rpartition('@')[2]}' has a user or a password before the '@': write 'host:port', "
                "and set sasl_mechanism, sasl_username and sasl_password"
            )


def read_dns_lookup(key: str, value: object) -> str:
    """Kafka's other value only matters for Kerberos."""
    if value != DNS_LOOKUP:
        raise ConfigError(f"{key}={value!r}: only {DNS_LOOKUP!r} is supported: the producer tries every address of a name")
    return DNS_LOOKUP


def addresses(settings: Settings) -> list[Address]:
    """The bootstrap servers."""
    return [_read(server)[1] for server in settings.bootstrap_servers]


def check_protocols(settings: Settings) -> None:
    """Refuse a server with another protocol than `security_protocol`."""
    for server in settings.bootstrap_servers:
        said = _read(server)[0]
        if said is not None and said != settings.security_protocol.value:
            raise ConfigError(
                f"bootstrap_servers: {server!r} says {said}, but security_protocol={settings.security_protocol.value}: "
                "set security_protocol to what the listener speaks, or write 'host:port'"
            )


def _read(server: str) -> tuple[str | None, Address]:
    """The protocol, if there is one, and the address."""
    protocol, found, rest = server.rpartition("://")
    if found and protocol.upper() not in PROTOCOLS:
        raise ConfigError(
            f"bootstrap_servers: {server!r} begins with {protocol!r}, which is no security protocol ({', '.join(PROTOCOLS)}): "
            "write 'host:port'"
        )
    host, _, port = rest.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if bare == host and ":" in rest and _is_ipv6(rest, host):
        raise ConfigError(f"bootstrap_servers: {server!r} is an IPv6 address without brackets: write '[address]:port'")
    if not bare or (bare == host and ":" in host) or "[" in bare or "]" in bare or (bare != host and not _is_ipv6(bare)):
        raise ConfigError(f"bootstrap_servers: {server!r} is not 'host:port' or '[IPv6 address]:port'")
    if not (port.isascii() and port.isdigit()) or not 0 < int(port) <= PORT_MAX:
        raise ConfigError(f"bootstrap_servers: {server!r} is not 'host:port' with a port from 1 to {PORT_MAX}")
    return protocol.upper() or None, Address(bare, int(port))


def _is_ipv6(*texts: str) -> bool:
    """Whether one of them is an IPv6 address."""
    for text in texts:
        try:
            ipaddress.IPv6Address(text)
        except ValueError:
            continue
        return True
    return False
