"""A clock that stands still until a test moves it, in place of a module's `time`: nothing is late on a busy machine."""

from __future__ import annotations

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
