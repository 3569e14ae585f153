"""A clock that stands still until a test moves it, in place of a module's `time`: nothing is late on a busy machine."""

from __future__ import annotations

import asyncio
import time
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


class Clock:
    """Seconds of its own; the wall clock stays what it is."""

    def __init__(self, patch: pytest.MonkeyPatch, *modules: ModuleType) -> None:
        """Let these modules, which `import time`, read it."""
        self.now = 1000.0
        for module in modules:
            patch.setattr(module, "time", self)

    def monotonic(self) -> float:
        """What the test has made it."""
        return self.now

    perf_counter = monotonic
    time = staticmethod(time.time)


class LoopClock:
    """The clock of the running event loop, which stands still until a test moves it: its timeouts end by that alone."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        """Take the place of the loop's clock."""
        loop = asyncio.get_running_loop()
        self.now = loop.time()
        patch.setattr(loop, "time", lambda: self.now)
