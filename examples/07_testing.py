"""07: testing a service with faults. Each test has its own broker, which loses replies, refuses records and restarts on demand.

Run the file with Python, or with `pytest examples/07_testing.py`. pytest has the fixture `kafka_stub` when fencepost is installed.
docs/testing.md explains the rest.
"""

from fencepost import Api, BrokerStub, DeliveryError, ErrorCode, Persisted, Producer

QUICK = {"linger_ms": 0, "request_timeout_ms": 300}
IMPATIENT = {**QUICK, "delivery_timeout_ms": 3_000, "resolve_grace_ms": 300}  # only where a test waits for that: machines can be slow


class PaymentService:
    """A service that takes payments, and must know whether each one is recorded."""

    def __init__(self, bootstrap: str, settings: dict[str, int] = QUICK) -> None:
        self._producer = Producer(settings, bootstrap_servers=bootstrap)

    def pay(self, payment: bytes) -> str:
        """The payment's result: recorded, to be tried again, or to be checked by a person."""
        try:
            self._producer.send("payments", payment).result(timeout=30)
        except DeliveryError as error:
            # NO: the log certainly does not have it. Otherwise a second attempt could pay twice.
            return "try again" if error.persisted is Persisted.NO else "look into it"
        return "recorded"

    def close(self) -> None:
        self._producer.close(timeout=30)


def recorded(stub: BrokerStub) -> list[bytes | None]:
    """The values in the topic."""
    return [record.value for record in stub.records("payments", 0)]


def test_a_lost_reply_pays_once(kafka_stub: BrokerStub) -> None:
    """The broker appends the payment, and the reply is lost. The service reports it as recorded, and the topic has it once."""
    service = PaymentService(kafka_stub.bootstrap)
    lost = kafka_stub.faults.on(Api.PRODUCE).after_append().drop_reply()
    assert service.pay(b"25 EUR") == "recorded"
    assert lost.hits == 1
    assert recorded(kafka_stub) == [b"25 EUR"]
    service.close()


def test_a_refused_payment_may_be_tried_again(kafka_stub: BrokerStub) -> None:
    """The broker refuses the payment permanently. The topic does not have it, and the next payment succeeds."""
    service = PaymentService(kafka_stub.bootstrap)
    service.pay(b"1 EUR")
    kafka_stub.faults.on(Api.PRODUCE).error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert service.pay(b"2 EUR") == "try again"
    assert service.pay(b"2 EUR") == "recorded"
    assert recorded(kafka_stub) == [b"1 EUR", b"2 EUR"]
    service.close()


def test_doubt_is_said(kafka_stub: BrokerStub) -> None:
    """The broker appends the payment and never answers again. The service reports the doubt."""
    service = PaymentService(kafka_stub.bootstrap, IMPATIENT)
    service.pay(b"1 EUR")
    kafka_stub.faults.on(Api.PRODUCE).after_append().drop().forever()
    kafka_stub.faults.on(Api.DESCRIBE_PRODUCERS).drop().forever()
    assert service.pay(b"2 EUR") == "look into it"
    kafka_stub.faults.clear()
    service.close()


def test_a_broker_that_restarts_is_not_noticed(kafka_stub: BrokerStub) -> None:
    """A rolling restart delays payments and loses none."""
    service = PaymentService(kafka_stub.bootstrap)
    for number in range(3):
        assert service.pay(b"%d EUR" % number) == "recorded"
        kafka_stub.restart_broker(1)
    assert recorded(kafka_stub) == [b"0 EUR", b"1 EUR", b"2 EUR"]
    service.close()


if __name__ == "__main__":
    for test in (
        test_a_lost_reply_pays_once,
        test_a_refused_payment_may_be_tried_again,
        test_doubt_is_said,
        test_a_broker_that_restarts_is_not_noticed,
    ):
        with BrokerStub() as stub:
            test(stub)
        print(f"{test.__name__}: passed")
