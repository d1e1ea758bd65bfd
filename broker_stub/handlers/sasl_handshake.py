"""SaslHandshake (17), versions 0 and 1.

Chooses the mechanism. One that the broker does not have is UNSUPPORTED_SASL_MECHANISM with the list of mechanisms, and ends the connection.
After version 0 the tokens are bare frames, after version 1 they come in SaslAuthenticate. At another time, and on a listener without SASL,
the answer is ILLEGAL_SASL_STATE.
"""

from __future__ import annotations

from fencepost.broker_stub.requests.call import Call, Instead
from fencepost.broker_stub.requests.router import handles
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.sasl import SaslHandshakeRequest, SaslHandshakeResponse


@handles(SaslHandshakeRequest, range(2))
def sasl_handshake(call: Call, request: SaslHandshakeRequest) -> SaslHandshakeResponse | Instead:
    sasl_state = call.client.sasl_state
    if call.error:
        if sasl_state is not None:
            sasl_state.fail()
        return SaslHandshakeResponse(error_code=call.error)
    if sasl_state is None:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    return sasl_state.shake_hands(request.mechanism, call.version, call.cluster.now_ms()) or Instead.CUT
