"""The page in a real browser: every view in light, dark and narrow, live and as a file; keys; hostile names; the ten seeded mishaps.

`make test-browser` runs it with Chromium, driven by Playwright. Without a browser it is left out. FENCEPOST_SCREENSHOTS=DIR keeps pictures.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest

from fencepost import Api, BrokerStub, FaultProxy, Producer, TransactionalProducer, VirtualClock
from fencepost.broker_stub.inspector import snapshot as snapshots
from tests.broker_stub.inspector.seeded_cases import CASES, PATIENCE_S, busy_cluster, found
from tests.broker_stub.stub_calls import Talker, metadata_request, numbered

CHROMIUM: Final = os.environ.get("FENCEPOST_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
NEEDED: Final = os.environ.get("FENCEPOST_BROWSER") == "require"

sync_api: Any = import_module("playwright.sync_api") if find_spec("playwright") else None

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.skipif(
        not NEEDED and (CHROMIUM is None or sync_api is None), reason="no Chromium or no playwright: `make test-browser` says more"
    ),
]

VIEWS: Final = ("overview", "topics", "exchanges", "producers", "transactions", "groups", "faults")
LOOKS: Final = {
    "light": {"color_scheme": "light", "viewport": {"width": 1360, "height": 900}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1360, "height": 900}},
    "narrow": {"color_scheme": "light", "viewport": {"width": 390, "height": 844}},
    "narrow-dark": {"color_scheme": "dark", "viewport": {"width": 390, "height": 844}},
}
HOSTILE: Final = "<img src=x onerror=\"document.title='owned'\">'\"&{{}}\u202e"
WAIT_MS: Final = 10_000
GONE: Final = "net::ERR_CONNECTION_REFUSED"
"""A page that is still open when its stub ends asks for events once more."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    assert sync_api is not None, "playwright is needed: pip install '.[browser]'"
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield running
        running.close()


def _is_wrong(said: Any) -> bool:
    return said.type in ("error", "warning") and GONE not in said.text


class Look:
    """One window, and what went wrong in it."""

    def __init__(self, browser: Any, **options: Any) -> None:
        self.context = browser.new_context(accept_downloads=True, **{"viewport": {"width": 1360, "height": 900}, **options})
        self.page = self.context.new_page()
        self.page.set_default_timeout(WAIT_MS)
        self.wrong: list[str] = []
        self.asked: set[str] = set()
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.page.on("console", lambda said: self.wrong.append(said.text) if _is_wrong(said) else None)
        self.page.on("request", lambda request: self.asked.add(re.sub(r"(//[^/]+)/.*", r"\1", request.url)))

    def shoot(self, name: str) -> None:
        directory = os.environ.get("FENCEPOST_SCREENSHOTS")
        if directory:
            Path(directory).mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=str(Path(directory, f"{name}.png")))

    def text(self, where: str = "main") -> str:
        return str(self.page.inner_text(where))


@pytest.fixture
def look(browser: Any) -> Iterator[Callable[..., Look]]:
    opened: list[Look] = []

    def make(**options: Any) -> Look:
        opened.append(Look(browser, **options))
        return opened[-1]

    yield make
    for each in opened:
        each.context.close()
        assert each.wrong == []


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerStub, Path]]:
    """A cluster with something in each view, and its share file."""
    with busy_cluster() as stub:
        yield stub, stub.share(tmp_path_factory.mktemp("share") / "busy.html")


@pytest.mark.parametrize("kind", LOOKS)
def test_every_view(look: Callable[..., Look], busy: tuple[BrokerStub, Path], kind: str) -> None:
    """Each view has its content, asks no other host, and is never wider than the window."""
    stub, file = busy
    seen = look(**LOOKS[kind])
    wide = {"orders": "topics/orders", "partition": "topics/invoices/0", "exchange": f"exchanges/{_lost(stub)}"}
    for name, place in {**{view: view for view in VIEWS}, **wide}.items():
        seen.page.goto(f"file://{file}#{place}")
        seen.page.wait_for_selector("main .panel")
        seen.shoot(f"{kind}-{name}")
        sizes = seen.page.evaluate("[document.scrollingElement.scrollWidth, innerWidth]")
        assert sizes[0] <= sizes[1], (name, sizes)
        assert len(seen.text()) > 40
    assert seen.asked <= {f"file://{file}"} | {url for url in seen.asked if url.startswith("file:")}


