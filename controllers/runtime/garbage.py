"""Python's garbage collector while caches are filled: their objects are frozen, so it does not scan them again.

Python looks through all objects whenever there are a quarter more of them than the last time,
which while 64,000 cards come is a dozen times, and at the end stalls the event loop for 0.3 s.
Cached objects refer to nothing that refers to them, so there is nothing to be found.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

FULL_AFTER = 500
"""Collections of what is young before a full one: three million objects, twice what 80,000 cards and their nodes are.

Not never: a process that cannot fill its caches for a day must not keep what its tries leave behind.
"""


@contextmanager
def caches_filling() -> Iterator[None]:
    """Put full collections off inside the block; what is there at its end is left alone for ever."""
    young, middle, old = gc.get_threshold()
    gc.set_threshold(young, middle, FULL_AFTER)
    try:
        yield
        gc.freeze()
    finally:
        gc.set_threshold(young, middle, old)
