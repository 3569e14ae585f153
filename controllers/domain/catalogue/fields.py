"""Reads entries of the catalogue's files strictly: a slip is a ValueError that names file, entry and mistake."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")

ID = re.compile("[0-9a-f]{4}")
"""A vendor, device or class id."""
SUBSYSTEM = re.compile("[0-9a-f]{4}:[0-9a-f]{4}")
VERSION = re.compile(r"(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class Entry:
    """One table of a file; every key of it must be asked for."""

    file: str
    name: str
    values: Mapping[str, Any]

    def wrong(self, what: str) -> NoReturn:
        """Refuse the entry; raises ValueError."""
        raise ValueError(f"{self.file}: {self.name}: {what}")

    def only(self, *keys: str) -> None:
        """Refuse keys that mean nothing here: most are misspelt."""
        if extra := sorted(self.values.keys() - set(keys)):
            self.wrong(f"unknown key {', '.join(extra)}; known are {', '.join(keys)}")

    def optional(self, key: str, kind: type[T]) -> T | None:
        """The value of that type; None where the key is absent."""
        value = self.values.get(key)
        # A bool is an int for Python, and never meant as one here.
        if value is not None and (not isinstance(value, kind) or isinstance(value, bool) is not (kind is bool)):
            self.wrong(f"{key}: expected {kind.__name__}, found {value!r}")
        return value

    def required(self, key: str, kind: type[T]) -> T:
        """The value of that type, which must be there."""
        value = self.optional(key, kind)
        if value is None:
            self.wrong(f"{key} is missing")
        return value

    def text(self, key: str, pattern: re.Pattern[str] | None = None) -> str:
        """A text that is not empty and, where asked for, of that form."""
        value = self.required(key, str)
        if not value or (pattern and not pattern.fullmatch(value)):
            self.wrong(f"{key}: {value!r} is not of the form {pattern.pattern if pattern else 'of a word'}")
        return value

    def count(self, key: str) -> int:
        """A number from 1 on."""
        value = self.required(key, int)
        if value < 1:
            self.wrong(f"{key}: {value} is not a number from 1 on")
        return value

    def texts(self, key: str, pattern: re.Pattern[str] | None = None) -> tuple[str, ...]:
        """A list of different texts of that form."""
        value = self.required(key, list)
        for item in value:
            if not isinstance(item, str) or not item or (pattern and not pattern.fullmatch(item)):
                self.wrong(f"{key}: {item!r} is not of the form {pattern.pattern if pattern else 'of a word'}")
        self._different(key, value)
        return tuple(value)

    def numbers(self, key: str) -> tuple[int, ...]:
        """A rising list of numbers from 0 on."""
        value = self.required(key, list)
        if not value or any(type(item) is not int or item < 0 for item in value):
            self.wrong(f"{key}: {value!r} is not a list of numbers from 0 on")
        self._different(key, value)
        if sorted(value) != value:
            self.wrong(f"{key}: {value!r} does not rise")
        return tuple(value)

    def _different(self, key: str, value: list[Any]) -> None:
        if twice := sorted({str(item) for item in value if value.count(item) > 1}):
            self.wrong(f"{key}: {', '.join(twice)} is there twice")
