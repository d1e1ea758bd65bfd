"""Checks of config values, one for each type, with Kafka's error texts.

A check gets the name and the value. It returns the reason why the value is invalid, or None. It knows no config.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

Check = Callable[[str, str], str | None]

LONG_MAX: Final = 2**63 - 1
INT_MAX: Final = 2**31 - 1
PARTITIONS_MAX: Final = 10_000
"""How many partitions one request can create."""
LONG_MIN: Final = -LONG_MAX - 1
_DECIMAL: Final = re.compile(r"[+-]?(NaN|Infinity|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fFdD]?)", re.ASCII)
_HEXADECIMAL: Final = re.compile(r"[+-]?0[xX]([\da-fA-F]+\.?[\da-fA-F]*|\.[\da-fA-F]+)[pP][+-]?\d+[fFdD]?", re.ASCII)
_PLAIN: Final = range(-3, 7)  # Java writes a double with such an exponent without it
_REPLICA: Final = re.compile("([0-9]+:[0-9]+)?")
TYPES: Final = {"INT": (-INT_MAX - 1, INT_MAX), "LONG": (LONG_MIN, LONG_MAX)}


def whole(low: int, high: int) -> Check:
    """A whole number: an INT if the maximum is one, else a LONG."""
    kind = "INT" if high <= INT_MAX else "LONG"

    def check(name: str, value: str) -> str | None:
        number = _number(value, kind)
        if number is None:
            return invalid(name, value, f"Not a number of type {kind}")
        if number < low:
            return invalid(name, str(number), f"Value must be at least {low}")
        return invalid(name, str(number), f"Value must be no more than {high}") if number > high else None

    return check


def level(low: int, high: int, *, default: int) -> Check:
    """A compression level, or the number that stands for the codec's default."""

    def check(name: str, value: str) -> str | None:
        number = _number(value, "INT")
        if number is None:
            return invalid(name, value, "Not a number of type INT")
        fits = number == default or low <= number <= high
        return None if fits else invalid(name, str(number), f"Value must be between {low} and {high} or equal to {default}")

    return check


def ratio(name: str, value: str) -> str | None:
    """A number from 0 to 1."""
    number = double(value)
    if number is None:
        return invalid(name, value, "Not a number of type DOUBLE")
    if number < 0:
        return invalid(name, shown_double(number), "Value must be at least 0")
    return invalid(name, shown_double(number), "Value must be no more than 1") if number > 1 else None


def decimal(name: str, value: str) -> str | None:
    """Any number."""
    return invalid(name, value, "Not a number of type DOUBLE") if double(value) is None else None


def one_of(*words: str) -> Check:
    """One of these words."""

    def check(name: str, value: str) -> str | None:
        word = value.strip()
        return None if word in words else invalid(name, word, f"String must be one of: {', '.join(words)}")

    return check


def list_of(*words: str) -> Check:
    """Some of these words, with commas."""
    single = one_of(*words)

    def check(name: str, value: str) -> str | None:
        for part in split(value):
            wrong = single(name, part) if part else f"Configuration '{name}' values must not be empty."
            if wrong is not None:
                return wrong
        return None

    return check


def any_words(name: str, value: str) -> str | None:
    """Any words, with commas."""
    return f"Configuration '{name}' values must not be empty." if "" in split(value) else None


def boolean(name: str, value: str) -> str | None:
    """true or false, in any case."""
    return None if value.strip().lower() in ("true", "false") else invalid(name, value, "Expected value to be either true or false")


def throttled_replicas(name: str, value: str) -> str | None:
    """`*`, or partition:broker pairs, some of which may be empty."""
    parts = split(value)
    if parts == ["*"] or all(map(_REPLICA.fullmatch, parts)):
        return None
    form = "the literal '*' or a list of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
    return invalid(name, f"[{', '.join(parts)}]", f"{name} must be {form}")


def limits_of_addresses(name: str, value: str) -> str | None:
    """Pairs address:limit."""
    for pair in map(str.strip, java_parts(value) if value else ()):
        _, colon, limit = pair.rpartition(":")
        if not colon:
            return f"Error parsing configuration property '{name}': begin 0, end -1, length {len(pair)}"
        if whole(-INT_MAX - 1, INT_MAX)(name, limit) is not None:
            return f'For input string: "{limit.strip()}"'
    return None


def anything(fits: Callable[[str], bool]) -> Check:
    """A check without an error text of Kafka's own."""
    return lambda name, value: None if fits(value) else f"Invalid value {value} for configuration {name}"


def listed(value: str) -> list[str]:
    """The words of a list, each once."""
    return list(dict.fromkeys(word for word in split(value) if word))


def split(value: str) -> list[str]:
    """The parts of a list; none of an empty text."""
    return [part.strip() for part in value.split(",")] if value.strip() else []


def double(value: str) -> float | None:
    """The number that Java reads (`Double.parseDouble`). None: it reads none."""
    text = value.strip()
    if _DECIMAL.fullmatch(text):
        return float(text if text[-1] in "NaNy" else text.rstrip("fFdD"))
    return float.fromhex(text.rstrip("fFdD") if text[-1] in "fFdD" else text) if _HEXADECIMAL.fullmatch(text) else None


def shown_double(number: float) -> str:
    """As Java writes it (`Double.toString`)."""
    digits, _, exponent = f"{number:e}".partition("e")
    if number == 0 or int(exponent or 0) in _PLAIN or digits[-1].isalpha():
        return {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(str(number), str(number))
    shortest, _, _ = repr(number).partition("e")
    figures = shortest.lstrip("-").replace(".", "").strip("0")
    return f"{'-' if number < 0 else ''}{figures[0]}.{figures[1:] or '0'}E{int(exponent)}"


def java_parts(value: str) -> Sequence[str]:
    """The parts between the commas as Java splits a text: empty ones at the end do not count, but an empty text is one part."""
    return value.rstrip(",").split(",") if value.strip(",") or not value else ()


def invalid(name: str, shown: str, why: str) -> str:
    return f"Invalid value {shown} for configuration {name}: {why}"


def _number(value: str, kind: str) -> int | None:
    text = value.strip()
    digits = text[1:] if text[:1] in ("-", "+") else text
    low, high = TYPES[kind]
    return number if digits.isdecimal() and low <= (number := int(text)) <= high else None
