"""Pages of an HTTP API as a source of a job: each record once, through failures, stops and pages that grow."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer.errors import ConfigError
from fencepost.txn import HttpPages, JobFailed, SourceChanged
from tests.txn.jobs.helpers import quick, stub, values
from tests.txn.jobs.pages_server import PagesServer

__all__ = ["stub"]

pytestmark = pytest.mark.timeout(120)


def pages(server: PagesServer, **given: Any) -> HttpPages:
    return HttpPages(lambda page: f"{server.url}?page={page or 0}", lambda page: (page["records"], page["next"]), **given)


def as_sent(records: list[int]) -> list[bytes]:
    return [b"%d" % each for each in records]


def test_pages_are_sent_once(stub: BrokerStub) -> None:
    """A run may stop anywhere in a page. A later run asks for the last page again, and sends what it got since."""
    with PagesServer(list(range(1_050))) as server:
        with quick(stub, pages(server), batch_size=70) as job:
            for _ in range(4):
                job.run(max_batches=1)
        assert job.stats().records_in == 200
        quick(stub, pages(server)).run()
        assert values(stub) == as_sent(server.records)
        server.records += range(1_050, 1_230)
        assert quick(stub, pages(server)).run().records_in == 180
        assert quick(stub, pages(server)).run().records_in == 0
        assert server.asked[-1] == 12
        assert values(stub) == as_sent(list(range(1_230)))


def test_requests_that_fail(stub: BrokerStub) -> None:
    """A page is asked for again after a failure that may pass, up to `attempts` times. Other failures end the job, with URL and status."""
    with PagesServer(list(range(10))) as server:
        server.failures = [503, 429]
        assert quick(stub, pages(server)).run().records_in == 10
        server.failures = [500] * 2
        with pytest.raises(JobFailed, match=r"/records\?page=0: HTTP 500 .* \(attempts=2\)"):
            quick(stub, pages(server, attempts=2)).run()
        server.failures = [404]
        with pytest.raises(JobFailed, match=r"/records\?page=0: HTTP 404 Not Found"):
            quick(stub, pages(server)).run()
    with pytest.raises(JobFailed, match="Connection refused"):
        quick(stub, pages(server, attempts=1)).run()
    assert values(stub) == as_sent(list(range(10)))


def test_pages_that_change(stub: BrokerStub) -> None:
    """A page that has lost or changed what was read is refused, with what to do."""
    with PagesServer([1, 2, 3]) as server:
        quick(stub, pages(server)).run()
        server.records = [1, 2]
        with pytest.raises(SourceChanged, match=r"has 2 records, and the job has read 3 of them.*jobs reset JOB --to-start"):
            quick(stub, pages(server)).run()
        server.records = [1, 2, 4, 5]
        with pytest.raises(SourceChanged, match="record 3 is not the one that the job has read"):
            quick(stub, pages(server)).run()
    assert values(stub) == [b"1", b"2", b"3"]


def test_a_request_with_headers_and_another_format(stub: BrokerStub) -> None:
    """`request` may return a urllib Request, and `decode` reads what is no JSON."""
    with PagesServer([{"a": 1}]) as server:
        source = HttpPages(
            lambda page: urllib.request.Request(server.url, headers={"Authorization": "Bearer x"}),
            lambda page: ([page], None),
            decode=lambda body: body,
        )
        quick(stub, source, transform=lambda item: item[:11]).run()
    assert values(stub) == [b'{"records":']


def test_answers_that_are_none(stub: BrokerStub) -> None:
    """Bytes that are no JSON, and a page that names itself as the next one, end the job with the URL."""
    with PagesServer([1]) as server:
        with pytest.raises(JobFailed, match="the page cannot be decoded"):
            quick(stub, HttpPages(lambda page: server.url, lambda page: ([], None), decode=lambda body: int(body))).run()
        with pytest.raises(JobFailed, match="names itself as the next page"):
            quick(stub, HttpPages(lambda page: server.url, lambda page: (page["records"], 7))).run()
        with pytest.raises(JobFailed, match="no URL"):
            quick(stub, HttpPages(lambda page: "no URL", lambda page: ([], None))).run()


@pytest.mark.parametrize(
    ("given", "reason"),
    [({"attempts": 0}, "attempts=0"), ({"timeout_s": "1"}, "timeout_s='1'"), ({"decode": 5}, "decode=5: it must be a function")],
)
def test_mistakes(given: dict[str, Any], reason: str) -> None:
    """They are refused by name when the source is made."""
    make: Callable[..., HttpPages] = HttpPages
    with pytest.raises(ConfigError, match=reason):
        make(lambda page: "", lambda page: ([], None), **given)
