"""The HTTP control of a stub and of a proxy: what it does, and that nothing that is sent to it ends it."""

from __future__ import annotations

import asyncio
import http.client
import json
import random
import socket
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any
from urllib.parse import urlsplit

import pytest

from fencepost.broker_stub import BrokerStub, FaultProxy, VirtualClock
from fencepost.broker_stub.control.control import Control, address
from fencepost.broker_stub.control.routes import ROUTES
from fencepost.broker_stub.network.http import BODY_BYTES_MAX, CONNECTIONS_MAX, HEAD_BYTES_MAX
from fencepost.producer import Producer
from fencepost.producer.wire import InitProducerIdRequest
from tests.broker_stub.stub_calls import Talker
from tests.waiting import until

DEADLINE_S = 20.0
START_MS = 1_700_000_000_000
POSTED = b"POST /faults HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


class Asked:
    """A control, and what it controls."""

    def __init__(self, control: Control, stub: BrokerStub) -> None:
        self.stub = stub
        split = urlsplit(control.url)
        assert split.port is not None
        self.place = (str(split.hostname), split.port)
        self.token = split.password

    def __call__(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(*self.place, timeout=DEADLINE_S)
        usual = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self.token}"} if self.token else {})
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), usual | given)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def raw(self, data: bytes, *, half_close: bool = True) -> bytes:
        """What comes back for these bytes, to the end of the connection."""
        with socket.create_connection(self.place, timeout=DEADLINE_S) as sock:
            try:
                sock.sendall(data)
                if half_close:
                    sock.shutdown(socket.SHUT_WR)
                return b"".join(iter(lambda: sock.recv(65536), b""))
            except ConnectionError:
                return b""  # it had heard enough


@pytest.fixture
def ask() -> Iterator[Asked]:
    with BrokerStub(brokers=3, clock=VirtualClock(START_MS)) as stub, Control(stub) as control:
        yield Asked(control, stub)


@pytest.fixture
def ask_proxy() -> Iterator[Asked]:
    with BrokerStub() as stub, FaultProxy(stub.bootstrap) as proxy, Control(proxy) as control:
        yield Asked(control, stub)


def test_faults_come_and_go(ask: Asked) -> None:
    """A rule added over HTTP is installed, listed with its hits, told alone, and removed alone or with all others."""
    status, first = ask("POST", "/faults", {"on": ["INIT_PRODUCER_ID"], "action": "error", "code": "COORDINATOR_NOT_AVAILABLE"})
    assert (status, first["hits"]) == (201, 0)
    _, second = ask("POST", "/faults", {"on": "METADATA", "action": "drop"})
    assert ask("GET", "/faults") == (200, {"faults": [first, second]})
    with Talker(ask.stub) as talker:
        answer: Any = talker.ask(init_producer_id(), 5)
        assert answer.error_code == 15
    assert ask("GET", f"/faults/{first['id']}") == (200, {**first, "hits": 1})
    assert ask("DELETE", f"/faults/{first['id']}") == (200, {**first, "hits": 1})
    assert [fault.id for fault in ask.stub.faults.installed] == [second["id"]]
    assert ask("DELETE", "/faults") == (200, {"faults": [second]})
    assert ask.stub.faults.installed == ()


def init_producer_id() -> Any:
    return InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)


def test_a_held_exchange_is_released(ask: Asked) -> None:
    """What a rule holds up is counted and let go of."""
    _, fault = ask("POST", "/faults", {"on": "INIT_PRODUCER_ID", "action": "hold"})
    with Talker(ask.stub) as talker:
        sent = talker.send(init_producer_id(), 5)
        until(lambda: ask("GET", f"/faults/{fault['id']}")[1]["holding"] == 1, "it holds")
        assert ask("POST", f"/faults/{fault['id']}/release") == (200, {"id": fault["id"], "released": 1})
        talker.receive(init_producer_id(), 5, correlation_id=sent)


