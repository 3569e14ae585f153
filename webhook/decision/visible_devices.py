"""Which cards the containers of a pod may name to NVIDIA's runtime: none but those that the device plugin gives. Pure.

That runtime gives a container the cards that `NVIDIA_VISIBLE_DEVICES` names, and kubelet puts what the pod says behind
what a plugin answers, so the pod's word wins. So it goes from containers that ask for the pool's cards, and the others
are told to see nothing, or an image that asks for every card would get them. What comes by `envFrom` is not seen here.
Containers that another plugin serves are left to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controllers.api import names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

OTHERS: Final = "nvidia.com/"
"""Head of the names of resources that NVIDIA's own device plugin offers."""


def operations(spec: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Operations of a JSON patch on the pod."""
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            env = list(container.get("env") or ())
            wanted = [each for each in env if each.get("name") != names.VISIBLE_DEVICES]
            asked = _asked(container)
            if any(key.startswith(OTHERS) for key in asked):
                continue
            if not any(key.startswith(names.PREFIX) for key in asked):
                wanted.append({"name": names.VISIBLE_DEVICES, "value": names.NO_DEVICES})
            if wanted != env:
                yield {"op": "add", "path": f"/spec/{field}/{index}/env", "value": wanted}


def _asked(container: Mapping[str, Any]) -> set[str]:
    resources = container.get("resources") or {}
    return {*(resources.get("limits") or ()), *(resources.get("requests") or ())}