def _lost(stub: BrokerStub) -> int:
    return int(next(each["rows"][0] for each in found(stub) if each["kind"] == "lost reply"))


def test_lanes_show_transactions_and_lines(look: Callable[..., Look], busy: tuple[BrokerStub, Path]) -> None:
    """Bars for committed, aborted and open transactions, a line for the LSO and one for the high watermark, and a mark of a duplicate."""
    _, file = busy
    seen = look()
    seen.page.goto(f"file://{file}#topics/invoices/0")
    for kind in ("committed", "aborted", "open"):
        assert seen.page.locator(f"main .lane svg rect.t-{kind}").count() > 0, kind
        assert seen.page.locator(f"main .lane svg rect.b-{kind}").count() > 0, kind
    assert seen.page.locator("main .lane svg .x-lso").count() == 1
    assert seen.page.locator("main .lane svg .x-hw").count() == 1
    seen.page.goto(f"file://{file}#topics/orders")
    assert "×2" in seen.page.locator("main .lane svg .x-dup").first.inner_html()
    assert seen.page.locator("main .lane svg .x-bad").count() == 1


def test_a_click_on_a_batch_opens_its_exchange(look: Callable[..., Look], busy: tuple[BrokerStub, Path]) -> None:
    """The sequence diagram has the request with what matters, and the exchange's own messages are below."""
    _, file = busy
    seen = look()
    seen.page.goto(f"file://{file}#topics/invoices/0")
    seen.page.locator("main .lane svg rect.hit").first.click()
    seen.page.wait_for_selector("text=Sequence")
    assert re.search(r"#exchanges/\d+$", seen.page.url)
    assert "pid" in seen.text(".side")
    assert seen.page.locator(".side svg line[marker-end]").count() > 2
    assert '"transactional_id": "billing-1"' in seen.text(".side pre")


def test_what_is_in_doubt_is_dashed(look: Callable[..., Look], busy: tuple[BrokerStub, Path]) -> None:
    """A lost reply is drawn dashed, and the batch that came again is named."""
    stub, file = busy
    seen = look()
    seen.page.goto(f"file://{file}#exchanges/{_lost(stub)}")
    seen.page.wait_for_selector("text=in doubt")
    assert seen.page.locator(".side svg line.s-doubt").count() >= 2
    assert re.search(r"again #\d+", str(seen.page.locator(".side svg").inner_html()))


OVERRUNS: Final = """() => [...document.querySelectorAll("svg[role=group]")].flatMap((drawing) => {
    const box = drawing.getBoundingClientRect();
    const texts = [...drawing.querySelectorAll("text")].map((each) => [each.textContent, each.getBoundingClientRect()]);
    const outside = texts.filter(([, at]) => at.left < box.left || at.right > box.right);
    const upon = texts.flatMap(([text, one], place) => texts.slice(place + 1).filter(([, other]) =>
        Math.min(one.right, other.right) - Math.max(one.left, other.left) > 1 &&
        Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top) > 4).map(([other]) => [text, other]));
    return [...outside.map(([text]) => text), ...upon];
})"""
"""Texts of the sequence diagrams that leave the drawing, and pairs of texts that overlap."""


@pytest.fixture(scope="module")
def long_names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerStub, Path]]:
    """One broker, that ran for two weeks and was then restarted, a client with its name and one with a wide name, and long names of topics
    and transactional ids."""
    topic, wide = "orders-of-" + "customers-" * 12, "買い物サービス🛒" * 4
    with BrokerStub(clock=VirtualClock()) as stub:
        stub.create_topic(topic, partitions=2)
        stub.faults.on(Api.PRODUCE).where(topic=topic).after_append().drop()
        with Producer(stub.settings, client_id=wide, request_timeout_ms=300) as producer:
            producer.send(topic, b"1", partition=0).result(PATIENCE_S)
            stub.advance(14 * 86_400_000)
            stub.stop_broker(1)
            stub.start_broker(1)
            producer.send(topic, b"2", partition=0).result(PATIENCE_S)
        with (
            TransactionalProducer(stub.settings, client_id="broker 1", transactional_id=wide) as transactional,
            transactional.transaction(timeout=PATIENCE_S) as tx,
        ):
            tx.send(topic, b"3")
        yield stub, stub.share(tmp_path_factory.mktemp("share") / "long-names.html")


