"""The time line of a card on its page: who had it, and when something was the matter with it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.views.common import guarded, less
from controllers.explain import timeline as explain

if TYPE_CHECKING:
    from console.records import Row, Seen
    from controllers.api.gpudevice import GPUDevice
    from controllers.explain.timeline import Entry


def timeline(card: GPUDevice, seen: Seen) -> dict[str, Row]:
    """A row for each entry, the newest first; pods of namespaces that may not be read are counted in it."""
    started = {pod.metadata.uid: pod.status.start_time for pod in seen.pods.values() if pod.status.start_time}
    found = explain.entries(card, started)
    return {f"timeline/{len(found) - at}": _row(entry, seen) for at, entry in enumerate(reversed(found))}


def _row(entry: Entry, seen: Seen) -> Row:
    pods = [pod.split("/", 1) for pod in entry.pods]
    shown = [{"namespace": namespace, "pod": name} for namespace, name in pods if seen.may_read(namespace)]
    is_moment = entry.until is not None and entry.until == entry.since
    return less(
        kind="timeline",
        what=entry.what,
        tenancy=entry.is_tenancy,
        since=entry.since,
        until=None if is_moment else entry.until,
        moment=is_moment or None,
        pods=shown,
        hidden=len(pods) - len(shown) or None,
        pool=entry.pool,
        message=guarded(entry.message, seen),
    )
