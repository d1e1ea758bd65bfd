"""`fencepost fault`: add, list, remove and release the fault rules of a running stub or proxy, and cut the links between a stub's brokers.

The stub or proxy checks the rules, so a rule means the same on the command line, over HTTP and in Python.
"""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

import typer

from fencepost.broker_stub.faults.one_line import one_line
from fencepost.cli.error_lines import CommandError
from fencepost.cli.output import say, say_json, warn

fault = typer.Typer(
    help="Make a running broker or proxy fail: rules for requests, links between brokers, stops, disks, damaged logs.",
    no_args_is_help=True,
)

ControlUrl = Annotated[
    str | None, typer.Option(metavar="URL", help="The control's URL, which the broker or proxy printed; default: FENCEPOST_CONTROL.")
]
End = Annotated[str, typer.Argument(metavar="END", help="The number of a broker, or controller.")]
Node = Annotated[int, typer.Argument(metavar="NODE", min=1, help="The number of a broker.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class Rule(TypedDict):
    """What the control adds to each rule's own fields."""

    id: int
    on: list[str]
    at: str
    action: str
    hits: int
    holding: int


class Rules(TypedDict):
    faults: list[Rule]


class Released(TypedDict):
    id: int
    released: int


class Severed(TypedDict):
    severed: list[tuple[int | str, int | str]]
    severed_one_way: list[tuple[int | str, int | str]]


class Slow(TypedDict):
    slow: list[tuple[int | str, int | str, int]]


@fault.command()
def add(
    action: Annotated[
        str, typer.Option(help="error, drop, drop_reply (served, but not answered), delay, duplicate, disconnect, hold or throttle.")
    ],
    on: Annotated[list[str] | None, typer.Option(metavar="API", help="PRODUCE or another API; repeatable. Default: every API.")] = None,
    topic: Annotated[str | None, typer.Option(help="Only requests that name this topic.")] = None,
    partition: Annotated[int | None, typer.Option(help="Only requests that name this partition.")] = None,
    group: Annotated[str | None, typer.Option(help="Only requests that name this group.")] = None,
    txn: Annotated[str | None, typer.Option(help="Only requests that name this transactional id.")] = None,
    node: Annotated[int | None, typer.Option(help="Only requests to this broker.")] = None,
    client_id: Annotated[str | None, typer.Option(help="Only requests of clients with this client id.")] = None,
    at: Annotated[str | None, typer.Option(help="before (the default), after_append or reply.")] = None,
    code: Annotated[str | None, typer.Option(help="For error: NOT_ENOUGH_REPLICAS or another code.")] = None,
    ms: Annotated[int | None, typer.Option(help="For delay and throttle: the time in milliseconds.")] = None,
    times: Annotated[int | None, typer.Option(help="Apply to this many exchanges; default: one.")] = None,
    on_call: Annotated[int | None, typer.Option(help="Apply only to the exchange with this number, counted from 1.")] = None,
    forever: Annotated[bool, typer.Option("--forever", help="Every one.")] = False,
    probability: Annotated[float | None, typer.Option(help="Apply to each exchange with this probability, from 0 to 1.")] = None,
    seed: Annotated[int | None, typer.Option(help="The seed of --probability; default: 0.")] = None,
    control: ControlUrl = None,
    json: Json = False,
) -> None:
    """Add a rule. It applies at once. The command prints the rule's number."""
    if probability is not None and not 0 <= probability <= 1:  # JSON has no NaN
        raise CommandError(f"probability={probability}: a number from 0 to 1")
    which = {"on": on, "topic": topic, "partition": partition, "group": group, "txn": txn, "node": node, "client_id": client_id}
    what = {"at": at, "action": action, "code": code, "ms": ms}
    often = {"times": times, "on_call": on_call, "forever": forever or None, "probability": probability, "seed": seed}
    given = {name: value for name, value in (which | what | often).items() if value is not None}
    added = asked(control, "POST", "/faults", Rule, given)
    _tell([added], json=json)


@fault.command("list")
def list_faults(control: ControlUrl = None, json: Json = False) -> None:
    """List the rules, with the hits of each and the number of exchanges that it holds."""
    _tell(asked(control, "GET", "/faults", Rules)["faults"], json=json)


@fault.command()
def remove(
    number: Annotated[int | None, typer.Argument(metavar="ID", min=1, help="The rule's number.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Remove all rules.")] = False,
    control: ControlUrl = None,
    json: Json = False,
) -> None:
    """Remove a rule, or all. The exchanges that they hold continue. The command prints the hits of the removed rules."""
    if every is (number is not None):
        raise CommandError("name the ID of one rule, or --all" if number is None else f"ID {number} and --all exclude each other")
    removed = asked(control, "DELETE", "/faults", Rules)["faults"] if every else [asked(control, "DELETE", f"/faults/{number}", Rule)]
    _tell(removed, json=json)


@fault.command()
def release(
    number: Annotated[int, typer.Argument(metavar="ID", min=1, help="The rule's number.")], control: ControlUrl = None, json: Json = False
) -> None:
    """Release the exchanges that a rule holds. The rule stays."""
    released = asked(control, "POST", f"/faults/{number}/release", Released, {})
    tell(released, f"fault {released['id']}: {released['released']} released", json=json)


@fault.command()
def sever(
    one: End,
    other: End,
    one_way: Annotated[bool, typer.Option("--one-way", help="Lose only what the first END sends.")] = False,
    control: ControlUrl = None,
    json: Json = False,
) -> None:
    """Cut the link between two brokers, or to the controller. Clients reach every broker. The command prints all severed links."""
    _change_link("sever", one, other, control, {"one_way": True} if one_way else {}, json=json)


@fault.command()
def mend(one: End, other: End, control: ControlUrl = None, json: Json = False) -> None:
    """Repair a link, both ways. The command prints the links that are still severed."""
    _change_link("mend", one, other, control, {}, json=json)


@fault.command()
def slow(
    one: End,
    other: End,
    ms: Annotated[int, typer.Argument(metavar="MS", min=0, help="Milliseconds of each message; 0: none.")],
    control: ControlUrl = None,
    json: Json = False,
) -> None:
    """Slow the link between two brokers down, or the one to the controller. The command prints all slow links."""
    told = asked(control, "POST", "/links/slow", Slow, {"one": _end(one), "other": _end(other), "ms": ms})
    tell(told, "slow: " + (", ".join(f"{low}-{high} by {by} ms" for low, high, by in told["slow"]) or "none"), json=json)


def _change_link(what: str, one: str, other: str, control: str | None, more: dict[str, bool], *, json: bool) -> None:
    told = asked(control, "POST", f"/links/{what}", Severed, {"one": _end(one), "other": _end(other), **more})
    links = [f"{one}-{other}" for one, other in told["severed"]] + [f"{one}>{other}" for one, other in told["severed_one_way"]]
    tell(told, "severed: " + (", ".join(links) or "none"), json=json)


def _end(given: str) -> int | str:
    if given == "controller":
        return given
    if not (given.isascii() and given.isdigit() and int(given[:10]) > 0):
        raise CommandError(f"{given[:60]!r}: the number of a broker, or controller")
    return int(given[:10])


def asked(control: str | None, method: str, path: str, shape: object, body: object = None) -> Any:
    """What the control answers."""
    from fencepost.cli.control_client import ask, control_from

    return ask(control_from(control), method, path, shape, body)


def _tell(faults: list[dict[str, Any]], *, json: bool) -> None:
    if not faults and not json:
        warn("none")
    for each in faults:
        tell(each, "" if json else one_line(each), json=json)


def tell(answer: object, words: str, *, json: bool) -> None:
    """Print the control's answer, in words or as JSON."""
    if json:
        say_json(answer)
    else:
        say(words)
