"""A fork: the child's copy of the producer refuses everything, the parent's goes on untouched, and neither hangs the other."""

from __future__ import annotations

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer.wire import Api, InitProducerIdResponse
from tests.drawn import drawn
from tests.producer.child_programs import run
from tests.producer.stub_helpers import values

REFUSED = [
    "producer.send('t', b'x')",
    "producer.send('never-heard-of', b'x')",
    "producer.flush()",
    "producer.close()",
    "producer.partitions_for('t')",
    "producer.partitions_for('never-heard-of')",
    "producer.__enter__()",
    "pending.result()",
    "pending.exception()",
    "pending.add_done_callback(print)",
    "bulk.result()",
    "bulk.add_done_callback(print)",
]


def test_the_child_is_refused_every_call_at_once() -> None:
    """Every call that would need the parent's thread raises ProducerForked, without waiting; what needs nothing (a settled future, done)
    still answers."""
    with BrokerStub() as stub:
        held = stub.faults.on(Api.PRODUCE).before().on_call(2).hold()
        ended = run(
            f"""
            producer = Producer(bootstrap_servers=bootstrap, **quick)
            settled = producer.send("t", b"first")
            settled.result(20)
            pending = producer.send("t", b"second")
            bulk = producer.send_many("t", [b"third"])
            child = os.fork()
            if child == 0:
                began = time.monotonic()
                for call in {REFUSED!r}:
                    print(call, attempt(lambda: eval(call)))
                print(settled.result().offset, pending.done(), time.monotonic() - began < 10)
                sys.exit(0)
            print("child", os.waitpid(child, 0)[1])
            print("parent is waiting")
            sys.stdout.flush()
            os._exit(0)
            """,
            stub.bootstrap,
        )
        held.remove()
    assert ended.lines == [*(f"{call} ProducerForked" for call in REFUSED), "0 False True", "child 0", "parent is waiting"]


def test_the_parent_goes_on() -> None:
    """The fork, what the child tries and the child's exit change nothing for the parent: in flight, lingering and later records arrive
    once, over the same connections."""
    with BrokerStub() as stub:
        ended = run(
            """
            producer = Producer(bootstrap_servers=bootstrap, **{**quick, "linger_ms": 200})
            producer.send("t", b"0").result(20)
            futures = [producer.send("t", b"%d" % i) for i in range(1, 50)]
            child = os.fork()
            if child == 0:
                attempt(lambda: producer.send("t", b"child"))
                attempt(producer.close)
                sys.exit(0)
            futures += [producer.send("t", b"%d" % i) for i in range(50, 100)]
            print(os.waitpid(child, 0)[1])
            futures += [producer.send("t", b"%d" % i) for i in range(100, 150)]
            print([future.result(20).offset for future in futures] == list(range(1, 150)))
            producer.close()
            """,
            stub.bootstrap,
        )
        assert ended.lines == ["0", "True"]
        assert ended.complaints == ""
        assert values(stub, "t") == [b"%d" % i for i in range(150)]
        assert len({exchange.connection_id for exchange in stub.journal.requests(Api.PRODUCE)}) == 1


def test_the_message_says_what_to_do() -> None:
    """ProducerForked names both processes and says to make a new producer after the fork; the child's new producer works."""
    with BrokerStub() as stub:
        ended = run(
            """
            producer = Producer(bootstrap_servers=bootstrap, **quick)
            producer.send("t", b"parent").result(20)
            child = os.fork()
            if child == 0:
                try:
                    producer.send("t", b"x")
                except ProducerForked as error:
                    print(str(os.getppid()) in str(error), str(os.getpid()) in str(error), "make a new one" in str(error))
                with Producer(bootstrap_servers=bootstrap, **quick) as mine:
                    print(mine.send("t", b"child").result(20).offset)
                sys.exit(0)
            os.waitpid(child, 0)
            print(producer.send("t", b"parent").result(20).offset)
            producer.close()
            """,
            stub.bootstrap,
        )
        assert ended.lines == ["True True True", "1", "2"]
        assert values(stub, "t") == [b"parent", b"child", b"parent"]
        answers = [exchange.response for exchange in stub.journal.requests(Api.INIT_PRODUCER_ID)]
        assert len({answer.producer_id for answer in answers if isinstance(answer, InitProducerIdResponse)}) == 2


