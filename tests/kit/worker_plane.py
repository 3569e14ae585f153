"""The control plane that a worker of the tests has: one at a time, however many rooms it goes through.

A room's fixture asks for its plane by a name and says how one is made; files that ask by the same name share one. Who
asks by another name gets a new one, and the last is ended first: what a room leaves behind cannot reach the next, and
a worker holds the memory of one. Why no plane is wiped and handed on is in docs/dev/adr/0022.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

T = TypeVar("T")


class WorkerPlane:
    """One worker's; lives as long as it, and is asked by module-scoped fixtures alone."""

    def __init__(self, folder: Callable[[], Path]) -> None:
        """`folder`: makes an empty folder."""
        self._folder, self._stack = folder, ExitStack()
        self._has: object = None
        self.name = ""
        """What is up, as it was asked for; empty for nothing."""

    def take(self, name: str, make: Callable[[Path], AbstractContextManager[T]]) -> T:
        """What is up by that name, or a new one; `make` is entered in an empty folder, and left when another comes."""
        if name != self.name:
            self.clear()
            self._has = self._stack.enter_context(make(self._folder()))
            self.name = name
        return cast("T", self._has)

    def clear(self) -> None:
        """End what is up."""
        self.name = ""
        self._stack.close()
