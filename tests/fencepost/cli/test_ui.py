"""`--ui` of `fencepost broker` and `fencepost proxy`: the address of a page is printed, and the page is there."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.request import urlopen

import pytest

from fencepost import Producer
from tests.fencepost.cli.shell import DEADLINE_S, first_lines, running

pytestmark = pytest.mark.timeout(120)


def moment(line: str) -> dict[str, Any]:
    """What the page at the printed address shows."""
    found = re.fullmatch(r"page at (http://127\.0\.0\.1:\d+/)", line)
    assert found is not None, line
    with urlopen(found[1], timeout=DEADLINE_S) as page:
        assert b"<title>fencepost inspector</title>" in page.read()
    with urlopen(f"{found[1]}moment", timeout=DEADLINE_S) as answer:
        return dict(json.load(answer))


def test_a_broker_and_a_proxy_with_pages() -> None:
    """Each prints the address of its page, which shows the exchanges of a producer; the proxy's shows the cluster behind it."""
    with running("broker", "--port", 0, "--ui") as broker:
        listening, page = first_lines(broker, 2)
        bootstrap = listening.rpartition(" ")[2]
        with running("proxy", bootstrap, "--ui-port", 0) as proxy:
            at, proxied = first_lines(proxy, 2)
            with Producer(bootstrap_servers=at.rpartition(" ")[2]) as producer:
                producer.send("orders", b"v").result(DEADLINE_S)
            for told, kind in ((page, "stub"), (proxied, "proxy")):
                shown = moment(told)
                assert shown["snapshot"]["kind"] == kind
                assert [row["told"] for row in shown["exchanges"] if row["api"] == "PRODUCE"] == ["offset 0"]
                assert "orders" in [topic["name"] for topic in shown["snapshot"]["topics"]]
