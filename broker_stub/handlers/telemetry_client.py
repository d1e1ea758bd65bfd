"""What a request says about its client, for the subscriptions of client metrics (KIP-714)."""

from __future__ import annotations

from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.client import UNKNOWN_SOFTWARE
from fencepost.broker_stub.telemetry.client_metrics_manager import ClientAttributes


def attributes_of(call: Call) -> ClientAttributes:
    """Those of the client that sent the request."""
    client = call.client
    software = client.software or UNKNOWN_SOFTWARE
    return ClientAttributes(
        connection_id=call.exchange.connection_id,
        client_id=call.client_id,
        software_name=software.name,
        software_version=software.version,
        source_address=client.host,
        source_port=client.port,
    )
