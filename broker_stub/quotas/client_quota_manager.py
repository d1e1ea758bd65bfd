"""What clients have used of one broker, and how long the broker mutes them for it (KIP-13, KIP-124, KIP-219).

Produce is charged the bytes of the request, Fetch the bytes of its response, and every request REQUEST_MS of a thread's time. The stub does
not measure that time, because its own time would differ from Kafka's. Where a quota is exceeded, the broker responds at once. The response
says for how long the broker does not read from the connection; the response to a Fetch has no records then.

Leaves out: quotas of addresses (connections) and of the controller (topics and partitions), which are kept and not obeyed, and of
replication.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isnan
from typing import Final, NamedTuple, Protocol

from fencepost.broker_stub.quotas.quotas import FETCH, PRODUCE, REQUEST, Limit, Quotas
from fencepost.broker_stub.quotas.rate import Rate
from fencepost.producer.wire import FetchRequest, FetchResponse, Message, ProduceRequest, encode_parts

REQUEST_MS: Final = 1.0
SIZE_BYTES: Final = 4  # in front of every frame
NO_SESSION: Final = 0
INT_RANGE: Final = 1 << 32
EXPIRE_AFTER_MS: Final = 3_600_000  # Kafka's INACTIVE_SENSOR_EXPIRATION_TIME_SECONDS
EXPIRE_EVERY_MS: Final = 30_000


class Charged(Protocol):
    """A request that is charged, and its client."""

    @property
    def request(self) -> Message: ...
    @property
    def version(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def principal(self) -> str: ...
    @property
    def client_id(self) -> str | None: ...


class Verdict(NamedTuple):
    """The response to send, and for how long the connection is muted."""

    response: Message | None
    throttle_ms: int


class ClientQuotaManager:
    """The use of one broker by all clients. `end_session` ends a fetch session by its id."""

    def __init__(
        self, quotas: Quotas, *, now_ms: Callable[[], int], end_session: Callable[[int], None], windows: int, window_ms: int
    ) -> None:
        self._quotas = quotas
        self._now_ms = now_ms
        self._end_session = end_session
        self._windows = windows
        self._window_ms = window_ms
        self._rates: dict[tuple[str, tuple[str, str]], Rate] = {}
        self._expired_at_ms = now_ms()

    def charge(self, call: Charged, response: Message | None) -> Verdict:
        """Charges the request. `response`: None when no response is due."""
        now_ms = self._now_ms()
        answered = response is not None
        busy_ms = self._charge(REQUEST, call, REQUEST_MS / 10, now_ms, most_ms=self._window_ms) if answered else 0
        if isinstance(call.request, ProduceRequest):
            return Verdict(response, max(busy_ms, self._charge(PRODUCE, call, call.size_bytes, now_ms)))
        if isinstance(call.request, FetchRequest) and isinstance(response, FetchResponse):
            size = SIZE_BYTES + sum(map(len, encode_parts(response, call.version)))
            throttle_ms = max(busy_ms, self._charge(FETCH, call, size, now_ms))
            if throttle_ms:
                self._charge(FETCH, call, -size, now_ms)
                return Verdict(self._emptied(call.request, response), throttle_ms)
        return Verdict(response, busy_ms)

    def fetch_bytes_max(self, call: Charged) -> int | None:
        """The bytes that the client may fetch at once without being throttled forever. None: no limit."""
        limit = self._limit(FETCH, call)
        if limit is None:
            return None
        return 0 if isnan(limit.bound) else int(limit.bound * (self._windows - 1) * self._window_ms / 1000)

    def _charge(self, key: str, call: Charged, value: float, now_ms: int, *, most_ms: int | None = None) -> int:
        limit = self._limit(key, call)
        if limit is None:
            return 0
        if now_ms - self._expired_at_ms >= EXPIRE_EVERY_MS:
            self._expired_at_ms = now_ms
            self._rates = {shared: rate for shared, rate in self._rates.items() if now_ms - rate.recorded_ms <= EXPIRE_AFTER_MS}
        rate = self._rates.get((key, limit.shared_by))
        if rate is None:
            rate = self._rates[key, limit.shared_by] = Rate(windows=self._windows, window_ms=self._window_ms)
        rate.record(value, now_ms)
        throttle_ms = rate.throttle_ms(limit.bound, now_ms)
        return _as_int(throttle_ms) if most_ms is None else min(throttle_ms, most_ms)

    def _limit(self, key: str, call: Charged) -> Limit | None:
        return self._quotas.limit(key, call.principal.partition(":")[2], call.client_id or "")

    def _emptied(self, request: FetchRequest, response: FetchResponse) -> FetchResponse:
        """A Fetch that the client must repeat. It begins no session."""
        if request.session_epoch > 0:
            return FetchResponse(session_id=response.session_id)
        self._end_session(response.session_id)
        return FetchResponse(session_id=NO_SESSION)


def _as_int(ms: int) -> int:
    """Casts a long as Java does. More than 25 days do not fit into an int; a result below 0 throttles no client, here as in Kafka."""
    return max(0, ((ms + INT_RANGE // 2) % INT_RANGE) - INT_RANGE // 2)