@pytest.mark.parametrize("kind", LOOKS)
def test_a_sequence_diagram_has_room_for_its_labels(look: Callable[..., Look], long_names: tuple[BrokerStub, Path], kind: str) -> None:
    """No label leaves the drawing or lies upon another one, however long names are and however late it is. A narrow window shows both ends
    of the arrows, and a change keeps its end where a topic's name is cut."""
    stub, file = long_names
    seen = look(**LOOKS[kind])
    width = int(seen.page.viewport_size["width"])
    produced, ended = stub.journal.requests(Api.PRODUCE)[-1].number, stub.journal.requests(Api.END_TXN)[-1].number
    for number in (produced, ended):
        seen.page.goto(f"file://{file}#exchanges/{number}")
        seen.page.wait_for_selector(f".side :text('Exchange {number}')")
        seen.shoot(f"{kind}-long-names-{number}")
        assert seen.page.evaluate(OVERRUNS) == []
        heads = seen.page.locator(".side svg .s-head")
        assert heads.count() == 2
        ends = [heads.nth(each).bounding_box() for each in range(2)]
        assert 0 < ends[0]["x"] < ends[1]["x"] < width - ends[1]["width"]
    seen.page.goto(f"file://{file}#exchanges/{stub.journal.requests(Api.PRODUCE)[-2].number}")
    seen.page.wait_for_selector(".side svg .s-t-fault")
    assert seen.page.evaluate(OVERRUNS) == []
    changes = seen.page.locator(".side svg .s-t-fault").all_text_contents()
    assert any(re.search(r"…, 2 partitions: leader no leader → broker 1", each) for each in changes), changes


def test_producers_show_five_batches(look: Callable[..., Look], busy: tuple[BrokerStub, Path]) -> None:
    """Each row has five places, and those with an exchange lead to it."""
    _, file = busy
    seen = look()
    seen.page.goto(f"file://{file}#producers")
    first = seen.page.locator("main .chips").first
    assert first.locator(".chip").count() == 5
    seen.page.locator("main a.chip").first.click()
    seen.page.wait_for_selector("text=Sequence")


@pytest.mark.parametrize("name", CASES)
def test_the_page_explains_each_mishap(look: Callable[..., Look], tmp_path: Path, name: str) -> None:
    """The first view says what went wrong, and a click leads to a view that shows it."""
    case = CASES[name]
    with BrokerStub(**case.options) as stub:
        case.make(stub)
        file = stub.share(tmp_path / "case.html")
        title = next(each["title"] for each in found(stub) if each["kind"] == case.kind)
    seen = look()
    seen.page.goto(f"file://{file}")
    seen.page.wait_for_selector(".found")
    seen.shoot(f"case-{name.replace(' ', '-')}-1")
    seen.page.get_by_role("link", name=title).first.click()
    seen.page.wait_for_selector(f"main > .{case.view}")
    seen.shoot(f"case-{name.replace(' ', '-')}-2")
    shown = seen.text()
    for word in SHOWN[name]:
        assert word in shown or word in seen.page.content(), (word, shown)


SHOWN: Final = {
    "lost reply": ("in doubt", "again #"),
    "fenced zombie": ("INVALID_PRODUCER_EPOCH", "old-process"),
    "hanging transaction": ("held by", "pid 7001"),
    "stale leader": ("NOT_LEADER_OR_FOLLOWER", "leader broker 1 → broker 2"),
    "poison record": ("INVALID_RECORD", "record 2: a compacted topic takes no record without a key"),
    "expired batch": ("in doubt", "no response"),
    "quota": ("throttled",),
    "wrong acks": ("careless", "was killed"),
    "rebalance in a transaction": ("UNKNOWN_MEMBER_ID", "billing"),
    "aborted batch": ("b-aborted", "t-aborted"),
}
"""What the view says or draws."""


