"""Has the runtime read its files anew: by a signal, or by a restart when no container is being created.

Containers go on: their shims do not end with it. One that is just being made may stay as it is for ever, so a moment
without any is waited for.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from nodeagent.host import hostfiles
from nodeagent.toolkit import inside
from nodeagent.toolkit.config.sources import Refused
from nodeagent.toolkit.cri import RuntimeUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event

    from nodeagent.toolkit.host import Server
    from nodeagent.toolkit.kinds.base import Kind

log = structlog.get_logger()
RELOAD_SECONDS: Final = 5.0
"""Until a reload shows."""
SYSTEMCTL: Final = ("/usr/bin/systemctl", "/bin/systemctl", "/run/current-system/sw/bin/systemctl")


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds."""

    quiet: float = 10.0
    """Without a container that is being made, before a restart."""
    busy: float = 300.0
    """After which it is restarted though one is: one that is stuck would hold it up for ever."""
    serving: float = 90.0
    """Until a restarted runtime has to serve."""
    poll: float = 0.5
    """Between two looks."""


def reload_by_signal(server: Server, holds: Callable[[], bool]) -> bool:
    """Have a process read its files by SIGHUP; whether `holds` is true soon. One that does not answer is asked anew."""
    with suppress(ProcessLookupError):
        os.kill(server.pid, signal.SIGHUP)
    end = time.monotonic() + RELOAD_SECONDS
    while True:
        with suppress(RuntimeUnavailable):
            if holds():
                return True
        if time.monotonic() >= end:
            return False
        time.sleep(0.1)


def wait_until_quiet(kind: Kind, timeouts: Timeouts, stopping: Event) -> None:
    """Return when no container has been created for a while; raises RuntimeUnavailable, also at the program's end."""
    end = time.monotonic() + timeouts.busy
    since = time.monotonic()
    while time.monotonic() < end:
        if kind.making():
            since = time.monotonic()
        elif time.monotonic() - since >= timeouts.quiet:
            return
        if stopping.wait(timeouts.poll):
            raise RuntimeUnavailable(
                "told to end before the runtime was restarted; the next run undoes the change, and makes it"
            )
    log.warning("containers have been in the making all the time; the runtime is restarted all the same")


def restart(kind: Kind, server: Server | None, timeouts: Timeouts, unit: str = "") -> bool:
    """Start it anew; whether another process then serves.

    `server`: the one that serves now, if any. `unit`: systemd's, of the one that served before.
    """
    if server is None and unit:
        _by_systemd(kind, unit, timeouts)  # one that failed too often is not started by itself any more
    if server is not None:
        if server.unit:
            _by_systemd(kind, server.unit, timeouts)
        # Where systemd was not asked, or says that it did and did not, as in a root that it takes for another's.
        # Whatever started it starts what ended again.
        with suppress(ProcessLookupError, Refused):
            if kind.server().pid == server.pid:
                os.kill(server.pid, signal.SIGTERM)
    return wait_until_serving(kind, server.pid if server is not None else 0, timeouts)


def wait_until_serving(kind: Kind, but: int, timeouts: Timeouts) -> bool:
    """Whether a process other than `but` answers in time."""
    end = time.monotonic() + timeouts.serving
    while time.monotonic() < end:
        with suppress(Refused, RuntimeUnavailable, OSError):
            if kind.server().pid != but and kind.serves():
                return True
        time.sleep(timeouts.poll)
    return False


def _by_systemd(kind: Kind, unit: str, timeouts: Timeouts) -> None:
    found = next((path for path in SYSTEMCTL if hostfiles.inside(kind.root, path) is not None), None)
    if found is not None:
        for verb in ("reset-failed", "restart"):
            with suppress(TimeoutError):
                inside.run(kind.root, [found, verb, unit], timeouts.serving)
