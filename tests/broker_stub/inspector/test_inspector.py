"""The inspector's server: what it answers to its own page, what it refuses to others, and that it ends with its stub."""

from __future__ import annotations

import http.client
import json
import re
import threading
from collections.abc import Collection, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from fencepost import Api, BrokerStub, FaultProxy, Producer, VirtualClock
from fencepost.broker_stub.inspector import upstream_client
from fencepost.broker_stub.inspector.inspector import PAGES_MAX
from tests.broker_stub.stub_calls import Talker, metadata_request
from tests.certificates import Authority
from tests.later import jumping
from tests.waiting import until

pytestmark = pytest.mark.timeout(60)

DEADLINE_S = 10.0
HOSTILE = "</script><img src=x onerror=alert(1)>\u202e"


@pytest.fixture
def stub() -> Iterator[BrokerStub]:
    with BrokerStub() as running:
        yield running


class Page:
    """A client that sends what a browser would send."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "", parts.port or 0

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
        with closing(http.client.HTTPConnection(self.host, self.port, timeout=DEADLINE_S)) as connection:
            content = {} if body is None else {"Content-Type": "application/json"}
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, None if body is None else json.dumps(body), {**content, **named})
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()

    def events(self) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=DEADLINE_S)
        connection.request("GET", "/events")
        return connection.getresponse()


def event(stream: http.client.HTTPResponse) -> dict[str, Any]:
    """The next moment of a stream."""
    while True:
        line = stream.readline()
        assert line, "the stream has ended"
        if line.startswith(b"data: "):
            return dict(json.loads(line.removeprefix(b"data: ")))


def inside(page: bytes) -> dict[str, Any]:
    """The moment in a share file."""
    found = re.search(rb'<script type="application/json" id="moment">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return dict(json.loads(found[1]))


def test_the_page_is_one_file_without_other_hosts(stub: BrokerStub, tmp_path: Path) -> None:
    """The page and the share file load nothing, name no other host, and are small. Only their own script runs."""
    page = Page(stub.ui().url)
    status, headers, live = page.ask("GET", "/")
    shared = stub.share(tmp_path / "moment.html").read_bytes()
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "script-src 'sha256-" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    for each in (live, shared):
        assert len(each) < 100_000
        addresses = set(re.findall(rb"(?:https?:)?//[a-z][\w.]+", each)) - {b"http://www.w3.org"}  # the name of SVG, which nothing loads
        assert not {found for found in addresses if b"." in found}
        assert not re.search(rb"<(?:link|iframe|img)\b|@import|url\(http", each)
    assert b"connect-src 'none'" in shared


def test_a_share_file_holds_the_moment(stub: BrokerStub, tmp_path: Path) -> None:
    """It has the snapshot, the exchanges and the findings, also after the stub is closed, and no value of a record."""
    with Producer(stub.settings, linger_ms=0) as producer:
        producer.send("orders", b"a secret value", key=b"a secret key").result(DEADLINE_S)
    stub.close()
    page = stub.share(tmp_path / "moment.html").read_bytes()
    moment = inside(page)
    (topic,) = [each for each in moment["snapshot"]["topics"] if not each["internal"]]
    assert (topic["name"], topic["partitions"][0]["end"]) == ("orders", 1)
    assert [row["asked"] for row in moment["exchanges"] if row["api"] == "PRODUCE"] == ["orders-0: 1 record, pid 0 epoch 0 seq 0-0"]
    assert b"secret" not in page


def test_names_cannot_leave_the_data(stub: BrokerStub, tmp_path: Path) -> None:
    """A client id with markup stays a text in the file: it cannot end the element that it is in."""
    with Talker(stub, client_id=HOSTILE) as talker:
        talker.ask(metadata_request("orders"), 12)
    page = stub.share(tmp_path / "moment.html").read_bytes()
    assert b"<img" not in page
    assert inside(page)["exchanges"][-1]["client"] == HOSTILE


def test_pages_hear_what_happens(stub: BrokerStub) -> None:
    """A page first gets everything, and then what is new, once. Two pages get the same, also one that is opened later."""
    page = Page(stub.ui().url)
    with closing(page.events()) as first:
        assert event(first)["full"]
        with Producer(stub.settings, linger_ms=0) as producer:
            producer.send("orders", b"v").result(DEADLINE_S)
        with closing(page.events()) as second:
            rows = {row["n"]: row for row in event(second)["exchanges"]}
            assert any(row["api"] == "PRODUCE" and row["outcome"] == "ok" for row in rows.values())
            seen: dict[int, Any] = {}
            while not any(row["api"] == "PRODUCE" and row["outcome"] == "ok" for row in seen.values()):
                seen |= {row["n"]: row for row in event(first)["exchanges"]}


def test_faults_are_switched_by_the_own_page(stub: BrokerStub) -> None:
    """The page adds, releases and removes rules; a wrong one is refused with a reason."""
    page = Page(stub.ui().url)
    origin = f"http://127.0.0.1:{page.port}"
    status, _, body = page.ask("POST", "/faults", {"on": ["PRODUCE"], "action": "hold"}, Origin=origin, Sec_Fetch_Site="same-origin")
    assert (status, [fault.id for fault in stub.faults.installed]) == (201, [json.loads(body)["id"]])
    assert page.ask("POST", "/faults", {"action": "explode"})[0] == 400
    assert page.ask("POST", f"/faults/{json.loads(body)['id']}/release", {})[0] == 200
    assert page.ask("DELETE", f"/faults/{json.loads(body)['id']}", Origin=origin)[0] == 200
    assert stub.faults.installed == ()
    assert page.ask("DELETE", "/faults/99")[0] == 404
    assert page.ask("DELETE", "/faults")[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:80"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "https://127.0.0.1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/faults"), ("DELETE", "/faults"), ("GET", "/moment"), ("GET", "/"), ("GET", "/events")]
)
def test_other_sites_are_refused(stub: BrokerStub, headers: dict[str, str], method: str, path: str) -> None:
    """No other site reads the page or switches faults: neither by its own name for this address, nor from a page of its own."""
    page = Page(stub.ui().url)
    body = {"on": ["PRODUCE"], "action": "drop"} if method == "POST" else None
    status, _, told = page.ask(method, path, body, **headers)
    assert status == 403
    assert "orders" not in told.decode()
    assert stub.faults.installed == ()


def test_a_form_of_another_site_switches_nothing(stub: BrokerStub) -> None:
    """A browser sends a form to any site, and JSON only to the own one."""
    page = Page(stub.ui().url)
    with closing(http.client.HTTPConnection(page.host, page.port, timeout=DEADLINE_S)) as connection:
        connection.request("POST", "/faults", '{"action": "drop"}', {"Content-Type": "text/plain"})
        assert connection.getresponse().status == 415
    assert stub.faults.installed == ()


def test_records_are_shown_on_demand(stub: BrokerStub) -> None:
    """The live page asks for some records of a partition: texts, bytes as digits, long ones cut."""
    with Producer(stub.settings, linger_ms=0) as producer:
        for value in (b"text", b"\xff\x00", b"x" * 1000, None):
            producer.send("orders", value, key=b"k", headers=[("h", b"1")]).result(DEADLINE_S)
    page = Page(stub.ui().url)
    status, _, body = page.ask("GET", "/records?topic=orders&partition=0&offset=0")
    shown = json.loads(body)["records"]
    assert status == 200
    assert [each["value"] for each in shown] == ["text", "0xff00", "x" * 256 + "... (1000 bytes)", None]
    assert shown[0]["headers"] == [["h", "1"]]
    for path in ("/records?topic=none&partition=0&offset=0", "/records?topic=orders&partition=7&offset=0"):
        assert page.ask("GET", path)[0] == 404
    assert page.ask("GET", "/records?topic=orders&partition=-1&offset=0")[0] == 400


def test_it_ends_with_its_stub() -> None:
    """No thread and no socket is left, also with a page open; a second address is refused afterwards."""
    with BrokerStub() as stub:
        inspector = stub.ui()
        stream = Page(inspector.url).events()
        assert event(stream)["full"]
    with pytest.raises(RuntimeError, match="the inspector is closed"):
        _ = inspector.url
    assert repr(inspector) == "Inspector(url=None)"
    assert not [each for each in threading.enumerate() if each.name == "stub-inspector"]
    stream.close()
    with pytest.raises(RuntimeError, match="closed"):
        stub.ui()


def test_too_many_pages_are_refused(stub: BrokerStub) -> None:
    """The number of open pages is bounded, and a closed one makes room."""
    page = Page(stub.ui().url)
    streams = [page.events() for _ in range(PAGES_MAX)]
    for stream in streams:
        event(stream)
    assert page.ask("GET", "/events")[0] == 503
    for stream in streams:
        stream.close()

    def has_room() -> bool:
        with closing(page.events()) as stream:
            return stream.status == 200

    until(has_room, "room for a page")


def test_pages_that_are_opened_at_the_same_time(stub: BrokerStub) -> None:
    """The bound holds also where all ask before the first one is counted."""
    page = Page(stub.ui().url)
    connections = [http.client.HTTPConnection(page.host, page.port, timeout=DEADLINE_S) for _ in range(3 * PAGES_MAX)]
    try:
        for connection in connections:
            connection.request("GET", "/events")
        answers = [connection.getresponse() for connection in connections]
        open_now = [answer for answer in answers if answer.status == 200 and answer.readline()]
        assert len(open_now) == PAGES_MAX
    finally:
        for connection in connections:
            connection.close()


def test_nothing_is_taken_while_no_page_is_open(stub: BrokerStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a page the cluster's thread takes no snapshots."""
    taken: list[int] = []
    inspector = stub.ui()
    take = stub._snapshots.take

    def taking(first: Collection[str]) -> dict[str, Any]:
        taken.append(1)
        return take(first)

    monkeypatch.setattr(stub._snapshots, "take", taking)
    page = Page(inspector.url)
    page.ask("GET", "/")
    assert taken == []
    stream = page.events()
    event(stream)
    assert taken != []
    stream.close()
    until(lambda: not inspector._pages, "the page is known to be closed")
    until(lambda: inspector._ticking is None or inspector._ticking.done(), "the end of the snapshots")


