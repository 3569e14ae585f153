"""The audit log while it grows: waiting until a process has asked for something."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from controllers.api import names
from tests.kit.waiting import PATIENCE
from tests.rbac import audit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from pathlib import Path

    from tests.rbac.audit import Use

Wanted = tuple[str, str, str]
"""Account, verb, resource."""


class Log:
    """One API server's log, read as far as it is written."""

    def __init__(self, path: Path) -> None:
        self._path, self._read = path, 0
        self.uses: set[Use] = set()

    def refresh(self) -> set[Use]:
        """Everything asked for so far."""
        with self._path.open("rb") as file:
            file.seek(self._read)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]  # the last line may be half written
        self._read += len(whole)
        self.uses |= audit.read(whole, names.NAMESPACE)
        return self.uses

    def missing(self, wanted: Iterable[Wanted], namespace: str | None = None) -> list[Wanted]:
        """Those of the requests that nobody has made yet under his own name, anywhere or in that namespace."""
        made = {
            (use.account, use.verb, use.resource)
            for use in self.refresh()
            if use.program == use.account and namespace in (None, use.namespace)
        }
        return [each for each in wanted if each not in made]

    async def seen(self, wanted: Iterable[Wanted], seconds: float) -> None:
        """Give them the time to ask; whoever has not by then is still `missing`."""
        wanted, deadline = tuple(wanted), time.monotonic() + seconds
        while self.missing(wanted):
            if time.monotonic() > deadline:
                return
            await asyncio.sleep(0.1)

    async def shows(
        self,
        wanted: Iterable[Wanted],
        again: Callable[[], Awaitable[None]],
        seconds: float = PATIENCE,
        namespace: str | None = None,
    ) -> None:
        """Do something again until all of the requests have been made; for what only a race brings about."""
        wanted, deadline = tuple(wanted), time.monotonic() + seconds
        while left := self.missing(wanted, namespace):
            assert time.monotonic() < deadline, f"never asked in {seconds} s: {left}"
            await again()
            await asyncio.sleep(0)
