"""The configs of a server.properties that set where brokers listen, and those that have no meaning in a stub.

`listeners` and `advertised.listeners` mean the same as `host`, `port` and `advertised_host`. Hours and minutes become milliseconds. Configs
of disks, controllers and threads are ignored with a warning that names them. Every other name goes to `BrokerConfig`, which refuses unknown
names.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import Final, NamedTuple

from fencepost.broker_stub.configs.topic_configs import BROKER_CONFIGS, InvalidConfig, Value, as_text
from fencepost.broker_stub.network.addresses import PORT_MAX, printable
from fencepost.broker_stub.network.listeners import reachable

LOCALHOST: Final = "127.0.0.1"
LISTENERS: Final = "listeners"
ADVERTISED: Final = "advertised.listeners"
PROTOCOL_MAP: Final = "listener.security.protocol.map"
CONTROLLERS: Final = "controller.listener.names"
PLAINTEXT: Final = "PLAINTEXT"
PROTOCOLS: Final = {(False, False): PLAINTEXT, (True, False): "SSL", (False, True): "SASL_PLAINTEXT", (True, True): "SASL_SSL"}
"""Kafka's names for a listener with or without TLS, with or without SASL."""

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
COARSER: Final = {
    "log.retention.minutes": ("log.retention.ms", MINUTE_MS),
    "log.retention.hours": ("log.retention.ms", HOUR_MS),
    "log.roll.hours": ("log.roll.ms", HOUR_MS),
    "log.roll.jitter.hours": ("log.roll.jitter.ms", HOUR_MS),
}
"""Configs in coarser units, with the finer ones first. The coarser one counts where no finer one is given."""

WITHOUT_MEANING: Final = (
    *("background.threads", "broker.id", "broker.rack", "early.start.listeners", "inter.broker.listener.name", "log.dir", "log.dirs"),
    *("log.cleaner.threads", "log.flush.scheduler.interval.ms", "node.id"),
    *("process.roles", "queued.max.requests", "security.inter.broker.protocol"),
    *("controller.", "metadata.log.", "metric.", "metrics.", "num.io.", "num.network.", "num.recovery.", "num.replica."),
    *("group.share.", "replica.fetch.", "replica.socket.", "share.coordinator.", "share.fetch.", "socket.", "zookeeper."),
)
"""Names, and beginnings of names that end with a dot, of disks, threads, sockets and controllers, which the stub has not. Configs that
the stub obeys come first."""

_log = logging.getLogger(__name__)


class Place(NamedTuple):
    """Where brokers listen, the host that clients are told instead, and the remaining configs."""

    host: str
    port: int
    advertised_host: str
    config: dict[str, str]


def place_from(
    config: Mapping[str, Value],
    *,
    host: str | None,
    port: int | None,
    advertised_host: str | None,
    protocol: str,
) -> Place:
    """Combines the arguments and the configs. InvalidConfig if they contradict each other, or are impossible."""
    given = as_text(config)
    listener, advertised = _endpoint(given, LISTENERS, protocol), _endpoint(given, ADVERTISED, protocol)
    if listener is not None:
        if host is not None or port is not None:
            raise InvalidConfig(f"{LISTENERS}={given[LISTENERS]} and host or port: give only one of the two")
        host, port = listener
    host, port = LOCALHOST if host is None else host, port or 0
    if advertised is not None:
        if advertised_host is not None:
            raise InvalidConfig(f"{ADVERTISED}={given[ADVERTISED]} and advertised_host={advertised_host}: give only one of the two")
        if advertised[1] != port:
            raise InvalidConfig(f"{ADVERTISED}={given[ADVERTISED]}: its port must be {port}, on which brokers listen")
        advertised_host = advertised[0]
    told = reachable(host) if advertised_host is None else advertised_host
    if not _connectable(told):
        raise InvalidConfig(f"advertised_host={told!r}: clients connect to it, so it must be a name or an address of this computer")
    return Place(host, port, told, _rest(given))


def read_properties(text: str) -> dict[str, str]:
    """The properties in a text, as Java reads them except for escapes of letters. The last one of a name counts."""
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        end = next((index for index, letter in enumerate(line) if letter in "=: \t"), len(line))
        rest = line[end:].lstrip(" \t")
        found[line[:end]] = (rest[1:] if rest[:1] in ("=", ":") else rest).strip()
    return found


def _logical_lines(text: str) -> Iterator[str]:
    """The lines without comments and blank ones. A line that ends with a backslash continues in the next."""
    begun = ""
    for line in map(str.strip, text.splitlines()):
        if not begun and (not line or line[0] in "#!"):
            continue
        begun += line
        if begun.endswith("\\"):
            begun = begun[:-1]
        else:
            yield begun
            begun = ""
    if begun:
        yield begun


def _endpoint(given: Mapping[str, str], config: str, protocol: str) -> tuple[str, int] | None:
    """Host and port of the one listener for clients. None: no listener is given."""
    if config not in given:
        return None
    controllers = {each.strip() for each in given.get(CONTROLLERS, "").split(",")}
    protocols = dict(each.strip().partition(":")[::2] for each in given.get(PROTOCOL_MAP, "").split(","))
    named = [each.strip().partition("://") for each in given[config].split(",")]
    ours = [(name, address) for name, _, address in named if name not in controllers]
    if len(ours) != 1:
        raise InvalidConfig(f"{config}={given[config]}: give one listener for clients, NAME://HOST:PORT")
    ((name, address),) = ours
    host, _, port = address.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port[:9]) <= PORT_MAX):
        raise InvalidConfig(f"{config}={given[config]}: {address!r} is not HOST:PORT")
    if protocols.get(name, name).upper() in set(PROTOCOLS.values()) - {protocol}:
        wanted = protocols.get(name, name).upper()
        raise InvalidConfig(f"{config}={given[config]}: {wanted}, but the tls and sasl arguments make it {protocol}")
    return host.strip("[]"), int(port)


def _connectable(host: str) -> bool:
    try:
        return not ip_address(host).is_unspecified
    except ValueError:
        return bool(host) and not any(letter.isspace() or letter in ":/[]," for letter in host)


def _rest(given: Mapping[str, str]) -> dict[str, str]:
    """The configs of brokers and topics, in milliseconds."""
    rest = {name: value for name, value in given.items() if name not in (LISTENERS, ADVERTISED, PROTOCOL_MAP, *COARSER)}
    passed_over = [name for name in rest if name not in BROKER_CONFIGS and _means_nothing(name)]
    for name in passed_over:
        del rest[name]
    if passed_over:
        _log.warning(
            "broker configs that mean nothing to the stub, and are passed over: %s", printable(", ".join(sorted(passed_over)), longest=2000)
        )
    for name, (finer, unit_ms) in COARSER.items():
        if name in given:
            try:
                value = int(given[name])
            except ValueError:
                raise InvalidConfig(f"invalid value {given[name]!r} for broker config {name!r}") from None
            rest.setdefault(finer, str(max(value * unit_ms, -1)))
    return rest


def _means_nothing(name: str) -> bool:
    return any(name == each or (each.endswith(".") and name.startswith(each)) for each in WITHOUT_MEANING)
