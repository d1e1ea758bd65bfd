"""The token of a prepared transaction as a text."""

from __future__ import annotations

import json
import pickle

import pytest

from fencepost.txn.recovery.token import BadToken, CoordinatorHint, PreparedTransaction, WrittenPartition, read_token

TOKEN = PreparedTransaction(
    transactional_id="orders-1",
    producer_id=4000,
    producer_epoch=7,
    transaction_version=2,
    cluster_id="zQcs2L5vn2KsTAnCggbn4w",
    wrote=True,
    started_ms=1_700_000_000_000,
    deadline_ms=1_700_000_060_000,
    coordinator=CoordinatorHint(node=1, host="::1", port=9092),
    partitions=(WrittenPartition("orders", 0, 12), WrittenPartition("orders", 3, None)),
    groups=("billing",),
)
FIELDS = json.loads(str(TOKEN))


def test_a_token_comes_back_from_its_text() -> None:
    """As one line of JSON, as bytes of it, and pickled: the same token each time, and it can be a key."""
    assert "\n" not in str(TOKEN)
    assert str(TOKEN) == TOKEN.dumps()
    for again in (
        PreparedTransaction.loads(str(TOKEN)),
        read_token(str(TOKEN).encode()),
        pickle.loads(pickle.dumps(TOKEN)),
        read_token(TOKEN),
    ):
        assert again == TOKEN
        assert hash(again) == hash(TOKEN)


def test_the_text_of_format_1() -> None:
    """What was written once can be read for ever: a change of this text is another format."""
    assert str(TOKEN) == (
        '{"format":1,"transactional_id":"orders-1","producer_id":4000,"producer_epoch":7,"transaction_version":2,'
        '"cluster_id":"zQcs2L5vn2KsTAnCggbn4w","wrote":true,"started_ms":1700000000000,"deadline_ms":1700000060000,'
        '"coordinator":{"node":1,"host":"::1","port":9092},"partitions":[{"topic":"orders","partition":0,"offset":12},'
        '{"topic":"orders","partition":3,"offset":null}],"groups":["billing"]}'
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the text is not JSON"),
        ("{", "the text is not JSON"),
        (b"\xff", "the text is not JSON"),
        ("[" * 100_000, "the text is not JSON"),
        ('{"format": "' + "x" * 100_000 + '"}', "a token of format 'x{59};"),
        ("7", 'a JSON object with a field "format"'),
        ("{}", 'a JSON object with a field "format"'),
        (json.dumps({**FIELDS, "format": 2}), "a token of format 2; this version of fencepost .* reads format 1"),
        (json.dumps({**FIELDS, "format": True}), "a token of format True"),
        (json.dumps({**FIELDS, "producer_epoch": 32_768}), r"damaged token.*<= 32767.*producer_epoch"),
        (json.dumps({**FIELDS, "transaction_version": 3}), r"damaged token.*transaction_version"),
        (json.dumps({**FIELDS, "transactional_id": ""}), r"damaged token.*transactional_id"),
        (
            json.dumps({**FIELDS, "partitions": [{"topic": "t", "partition": -1, "offset": 0}]}),
            r"damaged token.*partitions\[0\]\.partition",
        ),
        (json.dumps({**FIELDS, "more": 1}), "unknown field `more`"),
        (json.dumps({"format": 1}), "missing required field `transactional_id`"),
    ],
)
def test_texts_that_are_no_tokens(text: str | bytes, words: str) -> None:
    """Each is refused with what is wrong about it, and never with half a token."""
    with pytest.raises(BadToken, match=words):
        read_token(text)


def test_what_is_neither_token_nor_text() -> None:
    """The error names what was given."""
    with pytest.raises(BadToken, match="not dict"):
        read_token(FIELDS)
