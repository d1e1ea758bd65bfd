"""One exchange as one row: JSON for the page, and a line of text for the report of a failed test.

`Rows` keeps the rows of a journal, and finds batches that came again. It reads exchanges and changes none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from fencepost.broker_stub.faults.groups_and_transactional_ids import groups_of, transactional_ids_of
from fencepost.broker_stub.inspector.batch_facts import Facts, add_results, batch_text, produced, result_text
from fencepost.broker_stub.inspector.message_fields import errors_in, topics_in
from fencepost.broker_stub.inspector.message_tree import NameOf, cut, tree
from fencepost.broker_stub.inspector.sentences import SENTENCES, joined
from fencepost.broker_stub.journal.exchange import Exchange, Heard
from fencepost.broker_stub.network.addresses import printable
from fencepost.producer.wire import Api, ErrorCode, Message, ProduceRequest, api_name

Row = dict[str, Any]

WRITES: Final = frozenset(
    (
        Api.PRODUCE,
        Api.INIT_PRODUCER_ID,
        Api.ADD_PARTITIONS_TO_TXN,
        Api.ADD_OFFSETS_TO_TXN,
        Api.TXN_OFFSET_COMMIT,
        Api.END_TXN,
        Api.OFFSET_COMMIT,
    )
)
"""The requests whose effect is in doubt without a response."""
IN_DOUBT: Final = frozenset(
    (ErrorCode.REQUEST_TIMED_OUT.name, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND.name, ErrorCode.NETWORK_EXCEPTION.name)
)
"""The codes after which the records may be in the log."""
NEXT_STEPS: Final = frozenset(((Api.JOIN_GROUP, ErrorCode.MEMBER_ID_REQUIRED.name),))
"""Codes that belong to how the protocol works: a new member hears its id (KIP-394), and joins with it."""
BEATS: Final = frozenset((Api.FETCH, Api.HEARTBEAT, Api.CONSUMER_GROUP_HEARTBEAT, Api.SHARE_GROUP_HEARTBEAT, Api.API_VERSIONS))
"""Requests that clients send all the time. They are quiet when they bring nothing."""
LINE_MAX: Final = 600
"""The longest words about a request or a response."""
IDENTITY_FIELDS: Final = (("producer_id", "producer_epoch"), ("v3_and_below_producer_id", "v3_and_below_producer_epoch"))

OK, REFUSED, LOST, OPEN, UNHEARD, SILENT = "ok", "refused", "lost", "open", "unheard", "silent"
"""How an exchange ended: answered; answered with an error; its response was dropped or cut; not ended; the broker answered and the client
got nothing; the client wants no response (acks=0)."""


def row_of(exchange: Exchange, name_of: NameOf) -> Row:
    """The row. `name_of`: the name of a topic id."""
    request, response = exchange.request, exchange.response
    row: Row = {
        "n": exchange.number,
        "at": exchange.at_ms,
        "end": exchange.ended_ms,
        "node": exchange.node,
        "conn": exchange.connection_id,
        "corr": exchange.correlation_id,
        "client": None if exchange.client_id is None else cut(exchange.client_id),
        "api": api_name(exchange.api),
        "v": exchange.version,
    }
    batches: list[Facts] = []
    if isinstance(request, ProduceRequest):
        batches = produced(request, name_of)
        row["acks"] = request.acks
        if response is not None:
            add_results(batches, response, name_of)
        asked, told = joined(map(batch_text, batches)), joined(filter(None, map(result_text, batches)))
        topics = list(dict.fromkeys(each["topic"] for each in batches))
    else:
        ask, tell = SENTENCES.get(exchange.api, (None, None))
        topics = topics_in(request, name_of)
        asked = ask(request, name_of) if ask is not None else ", ".join(topics[:4])
        told = tell(response, name_of) if tell is not None and response is not None else ""
    codes = [] if response is None else errors_in(response)
    row |= {
        "asked": cut(asked, LINE_MAX),
        "told": cut(told if batches else " · ".join(filter(None, (", ".join(codes), told))), LINE_MAX),
        "codes": codes,
        "outcome": _outcome(exchange, codes),
        "topics": topics,
        "batches": batches,
        "txn": sorted(transactional_ids_of(request)),
        "groups": sorted(groups_of(request)),
        "identity": _identity(request),
        "throttle": getattr(response, "throttle_time_ms", 0),
        "faults": list(exchange.faults),
        "request": tree(request, name_of),
        "response": None if response is None else tree(response, name_of),
    }
    row["doubt"] = exchange.api in WRITES and (row["outcome"] in (LOST, OPEN, UNHEARD) or bool(IN_DOUBT.intersection(codes)))
    row["quiet"] = _is_quiet(exchange, row)
    if exchange.heard is not None:
        row["heard"] = exchange.heard.value
    return row


def line(row: Row, *, since_ms: int) -> str:
    """The row for a terminal, without request and response."""
    client = f"{printable(row['client'] or 'a client without id')} on connection {row['conn']}"
    what = f"{row['api']} v{row['v']}" + (f" {printable(row['asked'])}" if row["asked"] else "")
    again = f" (again #{row['again']})" if "again" in row else ""
    faults = f" [{printable('; '.join(row['faults']))}]" if row["faults"] else ""
    return f"#{row['n']} +{row['at'] - since_ms} ms, node {row['node']}: {what} from {client}{again}: {_ended(row)}{faults}"


def _ended(row: Row) -> str:
    if row["outcome"] in (LOST, OPEN):
        return "NOT ANSWERED" + (", may be in the log" if row["doubt"] and row["api"] == Api.PRODUCE.name else "")
    if row["outcome"] == SILENT:
        return "acks=0, no response"
    told = printable(row["told"]) or "ok"
    return f"{told}, and the client got nothing" if row["outcome"] == UNHEARD else told


def _outcome(exchange: Exchange, codes: list[str]) -> str:
    request = exchange.request
    if exchange.response is None:
        if isinstance(request, ProduceRequest) and request.acks == 0:
            return SILENT
        return OPEN if exchange.ended_ms is None else LOST
    if exchange.heard is Heard.NOTHING:
        return UNHEARD
    return REFUSED if any((exchange.api, code) not in NEXT_STEPS for code in codes) else OK


def _identity(request: Message) -> list[int] | None:
    """The producer id and epoch that the request itself names."""
    for pid, epoch in IDENTITY_FIELDS:
        if getattr(request, pid, -1) >= 0 and not getattr(request, "transactions", ()):
            return [getattr(request, pid), getattr(request, epoch)]
    return None


def _is_quiet(exchange: Exchange, row: Row) -> bool:
    if exchange.api not in BEATS or row["outcome"] not in (OK, OPEN) or row["faults"]:
        return False
    response = exchange.response
    return not any(part.records for topic in getattr(response, "responses", ()) for part in getattr(topic, "partitions", ()))


class Rows:
    """The rows of the exchanges that a journal keeps, by number. `update` returns those that are new or have changed."""

    def __init__(self, name_of: NameOf) -> None:
        self._name_of = name_of
        self._rows: dict[int, Row] = {}
        self._first: dict[tuple[object, ...], int] = {}  # a batch, and the first exchange with it
        self._newest = 0

    @property
    def oldest(self) -> int:
        """The number of the oldest row; without one that of the next."""
        return next(iter(self._rows), self._newest + 1)

    @property
    def every(self) -> list[Row]:
        """All rows, oldest first."""
        return list(self._rows.values())

    def update(self, exchanges: Iterable[Exchange]) -> list[Row]:
        """Takes what the journal keeps now."""
        kept = list(exchanges)
        oldest = kept[0].number if kept else 0
        for number in [number for number in self._rows if number < oldest or not kept]:
            del self._rows[number]
        changed = []
        for exchange in kept:
            known = self._rows.get(exchange.number)
            if known is not None and not self._has_changed(known, exchange):
                continue
            row = row_of(exchange, self._name_of)
            self._relate(row)
            self._rows[exchange.number] = row
            self._newest = max(self._newest, exchange.number)
            changed.append(row)
        self._first = {key: number for key, number in self._first.items() if number >= oldest}
        return changed

    def _has_changed(self, known: Row, exchange: Exchange) -> bool:
        heard = exchange.heard.value if exchange.heard is not None else None
        answered = known["response"] is not None
        return known["end"] != exchange.ended_ms or answered != (exchange.response is not None) or known.get("heard") != heard

    def _relate(self, row: Row) -> None:
        """Notes which earlier exchange had the same batch: `again` by its sequence number, `like` by its content, from the same client."""
        for batch in row["batches"]:
            place = (batch["topic"], batch["partition"])
            if "crc" in batch:
                first = self._first.setdefault((*place, row["client"], batch["crc"], batch["bytes"]), row["n"])
                if first != row["n"]:
                    batch["like"] = first
            elif batch.get("pid", -1) >= 0:
                first = self._first.setdefault((*place, batch["pid"], batch["epoch"], batch["seq"]), row["n"])
                if first != row["n"]:
                    batch["again"] = row["again"] = first
