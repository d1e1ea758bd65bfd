"""Writes the settings once more, as TypedDicts in `keywords.py`, for type checkers: `python docs/make_keywords.py`.

mypy and pyright then know the keyword arguments of public classes: `Producer(lingr_ms=5)` and `Producer(bootstrap_servers=5)` are errors,
and so is a name that the producer does not take, such as `Producer(compression_type="zip")`.
Nothing in those files is written by hand; a test compares them with the structs.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

from fencepost.producer.config.bootstrap_servers import DNS_LOOKUP
from fencepost.producer.config.callables import PARTITIONERS, SERIALIZERS
from fencepost.producer.config.names import DOTTED
from fencepost.producer.config.settings import MetadataRecovery, SaslMechanism, SecurityProtocol
from fencepost.producer.wire.codecs.codec import Codec
from fencepost.txn.config.on_open import OnOpen
from fencepost.txn.jobs.settings import REQUIRED as JOB_REQUIRED
from fencepost.txn.pipeline.settings import REQUIRED as PIPELINE_REQUIRED

ROOT: Final = Path(__file__).resolve().parents[1]
LINE: Final = 140


def names(*values: str) -> str:
    """A type with exactly these texts."""
    listed = ", ".join(f'"{value}"' for value in dict.fromkeys(values))
    return f"Literal[{listed}]"


def any_case(*values: str) -> str:
    """The same for names that the producer reads in any case: in small and in capital letters."""
    return names(*(spelling for value in values for spelling in (value, value.lower(), value.upper())))


def alias(name: str, kind: str) -> str:
    """A name for a type, on one line or as ruff breaks it."""
    line = f"{name}: TypeAlias = {kind}"
    return line if len(line) <= LINE else line.replace("[", "[\n    ").replace("]", "\n]")


WIDER: Final = {
    "bootstrap_servers": "str | Sequence[str]",
    "client_dns_lookup": names(DNS_LOOKUP),
    "acks": 'Literal[-1, 0, 1, "all", "-1", "0", "1"]',
    "compression_type": "Codec | CompressionName | None",
    "partitioner": "Partitioner | PartitionerName | Callable[..., int | None]",
    "key_serializer": "SerializerName | Callable[..., object] | HasSerialize | None",
    "value_serializer": "SerializerName | Callable[..., object] | HasSerialize | None",
    "interceptors": "Interceptor | Sequence[Interceptor]",
    "metadata_recovery_strategy": f"MetadataRecovery | {any_case(*(each.value for each in MetadataRecovery))}",
    "security_protocol": "SecurityProtocol | SecurityProtocolName",
    "sasl_mechanism": "SaslMechanism | SaslMechanismName | None",
    "ssl_cafile": "str | PathLike[str] | None",
    "ssl_certfile": "str | PathLike[str] | None",
    "ssl_keyfile": "str | PathLike[str] | None",
    "ssl_password": "Secret[str] | str | None",
    "ssl_check_hostname": f"bool | {names('https', 'HTTPS', 'none', '')}",
    "sasl_password": "Secret[str] | str | None",
    "sasl_oauth_token_provider": "Secret[Callable[..., object]] | Callable[..., object] | HasToken | None",
    "sasl_oauthbearer_config": "Secret[str] | str | None",
    "on_open_transaction": f"OnOpen | {names(*(each.value for each in OnOpen))}",
    "prepared": "Iterable[PreparedTransaction | str | bytes]",
    "existing_topics": "Iterable[str]",
    "topics": "Iterable[str] | None",
    "transform": "Callable[[Message], object] | None",
    "transform_many": "Callable[[list[Message]], object] | None",
}
"""The types that a caller may pass, if the struct's own type is narrower."""

