"""A program that ends without close: what lingers is delivered within a bound, and what could not be is said, never silent."""

from __future__ import annotations

import signal
import sys

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer.wire import Api, ErrorCode
from tests.producer.child_programs import run
from tests.producer.stub_helpers import values


@pytest.mark.parametrize("ending", ["", "sys.exit(0)", "producer.flush()"])
def test_what_was_sent_is_delivered(ending: str) -> None:
    """The last line of the program comes right after the first send, before the leader is connected: everything arrives, silently."""
    sending = "producer = Producer(bootstrap_servers=bootstrap, exit_flush_ms=30_000)\nfor i in range(100): producer.send('t', b'%d' % i)\n"
    with BrokerStub(brokers=2) as stub:
        ended = run(sending + ending, stub.bootstrap)
        assert (ended.code, ended.complaints) == (0, "")
        assert values(stub, "t") == [b"%d" % i for i in range(100)]


def test_a_name_can_be_looked_up_at_exit() -> None:
    """A broker's host name can be looked up while the interpreter ends, so records that were sent last are delivered."""
    with BrokerStub(host="localhost") as stub:
        ended = run("producer = Producer(bootstrap_servers=bootstrap, exit_flush_ms=30_000)\nproducer.send('t', b'x')", stub.bootstrap)
        assert (ended.code, ended.complaints) == (0, "")
        assert values(stub, "t") == [b"x"]


def test_an_unhandled_exception_changes_nothing() -> None:
    """A program that dies of an exception delivers what it sent, too."""
    with BrokerStub() as stub:
        ended = run(
            "producer = Producer(bootstrap_servers=bootstrap, exit_flush_ms=30_000)\nproducer.send('t', b'x')\n1 / 0", stub.bootstrap
        )
        assert ended.code == 1
        assert "ZeroDivisionError" in ended.complaints
        assert "lost" not in ended.complaints
        assert values(stub, "t") == [b"x"]


def test_a_dead_broker_bounds_the_exit_and_the_loss_is_said() -> None:
    """With no broker to take them the program ends within exit_flush_ms, not after the delivery deadline of two minutes, and says how many
    records were not delivered, with no logging configured."""
    with BrokerStub() as stub:
        stub.faults.on(Api.PRODUCE).before().forever().hold()
        ended = run(
            """
            producer = Producer(bootstrap_servers=bootstrap, exit_flush_ms=300, batch_size=0)
            for i in range(7):
                producer.send("t", b"x")
            """,
            stub.bootstrap,
        )
        assert ended.code == 0
        assert "7 records were not delivered" in ended.complaints
        assert ended.seconds < 30
        stub.faults.clear()


def test_unobserved_failures_are_counted_at_exit() -> None:
    """Permanently failed, unobserved deliveries are counted at exit."""
    with BrokerStub() as stub:
        stub.faults.on(Api.PRODUCE).before().forever().error(ErrorCode.INVALID_RECORD)
        ended = run(
            """
            producer = Producer(bootstrap_servers=bootstrap)
            future = producer.send("t", b"x")
            until(future.done)
            """,
            stub.bootstrap,
        )
        assert "1 record was" in ended.complaints
        assert "INVALID_RECORD" in ended.complaints


def test_a_closed_producer_has_nothing_to_say_at_exit() -> None:
    """After a close, or with nothing sent, the exit is silent."""
    with BrokerStub() as stub:
        ended = run(
            """
            with Producer(bootstrap_servers=bootstrap) as producer:
                producer.send("t", b"x")
            idle = Producer(bootstrap_servers=bootstrap)
            """,
            stub.bootstrap,
        )
        assert (ended.code, ended.complaints) == (0, "")


def test_an_idle_producer_does_not_hold_up_the_exit() -> None:
    """A producer with nothing to send and no broker lets the program go at once."""
    ended = run("producer = Producer(bootstrap_servers='127.0.0.1:1')")
    assert (ended.code, ended.complaints) == (0, "")
    assert ended.seconds < 30


def test_a_program_with_other_threads() -> None:
    """Records sent by a thread that is still running when the main thread ends are delivered as well."""
    with BrokerStub() as stub:
        ended = run(
            """
            producer = Producer(bootstrap_servers=bootstrap, exit_flush_ms=30_000)
            def work():
                for i in range(50):
                    producer.send("t", b"%d" % i)
            threading.Thread(target=work).start()
            """,
            stub.bootstrap,
        )
        assert (ended.code, ended.complaints) == (0, "")
        assert values(stub, "t") == [b"%d" % i for i in range(50)]


def test_several_producers_share_the_time_of_an_exit() -> None:
    """Eight producers with a broker that does not answer: the exit takes one exit_flush_ms, not eight of them, and each says its loss."""
    with BrokerStub() as stub:
        stub.faults.on(Api.PRODUCE).before().forever().hold()
        ended = run(
            """
            producers = [Producer(bootstrap_servers=bootstrap, exit_flush_ms=2_000) for _ in range(8)]
            for producer in producers:
                producer.send("t", b"x")
            import atexit
            began = time.monotonic()
            from fencepost.producer.network import exit_and_fork as lifecycle
            lifecycle.leave_all()
            print(time.monotonic() - began < 10)
            """,
            stub.bootstrap,
        )
        assert ended.lines == ["True"]
        assert ended.complaints.count("1 record was not delivered") == 8
        stub.faults.clear()


def test_daemon_threads_that_go_on_sending() -> None:
    """Once the process exits nothing is accepted any more: threads that go on sending are told, and what was accepted is in the log."""
    with BrokerStub() as stub:
        ended = run(
            """
            producer = Producer(bootstrap_servers=bootstrap, exit_flush_ms=30_000)
            producer.partitions_for("t")
            counts = [0] * 3
            refused = []
            def work(number):
                while True:
                    try:
                        producer.send("t", b"x" * 100)
                    except ProducerClosed as error:
                        refused.append(str(error))
                        return
                    counts[number] += 1
            threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(3)]
            for thread in threads:
                thread.start()
            until(lambda: min(counts) > 100)
            from fencepost.producer.network.exit_and_fork import leave_all
            leave_all()  # as atexit does; the threads would not live to be heard after it
            for thread in threads:
                thread.join(20)
            print(sum(counts), *set(refused), sep="; ")
            """,
            stub.bootstrap,
        )
        assert ended.complaints == ""
        assert ended.lines == [f"{stub.end_offset('t', 0)}; the process exits: no more records can be sent"]


@pytest.mark.skipif(sys.platform == "win32", reason="SIGTERM ends a process of Windows without a handler")
@pytest.mark.parametrize("handled", [True, False])
def test_sigterm_delivers_only_with_a_handler(handled: bool) -> None:
    """Python has no handler for SIGTERM: the process ends without running anything, and what lingers is lost. With the handler that
    docs/quickstart.md shows it ends like any other program."""
    handler = "signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))\n" if handled else ""
    sending = "producer = Producer(bootstrap_servers=bootstrap, linger_ms=600_000)\nproducer.send('t', b'x')\n"
    with BrokerStub() as stub:
        stub.create_topic("t")
        ended = run(handler + sending + "os.kill(os.getpid(), signal.SIGTERM)", stub.bootstrap)
        assert ended.code == (143 if handled else -signal.SIGTERM)
        assert values(stub, "t") == ([b"x"] if handled else [])
