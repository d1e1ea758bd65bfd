"""Writes the settings once more, as TypedDicts in `keywords.py`, for type checkers: `python docs/make_keywords.py`.

mypy and pyright then know the keyword arguments of public classes: `Producer(lingr_ms=5)` and `Producer(bootstrap_servers=5)` are errors.
Nothing in those files is written by hand; a test compares them with the structs.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

from fencepost.producer.config.names import DOTTED

ROOT: Final = Path(__file__).resolve().parents[1]

WIDER: Final = {
    "bootstrap_servers": "str | Sequence[str]",
    "acks": 'int | Literal["all", "-1", "0", "1"]',
    "compression_type": "Codec | str | None",
    "partitioner": "Partitioner | str | Callable[..., int | None]",
    "interceptors": "Any",
    "metadata_recovery_strategy": "MetadataRecovery | str",
    "security_protocol": "SecurityProtocol | str",
    "sasl_mechanism": "SaslMechanism | str | None",
    "ssl_password": "Secret[str] | str | None",
    "sasl_password": "Secret[str] | str | None",
    "sasl_oauth_token_provider": "Any",
    "sasl_oauthbearer_config": "Secret[str] | str | None",
    "on_open_transaction": "OnOpen | str",
    "prepared": "Iterable[PreparedTransaction | str | bytes]",
    "existing_topics": "Iterable[str]",
    "topics": "Iterable[str] | None",
    "ssl_endpoint_identification_algorithm": "str | None",
}
"""The types that a caller may pass, if the struct's own type is narrower."""

PRODUCER: Final = (
    ROOT / "producer/config/keywords.py",
    ROOT / "producer/config/settings.py",
    "Settings",
    '''"""The keyword arguments of a producer, for type checkers. Made by `docs/make_keywords.py` from `Settings`: do not edit."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypedDict

from fencepost.producer.config.secret import Secret
from fencepost.producer.config.settings import MetadataRecovery, Partitioner, SaslMechanism, SecurityProtocol
from fencepost.producer.wire.codecs.codec import Codec


class ProducerOptions(TypedDict, total=False):
    """Every setting but the servers, with Kafka's own names where they differ."""

''',
)
TRANSACTIONS: Final = (
    ROOT / "txn/config/keywords.py",
    ROOT / "txn/config/settings.py",
    "TransactionSettings",
    '''"""The keyword arguments of a transactional producer, for type checkers. Made by `docs/make_keywords.py`: do not edit."""

from __future__ import annotations

from collections.abc import Iterable

from fencepost.producer.config.keywords import ProducerKeywords
from fencepost.txn.config.on_open import OnOpen
from fencepost.txn.recovery.token import PreparedTransaction


class TransactionalKeywords(ProducerKeywords, total=False):
''',
)
SPARK: Final = (
    ROOT / "txn/spark/sink/keywords.py",
    ROOT / "txn/spark/sink/settings.py",
    "WriterSettings",
    '''"""The keyword arguments of the Spark writer, for type checkers. Made by `docs/make_keywords.py`: do not edit."""

from __future__ import annotations

from collections.abc import Iterable

from fencepost.producer.config.keywords import ProducerOptions


class WriterKeywords(ProducerOptions, total=False):
''',
)
SERVERS: Final = """

class ProducerKeywords(ProducerOptions, total=False):
    \"\"\"Every setting.\"\"\"

    bootstrap_servers: str | Sequence[str]
"""
NAMED: Final = {"Settings": ("bootstrap_servers",), "TransactionSettings": (), "WriterSettings": ("sink_id", "topic")}
"""Settings that the Spark writer's signature has already."""


def page(target: tuple[Path, Path, str, str]) -> str:
    """The text of one file."""
    _, source, name, head = target
    struct = next(node for node in ast.parse(source.read_text()).body if isinstance(node, ast.ClassDef) and node.name == name)
    types = {
        node.target.id: WIDER.get(node.target.id, ast.unparse(node.annotation))
        for node in struct.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    if name == "Settings":
        kafkas = {(spelled := dotted.replace(".", "_")): WIDER.get(spelled, types[ours]) for dotted, ours in DOTTED.items()}
        types |= {spelled: kind for spelled, kind in kafkas.items() if spelled not in types}
    lines = [f"    {setting}: {kind}\n" for setting, kind in types.items() if setting not in NAMED[name]]
    return head + "".join(lines) + (SERVERS if name == "Settings" else "")


def main() -> None:
    for target in (PRODUCER, TRANSACTIONS, SPARK):
        target[0].write_text(page(target))


if __name__ == "__main__":
    main()
