"""A DaemonSet of the module around a pod, and what all its pods on nodes have in common. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.runtime.drift import spec_hash

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controllers.components.podspec import Json

ON_EVERY_NODE: Final = {
    "priorityClassName": "system-node-critical",
    # A node that is not ready, cordoned or reserved for a pool is prepared and served all the same.
    "tolerations": [{"operator": "Exists"}],
}
"""Of pods that belong to a node and not to who uses it."""


ROLLING: Final = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}}
ON_DELETE: Final = {"type": "OnDelete"}


def module_labels(component: str, **more: str) -> dict[str, str]:
    """Labels of what belongs to a component: the module's and the component's name, and `more` by their keys."""
    return {
        names.LABEL_HERITAGE: "deckhouse",
        names.LABEL_MODULE: names.MODULE,
        names.LABEL_COMPONENT: component,
        **more,
    }


def build_daemonset(
    name: str,
    labels: Mapping[str, str],
    pod: Json,
    *,
    annotations: Mapping[str, str] | None = None,
    owners: Sequence[Json] = (),
    on_delete: bool = False,
    selector: Mapping[str, str] | None = None,
    revisions: int = 2,
    hashed_pod: Json | None = None,
) -> Json:
    """The whole object but for its name and namespace, with the hash of its spec.

    `labels` are those of the DaemonSet and its pods but for the one of its name; `annotations` those of its pods.
    `on_delete`: a pod stays as it is until somebody deletes it, for whoever would end with it. `selector`: the labels
    by which it knows its pods, where that is not the one of its name. `revisions`: how many former templates are kept.
    `hashed_pod`: the pod by which the hash is taken, where what `pod` has otherwise makes no other DaemonSet of it.
    """
    marked = {**labels, names.LABEL_APP: name}
    template: Json = {"labels": dict(marked)} | ({"annotations": dict(annotations)} if annotations else {})
    spec: Json = {
        "selector": {"matchLabels": {names.LABEL_APP: name} if selector is None else dict(selector)},
        "updateStrategy": ON_DELETE if on_delete else ROLLING,
        "revisionHistoryLimit": revisions,
        "template": {"metadata": template, "spec": pod},
    }
    hashed = spec if hashed_pod is None else spec | {"template": {"metadata": template, "spec": hashed_pod}}
    meta: Json = {"labels": marked, "annotations": {names.SPEC_HASH: spec_hash(hashed)}}
    return {"metadata": meta | ({"ownerReferences": [*owners]} if owners else {}), "spec": spec}
