"""DescribeUserScramCredentials (50), version 0.

The mechanisms and iterations of the named users, or of all. A user without a credential is RESOURCE_NOT_FOUND, one that is named twice
DUPLICATE_RESOURCE.
"""

from __future__ import annotations

from collections import Counter

from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation
from fencepost.broker_stub.security.scram_credentials import MECHANISMS, ScramCredentials
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

TWICE = "Cannot describe SCRAM credentials for the same user twice in a single request: "
UNKNOWN = "Attempt to describe a user credential that does not exist: "


@handles(DescribeUserScramCredentialsRequest, range(1), cluster=Operation.DESCRIBE)
def describe_user_scram_credentials(call: Call, request: DescribeUserScramCredentialsRequest) -> DescribeUserScramCredentialsResponse:
    if call.error:
        # Kafka's answer does not name the users.
        each = DescribeUserScramCredentialsResult(error_code=call.error, error_message=None)
        return DescribeUserScramCredentialsResponse(error_code=call.error, error_message=None, results=[each] * len(request.users or ()))
    known = call.cluster.scram_credentials
    named = Counter([each.name for each in request.users or ()] or known.users())
    return DescribeUserScramCredentialsResponse(results=[_described(known, name, twice=count > 1) for name, count in named.items()])


def _described(known: ScramCredentials, name: str, *, twice: bool) -> DescribeUserScramCredentialsResult:
    if twice:
        return DescribeUserScramCredentialsResult(user=name, error_code=ErrorCode.DUPLICATE_RESOURCE, error_message=TWICE + name)
    infos = [
        CredentialInfo(mechanism=number, iterations=found.iterations)
        for number, mechanism in MECHANISMS.items()
        if (found := known.of(mechanism, name)) is not None
    ]
    if not infos:
        return DescribeUserScramCredentialsResult(user=name, error_code=ErrorCode.RESOURCE_NOT_FOUND, error_message=UNKNOWN + name)
    return DescribeUserScramCredentialsResult(user=name, credential_infos=infos)
