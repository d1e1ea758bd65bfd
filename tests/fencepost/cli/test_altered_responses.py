"""Brokers that answer with too little, too much or nonsense: a command says so in a line, takes little memory and ends in its time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from fencepost.broker_stub import BrokerStub
from fencepost.producer.wire import Api, MetadataResponseBroker
from fencepost.producer.wire.messages.group_admin import DescribedGroup, DescribedGroupMember
from tests.drawn import drawn
from tests.fencepost.cli.altered_responses import Lie, altered, lying_relay
from tests.fencepost.cli.shell import peak_of, run
from tests.fencepost.cli.test_txn import TOPIC, prepare

pytestmark = pytest.mark.timeout(300)

DOCTOR = ("doctor", "BOOTSTRAP", "--topic", TOPIC)
STATUS = ("txn", "status", "TOKEN", "--bootstrap", "BOOTSTRAP", "--timeout", "2")
DESCRIBE = ("txn", "describe", "a", "--bootstrap", "BOOTSTRAP", "--timeout", "2")
GROUP = ("groups", "describe", "g", "--bootstrap", "BOOTSTRAP", "--timeout", "2")
RESET = ("groups", "reset", "g", "--to-latest", "--topic", TOPIC, "--bootstrap", "BOOTSTRAP", "--timeout", "2")


def one_member(member: DescribedGroupMember) -> Callable[[Any], Any]:
    """The answer with a stable group that has this member."""
    group = DescribedGroup(group_id="g", group_state="Stable", protocol_type="consumer", members=[member])
    return lambda answer: replace(answer, groups=[group])


def one_broker(**fields: Any) -> Lie:
    return altered(Api.METADATA, lambda answer: replace(answer, brokers=[replace(answer.brokers[0], **fields)]))


def configs(change: Callable[[list[Any]], list[Any]]) -> Lie:
    def told(answer: Any) -> Any:
        return replace(answer, results=[replace(each, configs=change(each.configs)) for each in answer.results])

    return altered(Api.DESCRIBE_CONFIGS, told)


def number(text: str) -> Lie:
    return configs(lambda told: [replace(each, value=text) if each.name == "max.message.bytes" else each for each in told])


def too_old(answer: Any) -> Any:
    return replace(answer, api_keys=[replace(each, max_version=2) if each.api_key == Api.METADATA else each for each in answer.api_keys])


LIES = {
    "of no topic": (DOCTOR, altered(Api.METADATA, lambda answer: replace(answer, topics=[])), "answers about 0"),
    "of one topic twice": (DOCTOR, altered(Api.METADATA, lambda answer: replace(answer, topics=answer.topics * 2)), "answers about 2"),
    "of no partition": (
        DOCTOR,
        altered(Api.METADATA, lambda answer: replace(answer, topics=[replace(each, partitions=[]) for each in answer.topics])),
        "0 partitions",
    ),
    "of no configs": (DOCTOR, altered(Api.DESCRIBE_CONFIGS, lambda answer: replace(answer, results=[])), "answers about 0"),
    "of some configs": (DOCTOR, configs(lambda told: told[:1]), "answer lacks the configs"),
    "a number that is none": (DOCTOR, number(".."), "answer lacks the configs max.message.bytes"),
    "a number without end": (DOCTOR, number("9" * 5000), "answer lacks the configs max.message.bytes"),
    "a port that is none": (DOCTOR, one_broker(port=70_000), "the port is not a valid number"),
    "a host that is none": (DOCTOR, one_broker(host="a\0b"), "the name cannot be resolved"),
    "a version that is too old": (DOCTOR, altered(Api.API_VERSIONS, too_old), "in too old a version"),
    "of no transaction": (
        STATUS,
        altered(Api.DESCRIBE_TRANSACTIONS, lambda answer: replace(answer, transaction_states=[])),
        "answers about 0",
    ),
    "of two transactions": (
        STATUS,
        altered(Api.DESCRIBE_TRANSACTIONS, lambda answer: replace(answer, transaction_states=answer.transaction_states * 2)),
        "answers about 2",
    ),
    "to describe two": (
        DESCRIBE,
        altered(Api.DESCRIBE_TRANSACTIONS, lambda answer: replace(answer, transaction_states=answer.transaction_states * 2)),
        "answers about 2",
    ),
    "of two groups": (
        GROUP,
        altered(Api.DESCRIBE_GROUPS, lambda answer: replace(answer, groups=answer.groups * 2)),
        "answers about 2",
    ),
    "a subscription that is none": (
        GROUP,
        altered(Api.DESCRIBE_GROUPS, one_member(DescribedGroupMember(member_id="m", member_metadata=b"\0\0\x7f\xff\xff\xff"))),
        "member m: 6 bytes are no subscription",
    ),
    "an assignment that is none": (
        GROUP,
        altered(Api.DESCRIBE_GROUPS, one_member(DescribedGroupMember(member_id="m", member_assignment=b"\0"))),
        "member m: 1 byte are no assignment",
    ),
    "of no group's offsets": (RESET, altered(Api.OFFSET_FETCH, lambda answer: replace(answer, groups=[])), "answers about 0"),
    "of no ends": (RESET, altered(Api.LIST_OFFSETS, lambda answer: replace(answer, topics=[])), "did not answer"),
    "a coordinator nowhere": (
        DESCRIBE,
        altered(
            Api.FIND_COORDINATOR, lambda answer: replace(answer, coordinators=[replace(each, port=-1) for each in answer.coordinators])
        ),
        "the port is not a valid number",
    ),
}


@drawn(3)
@pytest.mark.parametrize("lie", LIES)
def test_a_broker_that_lies(lie: str) -> None:
    """It is said what it said, with the command's own exit code, and no traceback is shown."""
    command, change, words = LIES[lie]
    with BrokerStub(config={"transaction.state.log.num.partitions": "1"}) as stub:
        stub.create_topic(TOPIC)
        token = str(prepare(stub))
        with lying_relay(stub.addresses[1][1], change) as bootstrap:
            given = {"BOOTSTRAP": bootstrap, "TOKEN": token}
            ran = run(*(given.get(each, each) for each in command))
    assert "Traceback" not in ran.stderr, ran.stderr
    assert words in ran.stdout + ran.stderr
    assert ran.returncode in (0, 1, 2, 3)


def test_a_cluster_of_very_many_brokers() -> None:
    """Of those that a cluster names `doctor` tries some, a few at a time, and says how many it left out."""
    with BrokerStub() as stub:

        def many(answer: Any) -> Any:
            own = answer.brokers[0].port
            return replace(answer, brokers=[MetadataResponseBroker(node_id=n, host="127.0.0.1", port=own) for n in range(3_000)])

        with lying_relay(stub.addresses[1][1], altered(Api.METADATA, many)) as bootstrap:
            peak, ran = peak_of("doctor", bootstrap)
    assert "2744 more brokers were not tried: the limit is 256" in ran.stdout, ran.stderr
    assert peak < 400_000  # KiB
