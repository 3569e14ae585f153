"""Takes modules out of the kernel and mounts off the host: system calls, since the image has no programs for them."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_DELETE_MODULE: Final = {"x86_64": 176, "aarch64": 106}
_MNT_DETACH: Final = 2
IN_USE: Final = frozenset({errno.EWOULDBLOCK, errno.EBUSY})
"""What the kernel answers where somebody has a module, or it is on its way in or out."""


class Kernel:
    """The running kernel."""

    def __init__(self) -> None:
        """Find the C library of the process itself."""
        self._libc = ctypes.CDLL(None, use_errno=True)

    def unload(self, module: str) -> None:
        """Take a module out, without waiting for who uses it; raises OSError, with one of IN_USE where somebody does.

        A module that is not there is no error.
        """
        number = _DELETE_MODULE.get(platform.machine())
        if number is None:
            raise OSError(errno.ENOSYS, f"delete_module is not known on {platform.machine()}")
        if self._libc.syscall(number, module.encode(), os.O_NONBLOCK) != 0:
            self._complain(module, ignored=errno.ENOENT)

    def unmount(self, path: Path) -> None:
        """Take off a mount with all that is mounted below it, though files of it are open; raises OSError."""
        if self._libc.umount2(os.fsencode(path), _MNT_DETACH) != 0:
            self._complain(str(path), ignored=errno.EINVAL)  # no mount, or no more

    @staticmethod
    def _complain(name: str, ignored: int) -> None:
        code = ctypes.get_errno()
        if code != ignored:
            raise OSError(code, os.strerror(code), name)


@contextmanager
def lock(path: Path) -> Iterator[bool]:
    """Whether the file's lock could be had at once; it is kept until the end. A file that is not there has none."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        yield True
        return
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in IN_USE:
                raise
            yield False
        else:
            yield True
