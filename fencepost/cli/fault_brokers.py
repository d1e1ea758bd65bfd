"""`fencepost fault stop`, `start`, `power`, `pause`, `resume`, `clock`, `loading`, `disk`, `slow-disk` and `corrupt`: a running stub's
brokers, their clocks, disks and logs."""

from __future__ import annotations

from typing import Annotated, Any, Final, NotRequired, TypedDict

import typer

from fencepost.cli.fault import ControlUrl, Json, Node, asked, fault, tell

__all__ = ["fault"]  # the command with all of its own

DISK_WORKS: Final = "none"


class Stopped(TypedDict):
    stopped: int


class Started(TypedDict):
    started: int
    address: str


class Paused(TypedDict):
    paused: int


class Resumed(TypedDict):
    resumed: int


class OwnClock(TypedDict):
    node: int
    ahead_ms: int


class SlowLoading(TypedDict):
    node: int
    ms: int


class SlowDisk(TypedDict):
    node: int
    ms: int


class Disk(TypedDict):
    node: int
    fault: str | None
    log_dir: NotRequired[int]


class Place(TypedDict):
    topic: str
    partition: int
    offset: int


class Corrupted(TypedDict):
    corrupted: Place


@fault.command()
def stop(
    node: Node,
    kill: Annotated[bool, typer.Option("--kill", help="As kill -9; default: a clean stop.")] = False,
    control: ControlUrl = None,
    json: Json = False,
) -> None:
    """Stop a broker. Its leaderships move, and its port refuses."""
    _change(control, f"/brokers/{node}/stop", Stopped, {"clean": not kill}, "broker {stopped} is stopped", json=json)


@fault.command()
def start(node: Node, control: ControlUrl = None, json: Json = False) -> None:
    """Start a broker that was stopped, or that has halted."""
    _change(control, f"/brokers/{node}/start", Started, {}, "broker {started} listens on {address}", json=json)


@fault.command()
def power(node: Node, control: ControlUrl = None, json: Json = False) -> None:
    """Stop a broker as a loss of power does. It starts again with what was synced to its disk."""
    _change(control, f"/brokers/{node}/lose-power", Stopped, {}, "broker {stopped} has lost its power", json=json)


@fault.command()
def pause(node: Node, control: ControlUrl = None, json: Json = False) -> None:
    """Pause a broker, as SIGSTOP does. Clients connect and get no response; the controller fences it after a while."""
    _change(control, f"/brokers/{node}/pause", Paused, {}, "broker {paused} is paused", json=json)


@fault.command()
def resume(node: Node, control: ControlUrl = None, json: Json = False) -> None:
    """Let a paused broker go on."""
    _change(control, f"/brokers/{node}/resume", Resumed, {}, "broker {resumed} goes on", json=json)


@fault.command(context_settings={"ignore_unknown_options": True})
def clock(
    node: Node,
    ahead_ms: Annotated[int, typer.Argument(metavar="MS", help="Milliseconds ahead of the stub's clock; negative: behind it.")],
    control: ControlUrl = None,
    json: Json = False,
) -> None:
    """Set a broker's own clock ahead of the stub's, or behind it."""
    body = {"ahead_ms": ahead_ms}
    _change(control, f"/brokers/{node}/clock", OwnClock, body, "broker {node}: clock ahead by {ahead_ms} ms", json=json)


@fault.command()
def loading(
    node: Node,
    ms: Annotated[int, typer.Argument(metavar="MS", min=0, help="Milliseconds from the election on; 0: none.")],
    control: ControlUrl = None,
    json: Json = False,
) -> None:
    """Make a broker slow to load its groups and transactional ids when it begins to coordinate them."""
    _change(control, f"/brokers/{node}/loading", SlowLoading, {"ms": ms}, "broker {node}: loading takes {ms} ms", json=json)


@fault.command()
def disk(
    node: Node,
    state: Annotated[str, typer.Argument(metavar="FAULT", help="full (writes fail), failed (reads, too) or none (it works again).")],
    log_dir: Annotated[int | None, typer.Option(min=1, help="Only the disk of this log directory. Default: all of the broker.")] = None,
    control: ControlUrl = None,
    json: Json = False,
) -> None:
    """Make a broker's disk fail, or work again. As in Kafka, the next read or write that fails takes the log directory offline. A broker
    without another one halts."""
    body: dict[str, Any] = {} if state == DISK_WORKS else {"fault": state}
    body |= {} if log_dir is None else {"log_dir": log_dir}
    _change(control, f"/brokers/{node}/disk", Disk, body, "broker {node}: disk fault {fault}", json=json)


@fault.command()
def slow_disk(
    node: Node,
    ms: Annotated[int, typer.Argument(metavar="MS", min=0, help="Milliseconds for each write; 0: none.")],
    control: ControlUrl = None,
    json: Json = False,
) -> None:
    """Make each write to a broker's disk take so long: those of clients, of coordinators and of its followers. The broker is not fenced."""
    _change(control, f"/brokers/{node}/slow-disk", SlowDisk, {"ms": ms}, "broker {node}: a write takes {ms} ms", json=json)


@fault.command()
def corrupt(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    partition: Annotated[int, typer.Argument(metavar="PARTITION", min=0)],
    offset: Annotated[int, typer.Argument(metavar="OFFSET", min=0, help="Of a record in the batch.")],
    node: Annotated[int | None, typer.Option(help="The broker with the replica; default: the leader.")] = None,
    control: ControlUrl = None,
    json: Json = False,
) -> None:
    """Flip a bit in a batch of a log. Consumers and followers find a wrong checksum."""
    body = {"topic": topic, "partition": partition, "offset": offset, **({} if node is None else {"node": node})}
    damaged = "the batch at offset {corrupted[offset]} of {corrupted[topic]}-{corrupted[partition]} is damaged"
    _change(control, "/logs/corrupt", Corrupted, body, damaged, json=json)


def _change(control: str | None, path: str, shape: object, body: object, says: str, *, json: bool) -> None:
    told: dict[str, Any] = asked(control, "POST", path, shape, body)
    tell(told, says.format(**{name: "none" if value is None else value for name, value in told.items()}), json=json)
