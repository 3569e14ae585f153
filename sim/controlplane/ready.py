"""Checks whether a process is ready; each check is bounded in time."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

from sim.controlplane.spec import Ready

_TIMEOUT = 2.0
_PERIOD = 0.05


def is_ready(check: Ready) -> bool:
    """Whether all conditions hold now; blocks for some seconds at most."""
    if not all(Path(file).exists() for file in check.files):
        return False
    return all(_answers(url, check) for url in check.urls)


def watch(check: Ready, became_ready: Callable[[], None]) -> Event:
    """Call ``became_ready`` from a thread once the conditions hold; set the event to stop."""
    stop = Event()

    def poll() -> None:
        while not stop.is_set():
            if is_ready(check):
                if not stop.is_set():
                    became_ready()
                return
            stop.wait(_PERIOD)

    # A daemon, since a hanging check must not keep a stopping supervisor.
    Thread(target=poll, daemon=True).start()
    return stop


def _answers(url: str, check: Ready) -> bool:
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    try:
        if url.startswith("https:"):
            context = ssl.create_default_context(cafile=check.ca or None)
            if check.cert:
                context.load_cert_chain(check.cert, check.key)
            handlers.append(urllib.request.HTTPSHandler(context=context))
        opener = urllib.request.build_opener(*handlers)
        with opener.open(url, timeout=_TIMEOUT) as response:
            return bool(response.status == 200)  # noqa: PLR2004 - HTTP's OK
    except (OSError, ValueError, urllib.error.URLError):
        return False
