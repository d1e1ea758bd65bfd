"""One file per API, each registering its handler with the router; each opens with its versions, its behaviour and what it leaves out."""

from importlib import import_module

_APIS = (
    "api_versions",
    "create_topics",
    "describe_producers",
    "fetch",
    "find_coordinator",
    "init_producer_id",
    "list_offsets",
    "metadata",
    "produce",
)


def register() -> None:
    """Loads every handler; a second call does nothing."""
    for api in _APIS:
        import_module(f"{__name__}.{api}")