def test_stats_and_journal(ask: Asked) -> None:
    """Counters, and the newest exchanges with their topics and errors, chosen by API, client and number."""
    ask.stub.create_topic("orders")
    ask("POST", "/faults", {"on": "METADATA", "topic": "orders", "action": "error", "code": "LEADER_NOT_AVAILABLE"})
    with Talker(ask.stub, client_id="shop") as talker:
        talker.metadata("orders")
        talker.producer_id()
    assert ask("GET", "/stats")[1]["requests"] == 2
    _, journal = ask("GET", "/journal")
    metadata, identity = journal["exchanges"]
    assert metadata | {"at_ms": 0} == {
        "at_ms": 0,
        "node": 1,
        "connection": 1,
        "client_id": "shop",
        "api": "METADATA",
        "version": 12,
        "topics": ["orders"],
        "groups": [],
        "transactional_ids": [],
        "answered": True,
        "errors": ["LEADER_NOT_AVAILABLE"],
    }
    assert ask("GET", "/journal?limit=1")[1]["exchanges"] == [identity]
    assert ask("GET", "/journal?api=metadata&client_id=shop")[1]["exchanges"] == [metadata]
    assert ask("GET", "/journal?client_id=nobody")[1]["exchanges"] == []


def test_the_cluster_is_moved(ask: Asked) -> None:
    """Time, leaders, brokers and links, as the methods of the same names do."""
    ask.stub.create_topic("t", replication_factor=3)
    assert ask("POST", "/clock/advance", {"ms": 1000}) == (200, {"now_ms": START_MS + 1000})
    assert ask("POST", "/leaders", {"topic": "t", "partition": 0, "to": 3}) == (200, {"leader": 3})
    assert ask.stub.leader("t", 0) == 3
    assert ask("POST", "/brokers/3/stop") == (200, {"stopped": 3})
    assert ask.stub.leader("t", 0) != 3
    address = "{}:{}".format(*ask.stub.addresses[3])
    assert ask("POST", "/brokers/3/start", {}) == (200, {"started": 3, "address": address})
    ask("POST", "/brokers/3/stop")
    assert ask("POST", "/brokers/3/start", {"port": ask.stub.addresses[1][1]})[0] == 409
    assert ask("POST", "/brokers/3/start", {"port": 0})[1]["address"] == "{}:{}".format(*ask.stub.addresses[3]) != address
    with Talker(ask.stub) as talker:
        talker.metadata("t")
        assert ask("POST", "/connections/cut", {"node": 2}) == (200, {"cut": 0})
        assert ask("POST", "/connections/cut") == (200, {"cut": 1})
        assert talker.is_closed()


def test_links_between_brokers_are_cut(ask: Asked) -> None:
    """A record with acks=all waits for the follower that does not reach its leader, and is acknowledged when the link is mended."""
    ask.stub.create_topic("t", replication_factor=3, config={"message.timestamp.type": "LogAppendTime"})
    leader = ask.stub.leader("t", 0)
    one, other = (node for node in (1, 2, 3) if node != leader)
    assert ask("POST", "/links/sever", {"one": leader, "other": one}) == (200, {"severed": [sorted((leader, one))], "severed_one_way": []})
    assert ask("POST", "/links/sever", {"one": other, "other": one})[1]["severed"] == sorted([sorted((leader, one)), sorted((one, other))])
    with Producer(bootstrap_servers=ask.stub.bootstrap) as producer:
        future = producer.send("t", b"waits for the follower")
        until(lambda: ask.stub.end_offset("t", 0) == 1, "it is in the leader's log")
        assert not future.done()
        assert ask("POST", "/links/mend", {"one": one, "other": leader})[1]["severed"] == [sorted((one, other))]
        assert future.result(DEADLINE_S).offset == 0
    assert ask("POST", "/links/mend", {"one": one, "other": other}) == (200, {"severed": [], "severed_one_way": []})
    assert ask.stub.severed == []


