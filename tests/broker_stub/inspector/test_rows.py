"""An exchange as a row: what was asked and told, how it ended, whether it is in doubt; and no secret in it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec
import pytest
from msgspec.structs import replace

from fencepost import Api, BrokerStub
from fencepost.broker_stub.inspector.message_tree import HIDDEN, tree
from fencepost.broker_stub.inspector.rows import Row, Rows, line, row_of
from fencepost.broker_stub.journal.exchange import Exchange, Heard
from fencepost.producer.wire import (
    RESPONSES,
    Message,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
    ProduceResponse,
)
from fencepost.producer.wire.messages.configs import AlterConfigsRequest
from fencepost.producer.wire.messages.sasl import SaslAuthenticateRequest
from tests.broker_stub.filled_requests import APIS, filled, request_of
from tests.broker_stub.stub_calls import Talker, batch, metadata_request, numbered, produce_request
from tests.waiting import until

DEADLINE_S = 10.0
NAMES = {UUID(int=7): "orders"}


def exchange(
    request: Message, version: int, response: Message | None = None, *, heard: Heard | None = None, ended: bool = True
) -> Exchange:
    made = Exchange(
        node=1,
        connection_id=2,
        api=request.api,
        version=version,
        correlation_id=3,
        client_id="shop",
        request=request,
        at_ms=1000,
        heard=heard,
    )
    made.number, made.response, made.ended_ms = 1, response, 1004 if ended else None
    return made


def rows_of(stub: BrokerStub) -> list[Row]:
    rows = Rows(stub.cluster.topic_name)
    rows.update(stub.journal.requests())
    return rows.every


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_every_message_has_a_row(api: Api) -> None:
    """Every request and response in every version becomes a row that fits into JSON, and a line."""
    for version in type(request_of(api)).versions:
        for response in (None, filled(RESPONSES[api], version)):
            row = row_of(exchange(request_of(api, version), version, response), NAMES.get)
            assert msgspec.json.decode(msgspec.json.encode(row)) == row
            assert line(row, since_ms=900).startswith(f"#1 +100 ms, node 1: {api.name} v{version}")


def test_a_batch_is_told_with_its_identity_and_offset() -> None:
    """Partition, count, producer id, epoch and sequence of the request, and the offset of the response."""
    with BrokerStub() as stub:
        stub.create_topic("orders")
        with Talker(stub) as talker:
            talker.produce("orders", numbered(5, 0, 3))
            talker.produce("orders", numbered(5, 0, 3))
            talker.produce("orders", numbered(5, 9))
        first, again, gap = [row for row in rows_of(stub) if row["api"] == "PRODUCE"]
    assert (first["asked"], first["told"]) == ("orders-0: 3 records, pid 5 epoch 0 seq 0-2", "offset 0")
    assert (again["again"], again["told"], again["outcome"]) == (first["n"], "offset 0", "ok")
    assert (gap["told"], gap["outcome"], gap["doubt"]) == ("OUT_OF_ORDER_SEQUENCE_NUMBER", "refused", False)
    assert "seq 0-2 from talker on connection" in line(again, since_ms=first["at"])
    assert f"(again #{first['n']}): offset 0" in line(again, since_ms=first["at"])


@pytest.mark.parametrize(
    ("options", "outcome", "doubt", "words"),
    [
        ({}, "lost", True, "NOT ANSWERED, may be in the log"),
        ({"ended": False}, "open", True, "NOT ANSWERED, may be in the log"),
        ({"response": ProduceResponse(), "heard": Heard.NOTHING}, "unheard", True, "ok, and the client got nothing"),
        ({"response": ProduceResponse(), "heard": Heard.ALL}, "ok", False, "ok"),
    ],
    ids=["dropped", "running", "unheard", "heard"],
)
def test_what_is_in_doubt(options: dict[str, Any], outcome: str, doubt: bool, words: str) -> None:
    """A write without a response that the client has seen is in doubt; with acks=0 none is due, and a read never is."""
    row = row_of(exchange(produce_request("orders", batch(b"v")), 12, **options), NAMES.get)
    assert (row["outcome"], row["doubt"]) == (outcome, doubt)
    assert line(row, since_ms=1000).endswith(f": {words}")
    silent = row_of(exchange(replace(produce_request("orders", batch(b"v")), acks=0), 12), NAMES.get)
    assert (silent["outcome"], silent["doubt"]) == ("silent", False)
    assert row_of(exchange(metadata_request("orders"), 12), NAMES.get)["doubt"] is False


def test_a_running_exchange_changes_its_row_once() -> None:
    """Only rows that are new or have changed are told again, and those that the journal forgot are forgotten."""
    with BrokerStub(journal=2) as stub, Talker(stub) as talker:
        rows = Rows(stub.cluster.topic_name)
        held = stub.faults.on(Api.METADATA).hold()
        number = talker.send(metadata_request("orders"), 12)
        held.wait(timeout=DEADLINE_S)
        (row,) = rows.update(stub.journal.requests())
        assert (row["outcome"], row["faults"]) == ("open", ["METADATA before: hold"])
        assert rows.update(stub.journal.requests()) == []
        held.release()
        talker.receive(metadata_request("orders"), 12, correlation_id=number)
        until(lambda: stub.journal.requests()[0].ended_ms is not None, "the end of the exchange")
        (row,) = rows.update(stub.journal.requests())
        assert row["outcome"] == "refused"  # the topic is unknown
        for _ in range(3):
            talker.ask(metadata_request("orders"), 12)
        rows.update(stub.journal.requests())
        assert ([each["n"] for each in rows.every], rows.oldest) == ([3, 4], 3)
        stub.journal.clear()
        rows.update(stub.journal.requests())
        assert (rows.every, rows.oldest) == ([], 5)


def test_secrets_are_hidden() -> None:
    """Passwords in configs and in logins are not in a tree; other values are."""
    resource = AlterConfigsRequest.__struct_fields__[0]
    (shown,) = tree(request_of(Api.ALTER_CONFIGS), NAMES.get)[resource]
    assert shown["configs"] == [{"name": "name", "value": "value"}]
    asked = request_of(Api.ALTER_CONFIGS)
    (one,) = asked.resources
    for name in ("ssl.key.password", "sasl.jaas.config", "listener.name.x.ssl.keystore.key", "some.secret"):
        configs = [replace(one.configs[0], name=name, value="hunter2")]
        told = tree(replace(asked, resources=[replace(one, configs=configs)]), NAMES.get)
        assert told["resources"][0]["configs"] == [{"name": name, "value": HIDDEN}]
    assert "hunter2" not in str(tree(SaslAuthenticateRequest(auth_bytes=b"\0me\0hunter2"), NAMES.get))


def test_a_tree_is_bounded() -> None:
    """Long lists and texts are cut, and say how much is left out."""
    shown = tree(metadata_request(*("t" * 500 for _ in range(50))), NAMES.get)
    assert len(shown["topics"]) == 21
    assert shown["topics"][-1] == "and 30 more"
    assert shown["topics"][0]["name"] == "t" * 200 + "... (500 characters)"
    many = MetadataResponse(topics=[MetadataResponseTopic(partitions=[MetadataResponsePartition(replica_nodes=[1] * 20)] * 20)] * 20)
    assert len(str(tree(many, NAMES.get))) < 30_000
