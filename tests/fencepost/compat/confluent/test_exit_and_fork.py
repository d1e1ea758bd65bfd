"""A process that ends without `flush`, and a forked one: messages that wait for their topic are delivered or named, and nothing hangs."""

from __future__ import annotations

import pytest

from fencepost import Api, BrokerStub
from tests.gil import needs_gil
from tests.producer.child_programs import run

pytestmark = needs_gil

MAKE = """
            logging.basicConfig()
            from confluent_kafka import KafkaException
            from fencepost.compat.confluent import Producer
            producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
"""
PATIENT = """
            from fencepost.compat.confluent import held_messages
            held_messages.ALONE_S = 20.0  # A broker that takes longer than that to answer is said to be down.
"""


def test_exit_without_flush() -> None:
    """Messages for a topic that the producer had not heard of before the program ended are in the log."""
    with BrokerStub() as stub:
        ended = run(
            f"""{MAKE}{PATIENT}
            for number in range(10):
                producer.produce("new", str(number))
            """,
            stub.bootstrap,
        )
        assert (ended.code, ended.complaints) == (0, "")
        assert [record.value for record in stub.records("new", 0)] == [b"%d" % number for number in range(10)]


def test_exit_of_a_multiprocessing_child_without_flush() -> None:
    """A forked child of multiprocessing ends without `atexit`: its messages for a new topic are in the log all the same."""
    with BrokerStub() as stub:
        ended = run(
            f"""{MAKE}{PATIENT}
            import multiprocessing
            def work():
                global mine
                mine = Producer({{"bootstrap.servers": bootstrap, "linger.ms": 0}})
                for number in range(10):
                    mine.produce("new", str(number))
            child = multiprocessing.get_context("fork").Process(target=work)
            child.start()
            child.join()
            print(child.exitcode)
            producer.close()
            """,
            stub.bootstrap,
        )
        assert (ended.lines, ended.complaints) == (["0"], "")
        assert [record.value for record in stub.records("new", 0)] == [b"%d" % number for number in range(10)]


def test_exit_without_a_topic() -> None:
    """Messages whose topic does not become known are lost, and the log says how many."""
    with BrokerStub(config={"auto.create.topics.enable": "false"}) as stub:
        ended = run(
            f"""{MAKE}
            from fencepost.compat.confluent import held_messages
            held_messages.EXIT_S = 0.5
            for number in range(3):
                producer.produce("missing", str(number))
            """,
            stub.bootstrap,
        )
    assert ended.code == 0
    assert "exit without flush: no broker told the topics of 3 messages in time: they are lost" in ended.complaints


@pytest.mark.parametrize("topic", ["known", "new"])
def test_a_forked_child(topic: str) -> None:
    """Whether its messages were on their way or waited for their topic: in the child no call waits for them, and the parent goes on."""
    with BrokerStub() as stub:
        stub.create_topic("known")
        stub.faults.on(Api.PRODUCE if topic == "known" else Api.METADATA).on_call(2).delay(1500)
        ended = run(
            f"""{MAKE}
            producer.produce("known", "first")
            assert producer.flush(20) == 0
            producer.produce("{topic}", "parent's", on_delivery=lambda error, message: print("heard", error))
            child = os.fork()
            if child == 0:
                began = time.monotonic()
                print(attempt(lambda: producer.produce("{topic}", "child's")))
                for call in (lambda: producer.poll(0), lambda: producer.flush(30), producer.close):
                    attempt(call)
                print(time.monotonic() - began < 10)
                sys.stdout.flush()
                os._exit(0)
            print("child", os.waitpid(child, 0)[1])
            print(producer.flush(20))
            producer.close()
            """,
            stub.bootstrap,
        )
        assert ended.lines == ["KafkaException", "True", "child 0", "heard None", "0"]
        assert [record.value for record in stub.records(topic, 0)][-1:] == [b"parent's"]
        assert sum(record.value == b"child's" for record in stub.records(topic, 0)) == 0