def test_it_is_live(look: Callable[..., Look], tmp_path: Path) -> None:
    """What happens is seen without a reload; pausing holds it, and a reconnect shows everything. Faults go on and off."""
    with BrokerStub() as stub:
        seen = look()
        seen.page.goto(stub.ui().url + "#exchanges")
        seen.page.wait_for_selector("text=No exchange.")
        with Producer(stub.settings, linger_ms=0, client_id="shop") as producer:
            producer.send("orders", b"v").result(PATIENCE_S)
            seen.page.wait_for_selector("text=orders-0: 1 record, pid 0 epoch 0 seq 0-0")
            seen.page.keyboard.press("Space")
            seen.page.wait_for_selector("text=paused")
            producer.send("orders", b"v").result(PATIENCE_S)
            seen.page.keyboard.press("Space")
            seen.page.wait_for_selector("text=orders-0: 1 record, pid 0 epoch 0 seq 1-1")
            seen.page.goto(seen.page.url.split("#")[0] + "#faults")
            seen.page.get_by_label("topic").fill("orders")
            seen.page.get_by_role("button", name="Add").click()
            seen.page.wait_for_selector("text=topic=orders")
            assert [fault.as_data()["action"] for fault in stub.faults.installed] == ["drop"]
            seen.page.get_by_role("button", name="remove").click()
            seen.page.wait_for_selector("text=No fault rule is on.")
            assert stub.faults.installed == ()
        seen.page.keyboard.press("Escape")
        with seen.page.expect_download() as coming:
            seen.page.locator("#share").click()
        shared = look()
        coming.value.save_as(tmp_path / "moment.html")
        shared.page.goto(f"file://{tmp_path}/moment.html#exchanges")
        shared.page.wait_for_selector("text=seq 1-1")
        assert "moment of 20" in shared.text("#tools")
        records = look()
        records.page.goto(stub.ui().url + "#topics/orders/0/1")
        records.page.wait_for_selector("h2:has-text('Records')")
        records.page.wait_for_selector("td:has-text('v')")


def test_a_proxy_is_shown(look: Callable[..., Look]) -> None:
    """The cluster behind a proxy with its lanes, and the exchanges with the rules that acted."""
    with BrokerStub(brokers=2) as behind, FaultProxy(behind.bootstrap) as proxy:
        behind.create_topic("orders")
        proxy.faults.on(Api.PRODUCE).drop_reply()
        with Producer(bootstrap_servers=proxy.bootstrap, request_timeout_ms=300, linger_ms=0) as producer:
            producer.send("orders", b"v").result(PATIENCE_S)
        seen = look()
        seen.page.goto(proxy.ui().url)
        seen.page.wait_for_selector("text=1 lost reply: orders-0 has the batch once")
        seen.page.goto(proxy.ui().url + "#topics/orders")
        seen.page.wait_for_selector("main .lane svg rect.b-plain")
        seen.shoot("proxy-topics")


def test_keys(look: Callable[..., Look], busy: tuple[BrokerStub, Path]) -> None:
    """Digits choose views, j and k move, Enter opens, Esc closes, / filters, ? helps; all without a mouse."""
    _, file = busy
    seen = look()
    seen.page.goto(f"file://{file}")
    seen.page.wait_for_selector(".found")
    seen.page.keyboard.press("3")
    seen.page.wait_for_selector("main > .exchanges")
    for key in ("j", "j", "k"):
        seen.page.keyboard.press(key)
    seen.page.keyboard.press("Enter")
    seen.page.wait_for_selector("text=Sequence")
    opened = seen.page.url
    seen.page.keyboard.press("j")
    assert seen.page.url != opened
    seen.page.keyboard.press("Escape")
    assert seen.page.url.endswith("#exchanges")
    seen.page.keyboard.press("/")
    seen.page.wait_for_selector("#filter:focus")
    seen.page.keyboard.type("END_TXN")
    seen.page.locator("tr.pick:has-text('API_VERSIONS'), tr.pick:has-text('PRODUCE')").first.wait_for(state="detached")
    assert seen.page.locator("tr.pick").count() > 2
    assert all("END_TXN" in row for row in seen.page.locator("tr.pick").all_inner_texts())
    seen.page.keyboard.press("Escape")
    seen.page.keyboard.press("?")
    assert "next, previous row" in seen.text("#help")
    seen.page.keyboard.press("Escape")
    assert seen.page.locator("#help").is_hidden()
    for number, view in enumerate(VIEWS, 1):
        seen.page.keyboard.press(str(number))
        seen.page.wait_for_selector(f"main > .{view}")


