"""SaslHandshake (17), versions 0 and 1.

Names the mechanism; one that the broker does not have is UNSUPPORTED_SASL_MECHANISM with those that it has, and the end of the
connection. After version 0 the tokens come bare, after version 1 in SaslAuthenticate. Where it is not the moment for it, and on a listener
without SASL, it is ILLEGAL_SASL_STATE.
"""

from __future__ import annotations

from fencepost.broker_stub.requests.call import Call, Instead
from fencepost.broker_stub.requests.router import handles
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.sasl import SaslHandshakeRequest, SaslHandshakeResponse


@handles(SaslHandshakeRequest, range(2))
def sasl_handshake(call: Call, request: SaslHandshakeRequest) -> SaslHandshakeResponse | Instead:
    gate = call.client.gate
    if call.error:
        if gate is not None:
            gate.fail()
        return SaslHandshakeResponse(error_code=call.error)
    if gate is None:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    return gate.shake_hands(request.mechanism, call.version, call.cluster.now_ms()) or Instead.CUT
