"""The names of the protocol's numbers."""

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from fencepost.producer.wire import Api, ErrorCode, api_name, error_name
from tests.producer.wire import kafka_schemas
from tests.producer.wire.kafka_schemas import snake_case


def test_every_error_code_has_kafkas_name() -> None:
    """All codes from -1 to 133 are there, under the names of another implementation with the same source."""
    assert {code.name: code.value for code in ErrorCode} == {code.name.upper(): int(code.value) for code in KioErrorCode}
    assert sorted(ErrorCode) == list(range(-1, 134))


@pytest.mark.skipif(kafka_schemas.MISSING, reason=kafka_schemas.SKIP_REASON)
def test_every_api_key_has_its_schemas_name() -> None:
    """Every request that Kafka defines is there under its key, and no other."""
    requests = [name for name in kafka_schemas.names() if name.endswith("Request")]
    expected = {snake_case(name.removesuffix("Request")).upper(): kafka_schemas.load(name)["apiKey"] for name in requests}
    assert {api.name: api.value for api in Api} == expected


def test_an_unknown_number_has_a_name_that_says_so() -> None:
    """A number from a newer broker can be logged."""
    assert error_name(6) == "NOT_LEADER_OR_FOLLOWER"
    assert error_name(-1) == "UNKNOWN_SERVER_ERROR"
    assert error_name(999) == "UNKNOWN(999)"
    assert api_name(61) == "DESCRIBE_PRODUCERS"
    assert api_name(-7) == "UNKNOWN(-7)"