def test_a_virtual_clock_is_told(tmp_path: Path) -> None:
    """The page does not let the time of a virtual clock run."""
    with BrokerStub(clock=VirtualClock()) as stub:
        assert stub.snapshot()["clock"] == "virtual"
    assert inside(stub.share(tmp_path / "moment.html").read_bytes())["snapshot"]["clock"] == "virtual"


def test_a_proxy_shows_the_cluster_behind_it(tmp_path: Path) -> None:
    """Brokers, partitions with lanes, producers, and its own journal with the rules that acted."""
    with jumping() as jump, BrokerStub(brokers=2) as behind, FaultProxy(behind.bootstrap) as proxy:
        behind.create_topic("orders", partitions=2)
        dropped = proxy.faults.on(Api.PRODUCE).drop_reply()
        with Producer(bootstrap_servers=proxy.bootstrap, request_timeout_ms=8_000, linger_ms=0) as producer:
            sent = producer.send("orders", b"v", partition=1)
            dropped.wait(1, DEADLINE_S)
            jump(8_000, producer)
            sent.result(DEADLINE_S)
        page = Page(proxy.ui().url)
        moment = json.loads(page.ask("GET", "/moment")[2])
        assert page.ask("GET", "/records?topic=orders&partition=0&offset=0")[0] == 404
        shared = inside(proxy.share(tmp_path / "moment.html").read_bytes())
    for each in (moment, shared):
        snapshot = each["snapshot"]
        assert (snapshot["kind"], [broker["state"] for broker in snapshot["brokers"]]) == ("proxy", ["up", "up"])
        (topic,) = [topic for topic in snapshot["topics"] if not topic["internal"]]
        assert [(part["start"], part["lso"], part["hw"], len(part["batches"])) for part in topic["partitions"]] == [
            (0, 0, 0, 0),
            (0, 1, 1, 1),
        ]
        assert topic["partitions"][1]["producers"][0]["pid"] == topic["partitions"][1]["batches"][0][3]
        assert [found["kind"] for found in each["findings"]] == ["lost reply"]
        (lost,) = [row for row in each["exchanges"] if row["faults"]]
        assert (lost["outcome"], lost["faults"]) == ("unheard", ["PRODUCE after_append: drop"])


