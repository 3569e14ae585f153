"""The pages: what each shows, as rows of plain values. Pure.

Every row has `kind`. Rows of kind `hidden` {of, count} and `refused` {of, text} say what the viewer may not read, and
`missing` {of, name, text} is the only other row of a page about something that is not there. Times are RFC 3339.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from console.records import View
from console.views import broken, card, confirm, fleet, pod, pool

if TYPE_CHECKING:
    from collections.abc import Mapping

VIEWS: Final[Mapping[str, View]] = {
    view.name: view
    for view in (
        View("fleet", fleet.rows, pods=False, following=lambda: fleet.Fleet().rows),
        View("pool", pool.rows, ("pool",)),
        View("pod", pod.rows, ("namespace", "pod")),
        View("card", card.rows, ("card",)),
        View("confirm", confirm.rows, pods=False),
        View("broken", broken.rows),
    )
}
"""By the name in the URL."""
