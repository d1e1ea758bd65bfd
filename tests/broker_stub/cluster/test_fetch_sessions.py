"""Fetch sessions: what a response contains, the order of partitions, and the limits of the cache."""

from __future__ import annotations

from uuid import UUID

from fencepost.broker_stub.cluster.fetch_sessions import SESSION_EPOCH_MAX, Asked, SessionCache
from fencepost.producer.wire import ErrorCode, PartitionData


def asked(partition: int = 0, offset: int = 0) -> Asked:
    return Asked("t", UUID(int=0), partition, offset=offset, bytes_max=100, leader_epoch=-1, last_fetched_epoch=-1)


def data(*, records: bool = False, failed: bool = False, high_watermark: int = 1, start: int = 0) -> PartitionData:
    error = ErrorCode.NOT_LEADER_OR_FOLLOWER if failed else ErrorCode.NONE
    return PartitionData(
        partition_index=0, error_code=error, high_watermark=high_watermark, log_start_offset=start, records=b"x" if records else None
    )


def test_a_session_tells_only_news() -> None:
    """At first every partition is news. Later only records, a moved watermark or start, and errors are. After an error the next response is
    news, too."""
    session = SessionCache().create(uses_ids=False)
    assert session is not None
    session.update([asked()])

    def news(*, records: bool = False, failed: bool = False, high_watermark: int = 5, start: int = 0) -> bool:
        return session.is_news(asked().key, data(records=records, failed=failed, high_watermark=high_watermark, start=start))

    assert [news(), news(), news(records=True), news()] == [True, False, True, False]
    assert [news(high_watermark=6), news(high_watermark=6), news(high_watermark=6, start=1)] == [True, False, True]
    assert [news(failed=True), news(failed=True), news(start=1), news(start=1)] == [True, True, True, False]


def test_a_session_serves_the_hungry_first() -> None:
    """A partition with records goes to the end of the line. An update keeps its place, and a forgotten partition leaves."""
    session = SessionCache().create(uses_ids=False)
    assert session is not None
    session.update([asked(0), asked(1), asked(2)])
    session.is_news(asked(0).key, data(records=True))
    assert [each.partition for each in session.partitions()] == [1, 2, 0]
    session.update([asked(1, offset=7)], [asked(2).key, asked(9).key])
    assert [(each.partition, each.offset) for each in session.partitions()] == [(1, 7), (0, 0)]


def test_session_epochs_wrap_and_sessions_are_bounded() -> None:
    """After 2^31-1 comes 1; beyond the limit there is no new session; one removed makes room."""
    cache = SessionCache(limit=1)
    session = cache.create(uses_ids=True)
    assert session is not None
    session.epoch = SESSION_EPOCH_MAX
    session.advance()
    assert session.epoch == 1
    assert cache.create(uses_ids=True) is None
    cache.remove(session.id)
    again = cache.create(uses_ids=True)
    assert again is not None
    assert again.id != session.id