def test_disks_and_power_fail(ask: Asked) -> None:
    """A broker whose disk is full halts at its next write. Repaired and started it is in sync again. A damaged batch keeps it behind."""
    ask.stub.create_topic("t", replication_factor=3, config={"message.timestamp.type": "LogAppendTime"})
    leader = ask.stub.leader("t", 0)
    assert ask("POST", f"/brokers/{leader}/disk", {"fault": "full"}) == (200, {"node": leader, "fault": "full"})
    with Producer(bootstrap_servers=ask.stub.bootstrap) as producer:
        assert producer.send("t", b"v").result(DEADLINE_S).offset == 0
    until(lambda: not ask.stub.cluster.brokers[leader].alive, "it halts")
    assert ask("POST", f"/brokers/{leader}/start", {})[0] == 409
    assert ask("POST", f"/brokers/{leader}/disk") == (200, {"node": leader, "fault": None})
    assert ask("POST", f"/brokers/{leader}/start", {})[0] == 200
    assert leader in ask.stub.isr("t", 0)
    assert ask("POST", f"/brokers/{leader}/lose-power", {}) == (200, {"stopped": leader})
    body = {"topic": "t", "partition": 0, "offset": 0}
    assert ask("POST", "/logs/corrupt", body) == (200, {"corrupted": body})
    ask("POST", f"/brokers/{leader}/start", {})
    assert leader not in ask.stub.isr("t", 0)


