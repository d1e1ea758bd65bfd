"""ApiVersions, and requests that the broker does not support."""

import struct

from fencepost.producer.wire import Api
from tests.conformance.world import SPOKEN, World, case


@case("KIP-511")
def api_versions(w: World) -> None:
    """Every version of ApiVersions is answered, with the ranges of the relevant APIs."""
    for version in range(5):
        w.api_versions(version)


@case()
def finalized_features(w: World) -> None:
    """From version 3 on the response has the features and their levels."""
    for version in (2, 3, 4):
        w.features(version)


@case("KIP-511")
def api_versions_of_the_future(w: World) -> None:
    """An unknown version gets a response in version 0 with code 35 and the broker's range. The connection stays open."""
    for version in (5, 6, 99, 32767):
        w.raw_exchange(_header(18, version, flexible=True) + b"\x02x\x021\0", label=f"version {version}")
    w.raw_exchange(_header(18, 99, flexible=True) + b"garbage", label="version 99 and garbage")
    w.raw_exchange(_header(18, -1, flexible=True), label="version -1")
    w.raw_exchange(_header(18, 99, flexible=False), label="version 99, header without tags")


@case("KIP-511")
def client_software_names(w: World) -> None:
    """The client's name and version must have a valid form."""
    for name, version in (
        ("fencepost", "1.0"),
        ("a", "1"),
        ("", ""),
        ("", "1"),
        ("x", ""),
        ("-x", "1"),
        ("x-", "1"),
        ("x y", "1"),
        ("x_y", "1"),
        ("x.y-z", "1.0-rc"),
        ("x", "1+2"),
        ("é", "1"),
        ("x" * 300, "1"),
    ):
        w.client_software(name, version, label=repr((name[:8], version)))


@case()
def unknown_apis(w: World) -> None:
    """An unknown API key closes the connection."""
    for key in (93, 999, 32767, -1):
        w.raw_exchange(_header(key, 0, flexible=False), label=f"key {key}")


@case()
def apis_of_the_past_and_of_controllers(w: World) -> None:
    """API keys that this listener does not serve close the connection, too."""
    for key in (4, 5, 6, 7, 52, 53, 54, 62):
        w.raw_exchange(_header(key, 0, flexible=False) + b"\0" * 16, label=f"key {key}")


@case()
def unsupported_versions(w: World) -> None:
    """One version above and one below the range of each API close the connection."""
    for api, versions in SPOKEN.items():
        if api == Api.API_VERSIONS:
            continue
        for version in {versions.start - 1, versions.stop} - {-1}:
            w.raw_exchange(_header(api, version, flexible=version > 8) + b"\0" * 40, label=f"{Api(api).name} v{version}")
        w.raw_exchange(_header(api, -1, flexible=False) + b"\0" * 40, label=f"{Api(api).name} v-1")


@case()
def unstable_versions(w: World) -> None:
    """InitProducerId 6 exists but is not stable. The broker refuses it like an unknown version."""
    body = b"\0" + struct.pack(">iqhbb", 60_000, -1, -1, 0, 0) + b"\0"
    w.raw_exchange(_header(22, 6, flexible=True) + body, label="InitProducerId v6")


@case("KAFKA-18659")
def produce_zero_to_two(w: World) -> None:
    """Advertised for old versions of librdkafka, and refused."""
    for version in range(3):
        body = struct.pack(">hii", -1, 1000, 0)
        w.raw_exchange(_header(0, version, flexible=False) + body, label=f"v{version}")


@case()
def request_headers(w: World) -> None:
    """The client id may be null or empty. The broker skips unknown tags."""
    w.raw_exchange(struct.pack(">hhih", 18, 0, 7, -1), label="null client id")
    w.raw_exchange(struct.pack(">hhih", 18, 0, 7, 0), label="empty client id")
    w.raw_exchange(struct.pack(">hhih", 18, 0, 7, 5) + b"ab", label="client id cut short")
    w.raw_exchange(struct.pack(">hhi", 18, 0, 7), label="no client id")
    w.raw_exchange(struct.pack(">hh", 18, 0), label="no correlation id")
    w.raw_exchange(struct.pack(">hhih", 18, 3, 7, -1) + b"\x01\x63\x02ab" + b"\x02x\x021\0", label="unknown tag in the header")
    w.raw_exchange(struct.pack(">hhih", 18, 3, 7, -1) + b"\0" + b"\x02x\x021" + b"\x01\x63\x02ab", label="unknown tag in the body")
    w.raw_exchange(struct.pack(">hhih", 18, 3, 7, -1) + b"\0" + b"\x02x\x021" + b"\x01\x63\x7fab", label="tag longer than the body")
    w.raw_exchange(struct.pack(">hhih", 18, 0, -5, -1), label="negative correlation id")


def _header(key: int, version: int, *, flexible: bool) -> bytes:
    return struct.pack(">hhih", key, version, 7, 1) + b"c" + (b"\0" if flexible else b"")
