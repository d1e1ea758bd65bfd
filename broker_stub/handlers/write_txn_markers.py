"""WriteTxnMarkers (27), versions 1 and 2.

Ends transactions in partitions that this broker leads, without asking their coordinator. Administrators use it to end a hanging
transaction. The stub's coordinators write their markers without this request; fault rules for it apply to them too. It responds when every
in-sync replica has the markers. Needs ALTER or CLUSTER_ACTION on the cluster.

Leaves out: version 0, which Kafka 3.9 takes from other brokers.
"""

from __future__ import annotations

from functools import partial

from fencepost.broker_stub.requests.call import Call, Instead
from fencepost.broker_stub.requests.deferred_reply import DeferredReply
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation, Resource
from fencepost.broker_stub.transactions.markers import TxnMarker, write_marker
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.end_txn import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

NO_PRODUCER_ID = -1

Place = tuple[int, str, int]
"""Index of the marker, topic and partition."""


@handles(WriteTxnMarkersRequest, range(1, 3))
def write_txn_markers(call: Call, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse | Instead:
    return _Writing(call, request).result()


class _Writing:
    """One request, answered when all markers are written or refused."""

    def __init__(self, call: Call, request: WriteTxnMarkersRequest) -> None:
        self._call = call
        self._request = request
        self._deferred: DeferredReply[WriteTxnMarkersResponse] = DeferredReply(call)
        self._codes: dict[Place, int] = {}
        self._places = dict.fromkeys(
            (number, topic.name, index)
            for number, marker in enumerate(request.markers)
            for topic in marker.topics
            for index in topic.partition_indexes
        )
        may = call.may(Operation.ALTER, Resource.CLUSTER) or call.may(Operation.CLUSTER_ACTION, Resource.CLUSTER)
        refused = call.error or (ErrorCode.NONE if may else ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        if not self._places:
            self._answer()
        for place in self._places:
            if refused:
                self._written(place, refused)
            else:
                self._write(place, request.markers[place[0]])

    def result(self) -> WriteTxnMarkersResponse | Instead:
        return self._deferred.result()

    def _write(self, place: Place, marker: WritableTxnMarker) -> None:
        _, topic, index = place
        _, replica = self._call.find(topic, index)
        code = self._call.fault_for(topic, index)
        if code:
            self._written(place, code)
        elif replica is None or replica.known is None:
            self._written(place, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif not replica.leads:
            self._written(place, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif marker.producer_id == NO_PRODUCER_ID or marker.producer_epoch < 0:
            self._written(place, ErrorCode.UNKNOWN_SERVER_ERROR)
        else:
            said = TxnMarker(
                producer_id=marker.producer_id,
                epoch=marker.producer_epoch,
                commit=marker.transaction_result,
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.transaction_version,
            )
            write_marker(self._call.cluster, replica, said, partial(self._written, place))

    def _written(self, place: Place, code: int) -> None:
        self._codes[place] = code
        if len(self._codes) == len(self._places):
            self._answer()

    def _answer(self) -> None:
        results = [
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=index, error_code=self._codes[number, topic.name, index])
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for number, marker in enumerate(self._request.markers)
        ]
        self._deferred(WriteTxnMarkersResponse(markers=results))