def test_a_proxy_is_controlled_alike(ask_proxy: Asked) -> None:
    """Its faults act on what passes and its journal says what was heard; what only a stub can do is refused."""
    _, about = ask_proxy("GET", "/")
    assert about["fencepost"] == "proxy"
    ask_proxy("POST", "/faults", {"on": "PRODUCE", "topic": "t", "action": "error", "code": "NOT_ENOUGH_REPLICAS"})
    with Producer(bootstrap_servers=about["brokers"]["1"]) as producer:
        assert producer.send("t", b"v").result(DEADLINE_S).offset == 0
    _, journal = ask_proxy("GET", "/journal?api=PRODUCE")
    assert [(each["topics"], each["heard"]) for each in journal["exchanges"]] == [(["t"], "all")]
    assert ask_proxy("GET", "/faults")[1]["faults"][0]["hits"] == 1
    assert ask_proxy("GET", "/stats")[1]["requests"] > 0
    for path, body in (
        ("/clock/advance", {"ms": 1}),
        ("/leaders", {"topic": "t", "partition": 0}),
        ("/brokers/1/stop", {}),
        ("/links/sever", {"one": 1, "other": 2}),
        ("/links/sever", {"one": "controller", "other": 2, "one_way": True}),
        ("/links/slow", {"one": 1, "other": 2, "ms": 5}),
        ("/brokers/1/lose-power", {}),
        ("/brokers/1/disk", {"fault": "full"}),
        ("/logs/corrupt", {"topic": "t", "partition": 0, "offset": 0}),
    ):
        status, refused = ask_proxy("POST", path, body)
        assert (status, "this is for a stub" in refused["error"]) == (409, True)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "said"),
    [
        ("GET", "/nothing", None, 404, ["/nothing", "/faults"]),
        ("PUT", "/faults", {}, 405, ["GET or POST or DELETE"]),
        ("POST", "/faults", None, 400, ["a rule is an object"]),
        ("POST", "/faults", {"on": "PRODUSE", "action": "drop"}, 400, ["did you mean PRODUCE?"]),
        ("POST", "/faults", {"on": "VOTE", "action": "drop"}, 400, ["does not serve it"]),
        ("POST", "/faults", {"node": 9, "action": "drop"}, 400, ["only 1, 2, 3"]),
        ("GET", "/faults/7", None, 404, ["no fault 7", "none"]),
        ("DELETE", "/faults/x", None, 400, ["'x'"]),
        ("POST", "/faults/99999999999/release", None, 400, ["the number of a fault"]),
        ("GET", "/journal?limit=0", None, 400, ["limit=0", "1 to 1000"]),
        ("GET", "/journal?limit=x", None, 400, ["limit=x"]),
        ("GET", "/journal?api=NOPE", None, 400, ["api=NOPE"]),
        ("GET", "/journal?nope=1", None, 400, ["'nope'"]),
        ("POST", "/clock/advance", None, 400, ["needs ms"]),
        ("POST", "/clock/advance", {"ms": -1}, 400, ["never runs backwards"]),
        ("POST", "/clock/advance", {"ms": 1 << 62}, 400, ["ten years"]),
        ("POST", "/clock/advance", {"ms": None}, 400, ["ms=None", "whole milliseconds"]),
        ("POST", "/clock/advance", {"ms": "1"}, 400, ["ms='1'", "whole milliseconds"]),
        ("POST", "/clock/advance", {"minutes": 1}, 400, ["'minutes'", "ms"]),
        ("POST", "/leaders", {"topic": "no", "partition": 0}, 404, ["'no'"]),
        ("POST", "/leaders", {"topic": "t", "partition": 5}, 404, ["no partition 5"]),
        ("POST", "/leaders", {"topic": "t", "partition": 0, "to": 9}, 404, ["there is no broker 9"]),
        ("POST", "/leaders", [1], 400, ["an object with topic, partition, to"]),
        ("POST", "/brokers/9/stop", {}, 404, ["no broker 9"]),
        ("POST", "/brokers/1/start", {"port": 70_000}, 400, ["port=70000"]),
        ("POST", "/brokers/1/stop", {"clean": 1}, 400, ["clean=1", "True or False"]),
        ("POST", "/connections/cut", {"node": 9}, 404, ["no broker 9"]),
        ("POST", "/links/sever", {"one": 1}, 400, ["needs other", "a whole number"]),
        ("POST", "/links/sever", {"one": 1, "other": 9}, 404, ["no broker 9"]),
        ("POST", "/links/sever", {"one": 1, "other": "zoo"}, 400, ["zoo", '"controller"']),
        ("POST", "/links/slow", {"one": 1, "other": "zoo", "ms": 1}, 400, ["zoo", '"controller"']),
        ("POST", "/links/slow", {"one": "controller", "other": "controller", "ms": 1}, 400, ["no link to itself"]),
        ("POST", "/links/slow", {"one": 1, "other": 2, "ms": -1}, 400, ["ms=-1", "0 or more"]),
        ("POST", "/links/slow", {"one": 1, "other": 2, "ms": 1 << 31}, 400, ["ms=2147483648", "at most 2147483647"]),
        ("POST", "/brokers/1/loading", {"ms": 1 << 31}, 400, ["ms=2147483648", "at most 2147483647"]),
        ("POST", "/brokers/1/slow-disk", {"ms": 1 << 31}, 400, ["ms=2147483648", "at most 2147483647"]),
        ("POST", "/brokers/1/clock", {"ahead_ms": 1 << 62}, 400, ["ahead_ms=4611686018427387904", "3153600000000, a hundred years"]),
        ("POST", "/brokers/9/lose-power", {}, 404, ["no broker 9"]),
        ("POST", "/brokers/1/disk", {"fault": "slow"}, 400, ["fault='slow'", "'full' or 'failed'"]),
        ("POST", "/brokers/1/disk", {"fault": 5}, 400, ["fault=5", "'full' or 'failed'"]),
        ("POST", "/brokers/1/disk", {"fault": "full", "log_dir": 0}, 400, ["log_dir=0", "from 1 on"]),
        ("POST", "/brokers/1/disk", {"fault": "full", "log_dir": 2}, 404, ["no log directory 2", "only 1 to 1"]),
        ("POST", "/logs/corrupt", {"topic": "t", "partition": 0}, 400, ["needs offset"]),
        ("POST", "/logs/corrupt", {"topic": "t", "partition": 0, "offset": 3}, 404, ["no batch with offset 3"]),
        ("POST", "/logs/corrupt", {"topic": "t", "partition": 0, "offset": -1}, 400, ["offset=-1"]),
        ("POST", "/links/mend", {"one": 2, "other": 2}, 400, ["broker 2 has no link to itself: give two ends"]),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_cannot_be_done_is_refused(ask: Asked, method: str, path: str, body: object, status: int, said: list[str]) -> None:
    """With a status and a sentence that names the value and what would do, and nothing is changed."""
    ask.stub.create_topic("t", replication_factor=3)
    got, answer = ask(method, path, body)
    assert got == status
    assert [each for each in said if each not in answer["error"]] == [], answer
    assert ask.stub.faults.installed == ()
    assert ask.stub.clock.now_ms() == START_MS


def test_real_time_is_not_advanced() -> None:
    """A stub without a virtual clock says which one could."""
    with BrokerStub() as stub, Control(stub) as control:
        status, refused = Asked(control, stub)("POST", "/clock/advance", {"ms": 1})
    assert (status, "--virtual-clock" in refused["error"]) == (409, True)


def test_browsers_are_refused(ask: Asked) -> None:
    """A page may not ask under its own name, nor under a name that it had point to this machine, nor with what a form of its could send;
    addresses and localhost may be named."""
    fault = {"action": "drop"}
    assert ask("POST", "/faults", fault, Origin="http://evil.example")[0] == 403
    assert ask("POST", "/faults", fault, Origin="null")[0] == 403
    assert ask("GET", "/faults", Sec_Fetch_Site="cross-site")[0] == 403
    assert ask("GET", "/faults", Host="evil.example:80")[0] == 403
    assert ask("GET", "/faults", Host="localhost.evil.example:80")[0] == 403
    for kind in ("application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=x", ""):
        status, refused = ask("POST", "/connections/cut", {}, Content_Type=kind)
        assert (status, "application/json" in refused["error"]) == (415, True)
    assert ask("GET", "/faults", Sec_Fetch_Site="none") == (200, {"faults": []})
    assert ask("GET", "/faults", Host="localhost:80") == (200, {"faults": []})
    assert ask("GET", "/faults", Host="[::1]:80") == (200, {"faults": []})
    assert ask.stub.faults.installed == ()


OURS = ("localhost", "LocalHost", "localhost:", "localhost:1", "127.0.0.1:80", "0.0.0.0", "[::1]", "[::ffff:7f00:1]:9")
OTHERS = (
    *("localhost/.evil.com", "localhost#.evil.com", "localhost?.evil.com", "localhost\\.evil.com", "evil.com/localhost"),
    *("evil.com@localhost", "a:b@localhost", "localhost@evil.com", "localhost.evil.com", "//localhost", "http://localhost"),
    *("localhost.", "localhost:x", "localhost:1:2", "localhost:123456", "local host", "localhost, evil.com", "", ":", ":80"),
    *("::1", "[::1", "::1]", "[::1]x", "[::1].evil.com", "[::1%lo]", "[127.0.0.1]", "[localhost]", "[v1.a]"),
    *("1.2.3", "0x7f.1", "127.0.0.1.evil.com", "127.0.0.01"),
)


@pytest.mark.parametrize(("host", "known"), [*((host, True) for host in OURS), *((host, False) for host in OTHERS)])
def test_host_headers_that_are_accepted(ask: Asked, host: str, known: bool) -> None:
    """The whole of a Host header is a name of ours or an address, with or without a port; what only begins or ends like one is another."""
    assert ask("GET", "/faults", Host=host)[0] == (200 if known else 403)


@pytest.fixture
def elsewhere() -> Iterator[Asked]:
    """A control that other machines reach, asked from this one."""
    with BrokerStub(advertised_host="broker.test") as stub, Control(stub, host="") as control:
        asked = Asked(control, stub)
        asked.place = ("127.0.0.1", asked.place[1])
        yield asked


def test_elsewhere_it_wants_its_token(elsewhere: Asked) -> None:
    """If other machines can reach the control, a request without the right token reads and changes nothing. The URL has the token."""
    token = elsewhere.token
    assert token is not None
    assert len(token) >= 32
    basic = b64encode(f"control:{token}".encode()).decode()
    for words in ("", "Bearer", f"Bearer {token}x", f"Bearer {token[:-1]}", f"Digest {token}", "Basic ?", f"Basic {token}", "Bearer \xe9"):
        for method, path in (("GET", "/"), ("GET", "/journal"), ("POST", "/brokers/1/stop"), ("DELETE", "/faults"), ("GET", "/nothing")):
            status, refused = elsewhere(method, path, Authorization=words)
            assert (status, "token" in refused["error"], token in refused["error"]) == (401, True, False)
    assert elsewhere.stub.cluster.live == [1]
    for words in (f"Bearer {token}", f"bearer {token}", f"Basic {basic}"):
        assert elsewhere("GET", "/faults", Authorization=words) == (200, {"faults": []})


def test_elsewhere_it_has_its_names(elsewhere: Asked) -> None:
    """There, too, only a name that is this machine's, its brokers' or its own is answered to, token or not, and no page may ask."""
    for host in (socket.gethostname(), "broker.test:9644", "localhost:9644", "192.0.2.7:9644", "[2001:db8::1]"):
        assert elsewhere("GET", "/faults", Host=host) == (200, {"faults": []})
    for host in ("evil.example", "evil.example:9644", "kafka", "", "[", "a@b"):
        assert elsewhere("GET", "/faults", Host=host)[0] == 403
    assert elsewhere("GET", "/faults", Origin=f"http://{socket.gethostname()}:9644")[0] == 403


def test_a_token_can_be_given() -> None:
    """One that is known beforehand is asked for on localhost, too; one that can be guessed, or does not fit a URL, is refused."""
    with BrokerStub() as stub:
        with Control(stub, token="a-token-of-a-test") as control:
            asked = Asked(control, stub)
            assert asked.token == control.token == "a-token-of-a-test"
            assert asked("GET", "/faults") == (200, {"faults": []})
            assert asked("GET", "/faults", Authorization="")[0] == 401
        for token in ("", "short", "a token with blanks in it", "x" * 16 + "\n"):
            with pytest.raises(ValueError, match="16 or more") as refused:
                Control(stub, token=token)
            assert repr(token) not in str(refused.value)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /faults HTTP/1.1\r\nX: " + b"x" * HEAD_BYTES_MAX + b"\r\n\r\n", 431),
        (POSTED + b"Content-Length: %d\r\n\r\n" % (BODY_BYTES_MAX + 1), 413),
        (POSTED + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n", 413),
        (POSTED + b"Content-Length: -1\r\n\r\n", 400),
        (POSTED + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        (POSTED + b"Content-Length: 9\r\n\r\n{", 400),
        (POSTED + b"Content-Length: 1\r\n\r\n{", 400),
        (POSTED + b"Content-Length: 50000\r\n\r\n" + b"[" * 50000, 400),
        (POSTED + b"Host: evil.example\r\n\r\n", 400),
        (b"GET /faults HTTP/1.1\r\n\r\n", 400),
        (b"\x16\x03\x01\x00\xf8\x01\x00\x00\xf4\x03\x03\r\n\r\n", 400),
        (b"hello\r\n\r\n", 400),
        (b"GET http://[ HTTP/1.1\r\n\r\n", 400),
        (b"GET //[ HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"GET /faults", 400),
        (b"", 400),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_no_request_is_answered_and_forgotten(ask: Asked, data: bytes, status: int) -> None:
    """Each is refused with its status, and the next request is served."""
    assert ask.raw(data).split(b" ", 2)[1:2] == [str(status).encode()]
    assert ask("GET", "/stats")[0] == 200


def test_garbage_does_not_end_it(ask: Asked) -> None:
    """Random bytes and damaged requests, 300 of them, are answered with a status or not at all; then it serves as before."""
    rng = random.Random(20_261)
    proper = POSTED + b'Content-Length: 17\r\n\r\n{"action":"drop"}'
    for _ in range(300):
        damaged = bytearray(proper if rng.random() < 0.7 else rng.randbytes(200))
        for _ in range(rng.randrange(1, 6)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        answer = ask.raw(bytes(damaged))
        assert answer == b"" or answer.startswith(b"HTTP/1.1 ")
        assert not answer.startswith(b"HTTP/1.1 5"), bytes(damaged)
    assert ask("GET", "/stats")[0] == 200


def test_the_silent_do_not_keep_others_waiting(ask: Asked) -> None:
    """The number of connections without a request is limited. The newest one replaces the oldest, so every request is answered."""
    with ExitStack() as open_links:
        silent = [open_links.enter_context(socket.create_connection(ask.place, timeout=DEADLINE_S)) for _ in range(2 * CONNECTIONS_MAX)]
        for each in silent:
            each.sendall(b"GET /st")
            assert each is not silent[-1] or ask("GET", "/stats")[0] == 200
        for each in silent[:CONNECTIONS_MAX]:
            with suppress(ConnectionResetError):
                assert each.recv(1) == b""
        assert [ask("GET", "/stats")[0] for _ in range(3)] == [200, 200, 200]
        with Talker(ask.stub) as talker:
            talker.producer_id()


def test_too_many_that_are_being_answered_are_told_so(ask: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection with a request is never replaced. The next connection is refused until one of them has its response."""
    answered = threading.Event()
    honest = BrokerStub.stats
    monkeypatch.setattr(BrokerStub, "stats", lambda stub: answered.wait(DEADLINE_S) and honest(stub))
    asking: list[socket.socket] = []
    with ExitStack() as open_links:
        open_links.callback(answered.set)

        def refused() -> bool:
            sock = open_links.enter_context(socket.create_connection(ask.place, timeout=0.05))
            sock.sendall(b"GET /stats HTTP/1.1\r\nHost: localhost\r\n\r\n")
            with suppress(TimeoutError):  # it is being answered
                return sock.recv(12) == b"HTTP/1.1 503"
            asking.append(sock)
            return False

        until(refused, "one too many is told so", timeout_s=DEADLINE_S)
        answered.set()
        heard = []
        for each in asking:
            each.settimeout(DEADLINE_S)
            with suppress(ConnectionResetError):  # on a busy machine one may have been taken for silent, or refused late
                heard.append(each.recv(12))
        assert heard.count(b"HTTP/1.1 200") == CONNECTIONS_MAX
    until(lambda: ask("GET", "/")[0] == 200, "it serves again")


def test_it_leaves_nothing_behind() -> None:
    """After close the port is free and the thread has ended, also with an open connection. A taken port is reported at the start."""
    with BrokerStub() as stub:
        control = Control(stub).start()
        asked = Asked(control, stub)
        with socket.create_connection(asked.place, timeout=DEADLINE_S):
            with pytest.raises(OSError, match="in use"):
                Control(stub, port=asked.place[1]).start()
            control.close()
            control.close()
        assert not any(thread.name == "stub-control" for thread in threading.enumerate())
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(asked.place, timeout=DEADLINE_S)


@pytest.mark.parametrize(
    ("text", "place"),
    [("9644", ("127.0.0.1", 9644)), ("0", ("127.0.0.1", 0)), ("0.0.0.0:1", ("0.0.0.0", 1)), ("[::1]:2", ("::1", 2))],
)
def test_addresses(text: str, place: tuple[str, int]) -> None:
    """A port alone is on localhost."""
    assert address(text) == place


@pytest.mark.parametrize("text", ["", "x", "1:x", "65536", "-1", "1" * 50])
def test_addresses_that_are_none(text: str) -> None:
    """The error quotes the text."""
    with pytest.raises(ValueError, match="a port from 0 to 65535") as refused:
        address(text)
    assert text in str(refused.value)


def test_every_route_is_tried_here() -> None:
    """A route that is added needs a test in this file."""
    with open(__file__, encoding="utf-8") as source:
        text = source.read()
    assert [path for _, path in ROUTES if path.split("{")[0] not in text] == []


def test_a_control_that_closes_logs_nothing_about_its_connections(caplog: pytest.LogCaptureFixture) -> None:
    """Connections without a request end with it, and no stack is logged for them."""
    with BrokerStub() as stub:
        with Control(stub) as control:
            port = int(control.url.rpartition(":")[2])
            thread = control._http.once.thread
            assert thread is not None
            sock = socket.create_connection(("127.0.0.1", port))
            sock.sendall(b"GET / HT")
            until(lambda: len(asyncio.all_tasks(thread.loop)) > 0, "it is served")
        with sock, suppress(ConnectionResetError):  # where the control had not read its bytes
            assert sock.recv(1) == b""
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []
