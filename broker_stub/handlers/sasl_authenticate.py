"""SaslAuthenticate (36), versions 0 to 2.

One step of the exchange that SaslHandshake began. A failure is SASL_AUTHENTICATION_FAILED with Kafka's text, and ends the connection. After
a successful exchange, and on a listener without SASL, the answer is ILLEGAL_SASL_STATE. The last response has the session's lifetime.
"""

from __future__ import annotations

from fencepost.broker_stub.requests.call import Call, Instead
from fencepost.broker_stub.requests.router import handles
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.sasl import SaslAuthenticateRequest, SaslAuthenticateResponse

TOO_LATE = "SaslAuthenticate request received after successful authentication"


@handles(SaslAuthenticateRequest, range(3))
def sasl_authenticate(call: Call, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse | Instead:
    sasl_state = call.client.sasl_state
    if call.error:
        if sasl_state is not None:
            sasl_state.fail()
        return SaslAuthenticateResponse(error_code=call.error)
    if sasl_state is None:
        return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=TOO_LATE)
    return sasl_state.authenticate(request.auth_bytes, call.cluster.now_ms()) or Instead.CUT
