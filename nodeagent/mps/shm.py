"""The shared memory of a pool's clients and servers of MPS: a file system of its own, in the pool's folder.

Both sides have it as their /dev/shm. It is no container's own, and not the host's: so the pods of one pool can fill it,
and nobody else's.
"""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Final

from nodeagent.host.mpsfiles import SHM

if TYPE_CHECKING:
    from pathlib import Path

OPTIONS: Final = b"size=64m,mode=1777"
"""As large as a container's own /dev/shm is."""
MS_NOSUID_NODEV_NOEXEC: Final = 2 | 4 | 8
MNT_DETACH: Final = 2


def mount(folder: Path) -> None:
    """Mount it where it is not; raises OSError."""
    place = folder / SHM
    place.mkdir(parents=True, exist_ok=True)
    if place.is_mount():
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"shm", os.fsencode(place), b"tmpfs", ctypes.c_ulong(MS_NOSUID_NODEV_NOEXEC), OPTIONS) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(place))


def unmount(folder: Path) -> None:
    """Take it off the host; containers that have it keep it to their end. What is not mounted is no error."""
    ctypes.CDLL(None, use_errno=True).umount2(os.fsencode(folder / SHM), MNT_DETACH)