def test_a_cluster_that_tells_nothing_is_shown_by_its_exchanges() -> None:
    """The page says why it has no snapshot, and shows the journal."""
    with BrokerStub() as behind, FaultProxy(behind.bootstrap) as proxy:
        with Talker(behind) as talker:
            talker.ask(metadata_request("orders"), 12)
        behind.close()
        moment = json.loads(Page(proxy.ui().url).ask("GET", "/moment")[2])
        assert moment["snapshot"]["problem"].startswith("no broker tells about the cluster: 127.0.0.1:")
        assert moment["snapshot"]["topics"] == []


def test_news_have_only_what_changed(stub: BrokerStub) -> None:
    """A topic in which nothing happened is not sent again; its name is, so that a page knows that it is still there."""
    stub.create_topic("quiet")
    page = Page(stub.ui().url)
    with closing(page.events()) as stream:
        assert {topic["name"] for topic in event(stream)["snapshot"]["topics"]} == {"quiet"}
        assert event(stream)["snapshot"]["topic_names"] == ["quiet"]  # everything once more
        with Producer(stub.settings, linger_ms=0) as producer:
            producer.send("orders", b"v").result(DEADLINE_S)
        seen: dict[str, Any] = {}
        while not seen.get("orders", {}).get("end"):
            snapshot = event(stream)["snapshot"]
            seen |= {topic["name"]: topic["partitions"][0] for topic in snapshot["topics"]}
        assert "quiet" not in seen
        assert set(snapshot["topic_names"]) == {"quiet", "orders"}


