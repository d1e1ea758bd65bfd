"""ApiVersions (18), versions 0 to 4.

The list is the router's: every API with a handler, in the handler's versions or those of the emulated release. Only Produce is offered from
version 0 on, although 0 to 2 are refused (KAFKA-18659: librdkafka needs it). An unknown version gets the body of version 0 with
UNSUPPORTED_VERSION and this API's range (KIP-511). An invalid name of the client's software is INVALID_REQUEST, without a list. Finalized
features have transaction.version 2, so that clients use the protocol of KIP-890, unless the cluster was created with another one.

The APIs of client metrics are in the list with `BrokerStub(telemetry=True)` (KIP-714).

Leaves out: ZooKeeper migration.
"""

from __future__ import annotations

import re

from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.router import handles, served
from fencepost.producer.wire import (
    Api,
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    ErrorCode,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

VERSIONS = range(5)
_TELEMETRY = (Api.GET_TELEMETRY_SUBSCRIPTIONS, Api.PUSH_TELEMETRY)
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@handles(ApiVersionsRequest, VERSIONS)
def api_versions(call: Call, request: ApiVersionsRequest) -> ApiVersionsResponse:
    release, features = call.cluster.release, call.cluster.features
    if call.version not in VERSIONS:
        own = ApiVersion(api_key=Api.API_VERSIONS, min_version=VERSIONS.start, max_version=VERSIONS.stop - 1)
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[own])
    if call.error:
        return ApiVersionsResponse(error_code=call.error)
    if call.version >= 3 and not (
        _SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    if call.version >= 3 and call.client.software is not None:
        call.client.software.name, call.client.software.version = request.client_software_name, request.client_software_version
    offered = [each for each in release.offers(served()) if each.api not in _TELEMETRY or call.offers_telemetry]
    return ApiVersionsResponse(
        api_keys=[ApiVersion(api_key=each.api, min_version=each.lowest, max_version=each.highest) for each in offered],
        # Clients before version 4 fail at a lowest level of 0 (KAFKA-17492).
        supported_features=[
            SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high, _) in features.items()
            if low > 0 or call.version >= 4
        ],
        finalized_features_epoch=call.cluster.features_epoch,
        finalized_features=[
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, (_, _, level) in features.items()
            if level
        ],
    )
