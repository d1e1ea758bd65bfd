"""Message classes by API key. Some are imported on first use.

A producer uses seven APIs, and the stub about thirty. Declaring a message takes a fraction of a millisecond, so importing all of them
would slow down the start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module

from fencepost.producer.wire.message import Message


class Registry(Mapping[int, type[Message]]):
    """The requests, or the responses. `later`: the module and the name of each class that is imported on first use."""

    def __init__(self, classes: Iterable[type[Message]], *, later: Mapping[int, tuple[str, str]]) -> None:
        self._loaded: dict[int, type[Message]] = {int(cls.api): cls for cls in classes}
        self._later = {int(api): where for api, where in later.items()}
        self._apis = (*self._loaded, *self._later)

    def __getitem__(self, api: int) -> type[Message]:
        found = self._loaded.get(api)
        return found if found is not None else self._load(api)

    def __contains__(self, api: object) -> bool:
        return api in self._apis

    def __iter__(self) -> Iterator[int]:
        return iter(self._apis)

    def __len__(self) -> int:
        return len(self._apis)

    def _load(self, api: int) -> type[Message]:
        module, name = self._later[api]
        cls: type[Message] = getattr(import_module(module), name)
        assert cls.api == api, f"{name} is registered as API {api} and is {cls.api}"
        self._loaded[api] = cls
        return cls
