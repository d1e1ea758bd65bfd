"""Writes the settings once more, as TypedDicts in `keywords.py`, for type checkers: `python docs/make_keywords.py`.

mypy and pyright then know the keyword arguments of public classes: `Producer(lingr_ms=5)` and `Producer(bootstrap_servers=5)` are errors,
and so is a name that the producer does not take, such as `Producer(compression_type="zip")`.
Nothing in those files is written by hand; a test compares them with the structs.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final, NamedTuple

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


class Target(NamedTuple):
    """A room with `settings.py`, which has the struct, and `keywords.py`. `owner`: whose keyword arguments they are. `head`: what stands
    before them, after the future import."""

    room: str
    struct: str
    owner: str
    head: str

    @property
    def file(self) -> Path:
        return ROOT / self.room / "keywords.py"


PRODUCER: Final = Target(
    "producer/config",
    "Settings",
    "a producer",
    f'''import ssl
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
TRANSACTIONS: Final = Target(
    "txn/config",
    "TransactionSettings",
    "a transactional producer",
    """from collections.abc import Iterable
from typing import Literal

from fencepost.producer.config.keywords import ProducerKeywords
from fencepost.txn.config.on_open import OnOpen
from fencepost.txn.recovery.token import PreparedTransaction


class TransactionalKeywords(ProducerKeywords, total=False):
""",
)
SPARK: Final = Target(
    "txn/spark/sink",
    "WriterSettings",
    "the Spark writer",
    """from collections.abc import Iterable

from fencepost.producer.config.keywords import ProducerOptions


class WriterKeywords(ProducerOptions, total=False):
""",
)
PIPELINE: Final = Target(
    "txn/pipeline",
    "PipelineSettings",
    "a pipeline",
    """from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Required, TypedDict

from fencepost.txn.pipeline.stats import PipelineStats

if TYPE_CHECKING:
    from confluent_kafka import Message


class PipelineKeywords(TypedDict, total=False):
""",
)
JOB: Final = Target(
    "txn/jobs",
    "JobSettings",
    "a job",
    """from collections.abc import Callable, Mapping, Sequence
from typing import Any, Required, TypedDict

from fencepost.txn.jobs.stats import JobStats


class JobKeywords(TypedDict, total=False):
""",
)
POOL: Final = Target(
    "txn/pool",
    "PoolSettings",
    "a pool",
    """from collections.abc import Iterable
from os import PathLike
from typing import Literal

from fencepost.producer.config.keywords import ProducerKeywords
from fencepost.txn.config.on_open import OnOpen
from fencepost.txn.recovery.token import PreparedTransaction


class PoolKeywords(ProducerKeywords, total=False):
""",
)
TARGETS: Final = (PRODUCER, TRANSACTIONS, SPARK, PIPELINE, JOB, POOL)
HEAD: Final = '''"""The keyword arguments of {owner}, for type checkers. Made by `docs/make_keywords.py`: do not edit."""

from __future__ import annotations

'''
REQUIRED: Final = {"PipelineSettings": PIPELINE_REQUIRED, "JobSettings": JOB_REQUIRED}
SERVERS: Final = """

class ProducerKeywords(ProducerOptions, total=False):
    \"\"\"Every setting.\"\"\"

    bootstrap_servers: str | Sequence[str]
"""
NAMED: Final = {"Settings": ("bootstrap_servers",), "WriterSettings": ("sink_id", "topic"), "PoolSettings": ("transactional_id",)}
"""Settings that are left out: the Spark writer's signature has them already, or a pool makes them itself."""


def types_of(target: Target) -> dict[str, str]:
    """The types of a struct's fields, as a caller may pass them."""
    tree = ast.parse((ROOT / target.room / "settings.py").read_text())
    struct = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == target.struct)
    return {
        node.target.id: WIDER.get(node.target.id, ast.unparse(node.annotation))
        for node in struct.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


def page(target: Target) -> str:
    """The text of one file."""
    name, types = target.struct, types_of(target)
    if name == "PoolSettings":
        types |= types_of(TRANSACTIONS)
    if name == "Settings":
        kafkas = {(spelled := dotted.replace(".", "_")): WIDER.get(spelled, types[ours]) for dotted, ours in DOTTED.items()}
        types |= {spelled: kind for spelled, kind in kafkas.items() if spelled not in types}
    if name == "JobSettings":
        types["transform"] = "Callable[[Any], object] | None"
    types |= {setting: f"Required[{types[setting]}]" for setting in REQUIRED.get(name, ())}
    lines = [f"    {setting}: {kind}\n" for setting, kind in types.items() if setting not in NAMED.get(name, ())]
    return HEAD.format(owner=target.owner) + target.head + "".join(lines) + (SERVERS if name == "Settings" else "")


def main() -> None:
    for target in TARGETS:
        target.file.write_text(page(target))


if __name__ == "__main__":
    main()
