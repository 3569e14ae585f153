"""`GPUDevice.status.history`: the tenancies that ended, in a ring by the time of their end. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api.gpudevice import HISTORY_MAX
from controllers.api.record import to_json

if TYPE_CHECKING:
    from controllers.gpupool.views import ObservedCard


def write_ended(view: ObservedCard) -> dict[str, object]:
    """The history as a part of a status, with what ended of late; nothing where all of that is in it."""
    device = view.device
    # Of a remembered card only inventory writes anything, until it is recognised.
    if not view.ended or device.is_remembered:
        return {}
    # A pod has one entry: kubelet may report no allocation for a moment, and its end is the last one.
    ended = {each.uid for each in view.ended}
    kept = [each for each in device.status.history if each.uid not in ended]
    made = tuple(sorted((*kept, *view.ended), key=lambda each: (each.until, each.uid))[-HISTORY_MAX:])
    return {} if made == device.status.history else {"history": [to_json(each) for each in made]}
