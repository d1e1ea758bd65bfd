"""A value that is used and never shown: a password, or a token provider, which may contain a password.

Printing and formatting show asterisks. Pickling and JSON raise. `reveal` is the only way to the value.
"""

from __future__ import annotations

from typing import Final, Generic, NoReturn, TypeVar

HIDDEN: Final = "********"

T = TypeVar("T")


class Secret(Generic[T]):
    """Holds a value. Two with equal values are equal."""

    __slots__ = ("_value",)

    def __init__(self, value: T) -> None:
        self._value = value

    def reveal(self) -> T:
        """The value itself, for code that sends or uses it."""
        return self._value

    def __repr__(self) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and bool(other._value == self._value)

    def __hash__(self) -> int:
        return hash(self._value)

    def __copy__(self) -> Secret[T]:
        return self

    def __deepcopy__(self, memo: object) -> Secret[T]:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret cannot be pickled: pass the original settings, and pass the password in a safe way")
