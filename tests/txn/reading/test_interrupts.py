"""Ctrl-C at every single point of a reader's calls: the reader goes on, and ends when it is closed."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.txn.reading import LogReader
from fencepost.txn.reading.limits import LATEST
from tests.strike import MARKS, at_every_point
from tests.txn.reading.test_reader import TOPIC, numbered, reader, stub, values, write  # noqa: F401

CALLS: dict[str, Callable[[LogReader], object]] = {
    "partitions": lambda log: log.partitions([TOPIC]),
    "offsets": lambda log: log.offsets({(TOPIC, 0): LATEST}),
    "read": lambda log: values(log, 0, 30),
}

pytestmark = [
    *MARKS,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),  # struck before it was handed over
]


@pytest.mark.parametrize("name", CALLS)
def test_the_reader_answers_after_an_interrupted_call(stub: BrokerStub, name: str) -> None:  # noqa: F811
    """Wherever it struck, the thread behind the reader answers the next call."""
    write(stub, numbered(30))
    with reader(stub, fetch_bytes=200) as log:
        for _ in at_every_point(lambda: CALLS[name](log)):
            if name == "read":
                assert values(log, 0, 30) == numbered(30)
            else:
                CALLS[name](log)


def test_an_interrupted_close_of_the_reader_can_be_repeated(stub: BrokerStub) -> None:  # noqa: F811
    """Struck anywhere, it has ended or ends when it is called again."""
    made: list[LogReader] = []

    def use() -> None:
        made.append(reader(stub))
        made[-1].partitions([TOPIC])

    use()
    for _ in at_every_point(lambda: made[-1].close()):
        made[-1].close()
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("fencepost-reader")]
        use()
    made[-1].close()
