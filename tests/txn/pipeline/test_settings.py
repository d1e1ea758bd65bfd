"""Settings of a pipeline: a wrong one is refused by name when the pipeline is made."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from fencepost.producer.errors import ConfigError
from fencepost.txn import AsyncPipeline, Pipeline, PoisonMessage
from tests.txn.pipeline.helpers import QUICK, bill

SOUND: dict[str, Any] = {**QUICK, "bootstrap_servers": "localhost:1", "transform": bill}


async def waits(message: object) -> bytes:
    return b""


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"source": ""}, "source is missing: the topic to read"),
        ({"group": None}, "group is missing"),
        ({"bootstrap_servers": ""}, "bootstrap_servers is missing"),
        ({"source": [1]}, r"source=\[1\]: the name of a topic"),
        ({"source": "a b"}, "source='a b'"),
        ({"sink": "a/b"}, "sink='a/b'"),
        ({"sink": "orders"}, "sink='orders': the pipeline reads this topic"),
        ({"dead_letters": "orders"}, "dead_letters='orders': the pipeline reads this topic"),
        ({"source": "^inv.*"}, r"sink='invoices': the source '\^inv\.\*' matches it.*forever"),
        ({"source": ["orders", "^o"], "dead_letters": "odd"}, r"dead_letters='odd': the source '\^o' matches it"),
        ({"source": "^inv.*s$", "consumer": {"group.protocol": "consumer"}}, "matches it"),
        ({"dead_letters": "invoices"}, "dead_letters='invoices': a topic of its own"),
        ({"batch_size": 0}, "batch_size=0: a whole number from 1"),
        ({"batch_ms": 2.5}, r"batch_ms=2\.5: a whole number"),
        ({"attempts": True}, "attempts=True: a whole number"),
        ({"batch_ms": 30_000}, "batch_ms=30000: it must be less than transaction_timeout_ms=30000"),
        ({"retry_backoff_max_ms": 30_000}, "retry_backoff_max_ms=30000: it must be less than transaction_timeout_ms=30000"),
        ({"retry_backoff_ms": 3_000, "transaction_timeout_ms": 3_000}, "retry_backoff_ms=3000: it must be less than .*_ms=3000"),
        ({"batch_ms": 20_000, "consumer": {"max.poll.interval.ms": 10_000}}, "less than the consumer's max.poll.interval.ms=10000"),
        ({"consumer": {"max.poll.interval.ms": "soon"}}, r"'max\.poll\.interval\.ms': 'soon'\}: a whole number"),
        ({"transform": None}, "give one of transform"),
        ({"transform_many": list}, "give one of transform"),
        ({"transform": 7}, "transform=7: it must be a function"),
        ({"transform": waits}, "is an async function: use AsyncPipeline"),
        ({"on_progress": 7}, "on_progress=7"),
        ({"instance": "\n"}, "instance='\\\\n': a printable text"),
        ({"batchsize": 5}, "unknown setting 'batchsize': did you mean 'batch_size'"),
        ({"fetch_wait": 5}, "unknown setting 'fetch_wait'"),
        ({"consumer": 5}, "consumer=5: a mapping"),
        (
            {"consumer": {"enable.auto.commit": True}},
            "'enable.auto.commit': True.*needs False, because the transaction commits the offsets",
        ),
        ({"consumer": {"isolation.level": "read_uncommitted"}}, "needs 'read_committed', because with read_uncommitted"),
        ({"consumer": {"enable.partition.eof": "false"}}, "needs True"),
        ({"consumer": {"group.id": "x"}}, "set the pipeline's own group"),
        ({"consumer": {"bootstrap.servers": "x"}}, "set the pipeline's own bootstrap_servers"),
        ({"consumer": {"group.instance.id": "x"}}, "set the pipeline's own instance"),
        ({"consumer": {"auto.offset.reset": "sometimes"}}, "'auto.offset.reset': 'sometimes'"),
        ({"producer": {"transactional.id": "x"}}, "set the pipeline's own transactional_id"),
        ({"producer": {"transaction_timeout_ms": 5}}, "set the pipeline's own transaction_timeout_ms"),
        ({"producer": {"value_serializer": "json"}}, "a pipeline's transform returns bytes"),
        ({"producer": {"lingr_ms": 5}}, "unknown setting 'lingr_ms'"),
        ({"producer": {"acks": 1}}, "acks"),
    ],
)
def test_what_is_refused(changed: dict[str, Any], said: str) -> None:
    """The error names the setting, its value and what is possible. No connection is made."""
    with pytest.raises(ConfigError, match=said):
        Pipeline(**{**SOUND, **changed}).run(timeout=0)


def test_what_librdkafka_refuses() -> None:
    """An unknown setting of the consumer is refused when the pipeline begins, with librdkafka's words."""
    with pytest.raises(ConfigError, match=r"the consumer's settings: .*fetch\.nothing"):
        Pipeline(**{**SOUND, "consumer": {"fetch.nothing": 1}}).run(timeout=0)


def test_settings_that_agree_are_taken() -> None:
    """A caller may repeat what a pipeline sets itself, and change its defaults in either spelling."""
    Pipeline(**{**SOUND, "producer": {"linger.ms": 1, "max_block_ms": 10_000, "on.open.transaction": "refuse"}})
    Pipeline(**{**SOUND, "consumer": {"enable.auto.commit": "false", "isolation.level": "read_committed"}})


def test_the_transactional_id() -> None:
    """With an instance it is the same after a restart; without one each pipeline has its own, so two processes never fence each other."""
    assert Pipeline(**SOUND, instance="pod-1").transactional_id == "billing.pod-1"
    assert Pipeline(**SOUND, transactional_id="mine").transactional_id == "mine"
    first, second = Pipeline(**SOUND), AsyncPipeline(**SOUND)
    assert first.transactional_id != second.transactional_id
    assert first.transactional_id.startswith("billing.")
    assert repr(first).startswith("Pipeline(source='orders', group='billing', sink='invoices'")


def test_a_pipeline_stays_in_its_process() -> None:
    """It cannot be pickled, and the error says what to do; its errors can."""
    with pytest.raises(TypeError, match="make one in each process"):
        pickle.dumps(Pipeline(**SOUND))
    error = PoisonMessage("KeyError: 'price'", topic="orders", partition=2, offset=17, attempts=3)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.offset) == (str(error), 17)


@pytest.mark.parametrize(("given", "error"), [("5", TypeError), (True, TypeError), (0, ValueError)])
def test_a_wrong_max_batches(given: Any, error: type[Exception]) -> None:
    """It is refused before anything happens."""
    with pytest.raises(error, match="max_batches="):
        Pipeline(**SOUND).run(max_batches=given)


@pytest.mark.parametrize(
    ("source", "protocol"),
    [("^orders.*", "classic"), ("^inv", "consumer"), ("^[[:alpha:]]+[0-9]", "classic"), ("^(", "classic"), ("invoice", "classic")],
)
def test_a_pattern_beside_its_own_topics(source: str, protocol: str) -> None:
    """A source that does not match the sink is taken. Brokers match patterns of the consumer protocol with whole names only. What Python
    cannot read is left to the consumer."""
    pipeline = Pipeline(**{**SOUND, "source": source, "consumer": {"group.protocol": protocol}})
    pipeline.close()