def test_a_silent_broker_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the others tell is shown, with the reason for what is missing; the silent one is not waited for at every snapshot."""
    monkeypatch.setattr(upstream_client, "TIMEOUT_S", 0.3)
    with BrokerStub(brokers=2) as behind, FaultProxy(behind.bootstrap) as proxy:
        behind.create_topic("orders", partitions=2)
        with Producer(bootstrap_servers=proxy.bootstrap, linger_ms=0) as producer:
            for partition in range(2):
                producer.send("orders", b"v", partition=partition).result(DEADLINE_S)
        silent = behind.leader("orders", 1)
        behind.pause_broker(silent)
        page = Page(proxy.ui().url)
        snapshot = json.loads(page.ask("GET", "/moment")[2])["snapshot"]
        assert snapshot["problem"] == f"not every broker tells about itself: broker {silent}: timed out"
        (topic,) = [each for each in snapshot["topics"] if each["name"] == "orders"]
        assert [len(part["batches"]) for part in topic["partitions"]] == [1, 0]


def test_a_cluster_with_tls_is_asked_with_tls(tmp_path: Path) -> None:
    """The inspector of a proxy speaks to brokers as the proxy does."""
    authority = Authority(tmp_path)
    server = authority.issue("localhost")
    with (
        BrokerStub(host="localhost", tls=(server.certfile, server.keyfile)) as behind,
        FaultProxy(behind.bootstrap, upstream_tls=authority.cafile) as proxy,
    ):
        behind.create_topic("orders")
        snapshot = json.loads(Page(proxy.ui().url).ask("GET", "/moment")[2])["snapshot"]
        assert "problem" not in snapshot
        assert [topic["name"] for topic in snapshot["topics"]] == ["orders"]