def test_a_fork_in_the_middle_of_everything() -> None:
    """Forked twenty times while four threads send: locks that some thread held at that instant hang no child, and the parent loses
    nothing."""
    with BrokerStub() as stub:
        ended = run(
            """
            producer = Producer(bootstrap_servers=bootstrap, **quick)
            ending = threading.Event()
            counts = [0] * 4
            def work(number):
                while not ending.is_set():
                    producer.send("t", b"x" * 50)
                    counts[number] += 1
            threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
            for thread in threads:
                thread.start()
            until(lambda: min(counts) > 0)
            for _ in range(20):
                child = os.fork()
                if child == 0:
                    signal.alarm(20)  # a child that hangs dies of it
                    refused = attempt(lambda: producer.send("t", b"x")), attempt(producer.flush), attempt(producer.close)
                    os._exit(0 if set(refused) == {"ProducerForked"} else 1)
                print(os.waitpid(child, 0)[1])
            ending.set()
            for thread in threads:
                thread.join()
            producer.close()
            print(sum(counts))
            """,
            stub.bootstrap,
        )
        assert ended.lines[:-1] == ["0"] * 20
        assert stub.end_offset("t", 0) == int(ended.lines[-1])


def test_a_child_that_only_exits() -> None:
    """A child that never touches the producer ends silently and at once: it neither flushes the parent's records nor warns about them."""
    with BrokerStub() as stub:
        ended = run(
            """
            producer = Producer(bootstrap_servers=bootstrap, **{**quick, "linger_ms": 60_000})
            producer.partitions_for("t")
            future = producer.send("t", b"x")
            child = os.fork()
            if child == 0:
                del producer, future
                gc.collect()
                sys.exit(0)
            print(os.waitpid(child, 0)[1], future.done())
            producer.close()
            """,
            stub.bootstrap,
        )
        assert ended.lines == ["0 False"]
        assert ended.complaints == ""
        assert values(stub, "t") == [b"x"]


def test_multiprocessing_with_fork() -> None:
    """A pool of forked workers beside a producer: the workers are refused, the parent's program ends as it should."""
    with BrokerStub() as stub:
        ended = run(
            """
            import multiprocessing
            producer = Producer(bootstrap_servers=bootstrap, **quick)
            producer.send("t", b"x").result(20)
            def work(number):
                return attempt(lambda: producer.send("t", b"worker"))
            with multiprocessing.get_context("fork").Pool(2) as pool:
                print(pool.map(work, range(4)))
            print(producer.send("t", b"y").result(20).offset)
            """,
            stub.bootstrap,
        )
        assert ended.lines == ["['ProducerForked', 'ProducerForked', 'ProducerForked', 'ProducerForked']", "1"]
        assert ended.code == 0


@drawn(3, kind=lambda row: row["last"])
@pytest.mark.parametrize(
    ("last", "code"), [("return", 0), ("sys.exit(7)", 7), ("sys.exit('bad')", 1), ("raise ValueError", 1), ("os._exit(3)", 3)]
)
@pytest.mark.parametrize("where", ["future", "bulk", "statistics"])
def test_a_callback_that_forks(where: str, last: str, code: int) -> None:
    """A child that a callback on the sender thread forks ends when its copy of the callback does, as a program ends. It runs no other
    callback and reads no answer of its parent's, which goes on."""
    with BrokerStub() as stub:
        ended = run(
            f"""
            children, heard, parent = [], [], os.getpid()
            def hears(future):
                if os.getpid() != parent:
                    os._exit(98)
                heard.append(future)
            def forks(_):
                if children or "producer" not in globals():
                    return
                children.append(os.fork())
                if children == [0]:
                    if attempt(lambda: producer.send("t", b"x")) != "ProducerForked":
                        os._exit(99)
                    {last}
            if {where == "statistics"}:
                quick.update(on_statistics=forks, statistics_interval_ms=5)
            producer = Producer(bootstrap_servers=bootstrap, **{{**quick, "linger_ms": 50}})
            if {where == "future"}:
                producer.send("t", b"0", on_delivery=forks)
            elif {where == "bulk"}:
                producer.send_many("t", [b"0"]).add_done_callback(forks)
            future = producer.send("t", b"1", on_delivery=hears)
            future.result(20)
            until(lambda: children)
            print(os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]))
            producer.send("t", b"2").result(20)
            producer.close(20)
            print(len(heard))
            """,
            stub.bootstrap,
        )
        assert ended.lines == [str(code), "1"]
        assert ended.code == 0
        assert ("Traceback" in ended.complaints) == (last == "raise ValueError")
