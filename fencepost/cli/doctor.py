"""`fencepost doctor`: what a cluster offers, and why a producer would fail there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.cli.error_lines import CommandError
from fencepost.cli.options import Bootstrap, connection
from fencepost.cli.output import say_json
from fencepost.cli.waiting import waiting

if TYPE_CHECKING:
    from fencepost.cli.doctor_findings import Finding


def doctor(
    address: Annotated[
        str | None,
        typer.Argument(
            metavar="BOOTSTRAP", show_default=False, help="HOST:PORT of a broker, several with commas; the same as --bootstrap."
        ),
    ] = None,
    bootstrap: Bootstrap = None,
    topic: Annotated[str | None, typer.Option(help="Check this topic, too.")] = None,
    transactions: Annotated[
        bool, typer.Option("--transactions", help="Try whether transactions are permitted; creates a transactional id, which expires.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object for each finding.")] = False,
    config: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A setting of the producer; repeatable.")] = None,
) -> None:
    """Find out why a producer would fail: addresses, versions, permissions, and with --topic the topic.

    Exit code 1 if any finding is FAIL. The command writes no record and creates no topic.
    """
    import asyncio

    from fencepost.cli.doctor_checks import REQUEST_TIMEOUT_S, examine
    from fencepost.cli.doctor_findings import Verdict
    from fencepost.cli.reachability import settings_for

    if address is not None and bootstrap is not None:
        raise CommandError(f"BOOTSTRAP {address} and --bootstrap {bootstrap} exclude each other")
    servers, given = connection(address or bootstrap, "--config", config)
    settings = settings_for(servers, given, client_id="fencepost-doctor")
    with waiting(f"answers of the brokers at {servers}, for at most {REQUEST_TIMEOUT_S:g} s each"):
        findings = asyncio.run(examine(settings, topic=topic, transactions=transactions))
    if json:
        for finding in findings:
            say_json(finding)
    else:
        _show(findings)
    raise typer.Exit(1 if any(each.verdict is Verdict.FAIL for each in findings) else 0)


def _show(findings: list[Finding]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from fencepost.cli.console import Screen, cell

    colours = {"OK": "green", "WARN": "yellow", "FAIL": "bold red"}
    table = Table("", "about", "finding", box=box.SIMPLE_HEAD, pad_edge=False)
    for each in findings:
        table.add_row(Text(each.verdict.value, style=colours.get(each.verdict.value, "")), cell(each.subject), cell(each.words))
    Screen().show(table)