PRODUCER: Final = (
    ROOT / "producer/config/keywords.py",
    ROOT / "producer/config/settings.py",
    "Settings",
    f'''"""The keyword arguments of a producer, for type checkers. Made by `docs/make_keywords.py` from `Settings`: do not edit."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, Literal, Protocol, TypeAlias, TypedDict

from fencepost.producer.config.secret import Secret
from fencepost.producer.config.settings import MetadataRecovery, Partitioner, SaslMechanism, SecurityProtocol
from fencepost.producer.wire.codecs.codec import Codec

{alias("CompressionName", any_case(*(codec.name.lower() for codec in Codec)))}
{alias("PartitionerName", names(*PARTITIONERS))}
{alias("SerializerName", names("bytes", *SERIALIZERS))}
{alias("SecurityProtocolName", any_case(*(each.value for each in SecurityProtocol)))}
{alias("SaslMechanismName", any_case(*(each.value for each in SaslMechanism)))}


class HasSerialize(Protocol):
    """A serializer of kafka-python or aiokafka."""

    def serialize(self, topic: Any, value: Any, /) -> object: ...


class HasOnSend(Protocol):
    """An interceptor that sees records before they are accepted."""

    @property
    def on_send(self) -> Callable[..., object]: ...


class HasOnAcknowledgement(Protocol):
    """An interceptor that sees the outcomes of records."""

    @property
    def on_acknowledgement(self) -> Callable[..., object]: ...


class HasToken(Protocol):
    """A token provider of kafka-python or aiokafka."""

    @property
    def token(self) -> Callable[..., object]: ...


Interceptor: TypeAlias = Callable[..., object] | HasOnSend | HasOnAcknowledgement


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
from typing import Literal

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
PIPELINE: Final = (
    ROOT / "txn/pipeline/keywords.py",
    ROOT / "txn/pipeline/settings.py",
    "PipelineSettings",
    '''"""The keyword arguments of a pipeline, for type checkers. Made by `docs/make_keywords.py`: do not edit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Required, TypedDict

from fencepost.txn.pipeline.stats import PipelineStats

if TYPE_CHECKING:
    from confluent_kafka import Message


class PipelineKeywords(TypedDict, total=False):
''',
)
JOB: Final = (
    ROOT / "txn/jobs/keywords.py",
    ROOT / "txn/jobs/settings.py",
    "JobSettings",
    '''"""The keyword arguments of a job, for type checkers. Made by `docs/make_keywords.py`: do not edit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Required, TypedDict

from fencepost.txn.jobs.stats import JobStats


class JobKeywords(TypedDict, total=False):
''',
)
POOL: Final = (
    ROOT / "txn/pool/keywords.py",
    ROOT / "txn/pool/settings.py",
    "PoolSettings",
    '''"""The keyword arguments of a pool, for type checkers. Made by `docs/make_keywords.py`: do not edit."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from typing import Literal

from fencepost.producer.config.keywords import ProducerKeywords
from fencepost.txn.config.on_open import OnOpen
from fencepost.txn.recovery.token import PreparedTransaction


class PoolKeywords(ProducerKeywords, total=False):
''',
)
REQUIRED: Final = {"PipelineSettings": PIPELINE_REQUIRED, "JobSettings": JOB_REQUIRED}
SERVERS: Final = """

class ProducerKeywords(ProducerOptions, total=False):
    \"\"\"Every setting.\"\"\"

    bootstrap_servers: str | Sequence[str]
"""
NAMED: Final = {"Settings": ("bootstrap_servers",), "WriterSettings": ("sink_id", "topic"), "PoolSettings": ("transactional_id",)}
"""Settings that are left out: the Spark writer's signature has them already, or a pool makes them itself."""


def types_of(source: Path, name: str) -> dict[str, str]:
    """The types of a struct's fields, as a caller may pass them."""
    struct = next(node for node in ast.parse(source.read_text()).body if isinstance(node, ast.ClassDef) and node.name == name)
    return {
        node.target.id: WIDER.get(node.target.id, ast.unparse(node.annotation))
        for node in struct.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


def page(target: tuple[Path, Path, str, str]) -> str:
    """The text of one file."""
    _, source, name, head = target
    types = types_of(source, name)
    if name == "PoolSettings":
        types |= types_of(TRANSACTIONS[1], TRANSACTIONS[2])
    if name == "Settings":
        kafkas = {(spelled := dotted.replace(".", "_")): WIDER.get(spelled, types[ours]) for dotted, ours in DOTTED.items()}
        types |= {spelled: kind for spelled, kind in kafkas.items() if spelled not in types}
    if name == "JobSettings":
        types["transform"] = "Callable[[Any], object] | None"
    types |= {setting: f"Required[{types[setting]}]" for setting in REQUIRED.get(name, ())}
    lines = [f"    {setting}: {kind}\n" for setting, kind in types.items() if setting not in NAMED.get(name, ())]
    return head + "".join(lines) + (SERVERS if name == "Settings" else "")


def main() -> None:
    for target in (PRODUCER, TRANSACTIONS, SPARK, PIPELINE, JOB, POOL):
        target[0].write_text(page(target))


if __name__ == "__main__":
    main()
