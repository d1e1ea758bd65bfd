"""The errors of the wire."""

import copy
import pickle

import pytest

from fencepost.producer.wire import Api, FrameTooLarge, Malformed, UnsupportedFieldValue, UnsupportedVersion, WireError

ERRORS = [
    Malformed("ends too early", 7, api=Api.FETCH, version=12),
    Malformed("ends too early", 0),
    FrameTooLarge(-1, 1000, frames=[b"a"]),
    UnsupportedVersion("FetchRequest", 99, versions=range(4, 19)),
    UnsupportedFieldValue("v3 has no field A.b, so its value would be lost"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_cross_process_boundaries(error: WireError) -> None:
    """Text and attributes survive pickling and copying."""
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert again.__dict__ == error.__dict__


def test_the_text_of_each_error() -> None:
    """Each text says what is wrong, and fits a log line."""
    assert [str(error) for error in ERRORS] == [
        "FETCH v12: ends too early at byte 7",
        "frame: ends too early at byte 0",
        "a frame of -1 bytes, where 0 to 1000 are allowed",
        "FetchRequest v99 is not supported, only v4 to v18",
        "v3 has no field A.b, so its value would be lost",
    ]


def test_malformed_names_the_api_if_it_can() -> None:
    """A known API key is a member of the enum, an unknown one is a number."""
    assert Malformed("x", 0, api=1, version=4).api is Api.FETCH
    assert Malformed("x", 0, api=999, version=4).api == 999
    assert str(Malformed("x", 0, api=999)) == "UNKNOWN(999): x at byte 0"
