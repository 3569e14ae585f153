"""Names a process so that a recycled pid is never mistaken for it; Linux only.

A pid alone is reused. Pid, start time (in clock ticks since boot) and the boot's id
together are not; signals go through a pidfd that is opened before the check, so that the
process cannot be replaced between check and signal.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

_STATE, _SESSION, _START_TIME = 0, 3, 19  # fields 3, 6 and 22 of /proc/<pid>/stat, after "(comm)"


@dataclass(frozen=True, slots=True)
class Identity:
    """One process of one boot."""

    pid: int
    start_time: int
    boot_id: str

    @classmethod
    def of(cls, pid: int) -> Identity | None:
        """Return the identity of the process that has ``pid`` now; None where it has ended."""
        fields = _stat(pid)
        if not fields or fields[_STATE] in {"Z", "X"}:
            return None
        return cls(pid, int(fields[_START_TIME]), boot_id())

    @property
    def alive(self) -> bool:
        """Whether this very process runs; a zombie does not."""
        return Identity.of(self.pid) == self

    def signal(self, number: signal.Signals) -> bool:
        """Send a signal to this very process; False where it has ended."""
        try:
            fd = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        try:
            if not self.alive:
                return False
            signal.pidfd_send_signal(fd, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(fd)
        return True

    def session(self) -> tuple[Identity, ...]:
        """Return the processes of the session that this one leads; none where it has ended."""
        pids = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
        members = [Identity.of(pid) for pid in pids if _session(pid) == self.pid]
        return tuple(member for member in members if member) if self.alive else ()


def boot_id() -> str:
    """Return the id of this boot of the machine."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _stat(pid: int) -> list[str]:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    # The command's name stands in parentheses and may itself hold spaces and parentheses.
    return text.rpartition(")")[2].split()


def _session(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[_SESSION]) if fields else 0
