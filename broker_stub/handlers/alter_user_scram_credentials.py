"""AlterUserScramCredentials (51), version 0.

Removes and sets credentials, user by user. Logins obey from then on, also those of users that `BrokerStub(sasl=...)` names. A user that is
named twice is DUPLICATE_RESOURCE, an unknown mechanism UNSUPPORTED_SASL_MECHANISM, a credential that does not exist RESOURCE_NOT_FOUND. An
empty name, and iterations outside 4096 to 16384, are UNACCEPTABLE_CREDENTIAL.
"""

from __future__ import annotations

from collections import Counter

from fencepost.broker_stub.handlers.refusal import Refusal
from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation
from fencepost.broker_stub.security.scram_credentials import ITERATIONS_MAX, ITERATIONS_MIN, MECHANISMS, ScramCredentials, credential
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

Change = ScramCredentialDeletion | ScramCredentialUpsertion


@handles(AlterUserScramCredentialsRequest, range(1), cluster=Operation.ALTER, forwarded=True)
def alter_user_scram_credentials(call: Call, request: AlterUserScramCredentialsRequest) -> AlterUserScramCredentialsResponse:
    changes: list[Change] = [*request.deletions, *request.upsertions]
    if call.error:
        words = call.needs_words(call.error, Operation.ALTER)
        return AlterUserScramCredentialsResponse(
            results=[_result(name, Refusal(call.error, words)) for name in dict.fromkeys(each.name for each in changes)]
        )
    named = Counter(each.name for each in changes)
    known = call.cluster.scram_credentials
    refusals: dict[str, Refusal | None] = {}
    for each in changes:
        # The first of two is refused for itself, if it is wrong.
        refusals.setdefault(each.name, _refusal(known, each) or _of_two(named[each.name]))
    for each in changes:
        if refusals[each.name] is None:
            _change(known, each)
    done_first = sorted(refusals.items(), key=lambda pair: pair[1] is not None)
    return AlterUserScramCredentialsResponse(results=[_result(name, refusal) for name, refusal in done_first])


def _of_two(count: int) -> Refusal | None:
    twice = Refusal(ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
    return twice if count > 1 else None


def _refusal(known: ScramCredentials, change: Change) -> Refusal | None:
    if not change.name:
        return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    mechanism = MECHANISMS.get(change.mechanism)
    if mechanism is None:
        return Refusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(change, ScramCredentialUpsertion):
        if change.iterations < ITERATIONS_MIN:
            return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
        if change.iterations > ITERATIONS_MAX:
            return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
        if not change.salted_password:
            return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)  # Java has no HMAC with an empty key
    elif known.of(mechanism, change.name) is None:
        return Refusal(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
    return None


def _change(known: ScramCredentials, change: Change) -> None:
    mechanism = MECHANISMS[change.mechanism]
    if isinstance(change, ScramCredentialUpsertion):
        known.change(mechanism, change.name, credential(mechanism, change.salt, change.iterations, change.salted_password))
    else:
        known.change(mechanism, change.name, None)


def _result(name: str, refusal: Refusal | None) -> AlterUserScramCredentialsResult:
    code, message = refusal or (ErrorCode.NONE, None)
    return AlterUserScramCredentialsResult(user=name, error_code=code, error_message=message)