def test_many_partitions_change_at_once(look: Callable[..., Look]) -> None:
    """A broker that stops is a line for each topic, and not for each partition. The view of topics begins with one that has records."""
    with BrokerStub(brokers=2) as stub:
        stub.create_topic("a-new-one", replication_factor=1)
        stub.create_topic("orders", partitions=40, replication_factor=2)
        with Producer(stub.settings) as producer:
            producer.send("orders", b"v").result(PATIENCE_S)
        stub.stop_broker(2)
        seen = look()
        seen.page.goto(stub.ui().url)
        seen.page.wait_for_selector("text=orders, 40 partitions: ISR 1,2 → 1")
        assert "orders-7: ISR" not in seen.text()
        seen.page.keyboard.press("2")
        seen.page.wait_for_selector("main select")
        assert seen.page.input_value("main select") == "orders"


def test_topics_that_do_not_fit_are_counted(look: Callable[..., Look], monkeypatch: pytest.MonkeyPatch) -> None:
    """The figures say that they are not about the topics that the page leaves out."""
    monkeypatch.setattr(snapshots, "PARTITIONS_MAX", 2)
    with BrokerStub() as stub:
        for name in "abc":
            stub.create_topic(name)
        seen = look()
        seen.page.goto(stub.ui().url)
        seen.page.wait_for_selector("text=1 topic more")
        assert "2topics1more topic, not counted here0without leader" in seen.text().replace("\n", "").replace(" topics", "topics")
        stub.create_topic("d")
        seen.page.wait_for_selector("text=2 topics more")


def test_marks_do_not_cover_each_other(look: Callable[..., Look]) -> None:
    """Where many narrow batches came twice, only marks with room around them are numbers; every batch keeps a mark."""
    with BrokerStub() as stub, Talker(stub) as talker:
        stub.create_topic("orders")
        for number in range(150):
            for _ in range(2):
                talker.produce("orders", numbered(5, number))
        seen = look()
        seen.page.goto(f"{stub.ui().url}#topics/orders")
        seen.page.wait_for_selector("text.x-dup")
        marks = seen.page.evaluate(
            "[...document.querySelectorAll('text.x-dup')].map((each) => { const box = each.getBoundingClientRect(); "
            "return [each.firstChild.data, box.left, box.right]; })"
        )
    labels = [each for each in marks if each[0] == "×2"]
    assert len(marks) == 150
    assert len(labels) > 20
    assert all(before[2] < after[1] for before, after in pairwise(labels))


def test_hostile_names_are_texts(look: Callable[..., Look], tmp_path: Path) -> None:
    """Markup in client ids, groups, transactional ids, keys and values is shown as it is, in every view, live and as a file."""
    with BrokerStub() as stub:
        with Producer(stub.settings, linger_ms=0, client_id=HOSTILE) as producer:
            producer.send("orders", HOSTILE.encode(), key=HOSTILE.encode(), headers=[(HOSTILE, b"<b>")]).result(PATIENCE_S)
        with (
            TransactionalProducer(stub.settings, transactional_id=HOSTILE, client_id=HOSTILE, linger_ms=0) as other,
            other.transaction() as tx,
        ):
            tx.send("orders", b"v").result(PATIENCE_S)
        with Talker(stub, client_id=HOSTILE) as talker:
            talker.ask(metadata_request(HOSTILE), 12)
        file = stub.share(tmp_path / "moment.html")
        for address in (stub.ui().url, f"file://{file}"):
            seen = look()
            for view in (*VIEWS, "topics/orders/0/0", "exchanges/6", f"transactions/{HOSTILE}"):
                seen.page.goto(f"{address}#{view}")
                seen.page.wait_for_selector("main > *")
                seen.page.wait_for_timeout(100)
                assert seen.page.locator("main img").count() == 0
                assert seen.page.title() == "fencepost inspector"
            seen.page.goto(f"{address}#exchanges")
            seen.page.wait_for_selector("td:has-text('<img src=x')")
            assert "\u202e" not in seen.text()
