"""Names of a package that are imported at their first use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: dict[str, Any], homes: Mapping[str, Iterable[str]]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The `__getattr__` and the `__dir__` of a package. `package`: its globals. `homes`: for each module the names that it defines."""
    home_of = {name: home for home, names in homes.items() for name in names}

    def find(name: str) -> object:
        home = home_of.get(name)
        if home is None:
            raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")
        try:
            found = package[name] = getattr(import_module(home), name)
        except AttributeError as error:  # Python's own message says only that the name cannot be imported
            raise ImportError(f"{home}: {error}") from error
        return found

    def names_of() -> list[str]:
        return sorted({*package, *home_of})

    return find, names_of
