"""Compares the NodeFeature in the cluster with the one that is to be there. Pure.

Others may write in the same object (the validator adds `gpu.validation`), and that is theirs. In our
own features and our label the agent has the only say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.api.nodefeature import NodeFeature
from controllers.api.record import adapter

if TYPE_CHECKING:
    from collections.abc import Mapping

_FIELDS = {
    names.FEATURE_DRIVER: "driver",
    names.FEATURE_TOOLKIT: "toolkit",
    names.FEATURE_AGENT: "agent",
    names.FEATURE_SYSTEM: "system",
}
OURS = tuple(_FIELDS)


def same(have: NodeFeature | None, node: str, features: Mapping[str, Any]) -> bool:
    """Whether an object says of our features what it should."""
    want: NodeFeature = adapter(NodeFeature).validate_python({"spec": {"features": features}})
    return (
        have is not None
        and have.node == node
        and have.spec.features.instances.cards == want.spec.features.instances.cards
        and all(_elements(have, name) == _elements(want, name) for name in OURS)
    )


def body(node: str, features: Mapping[str, Any]) -> dict[str, Any]:
    """What is applied: our features and the label by which NFD, and inventory, know the node."""
    return {"metadata": {"labels": {names.NFD_NODE_NAME: node}}, "spec": {"features": features}}


def removal(have: NodeFeature, features: Mapping[str, Any]) -> dict[str, Any]:
    """A merge patch that takes out what others put into our features.

    An apply gives back what is ours and leaves what another manager added: without this, a key
    added by hand would be found, and applied against in vain, for ever.
    """
    foreign: dict[str, Any] = {}
    for name in OURS:
        wanted = features["attributes"].get(name)
        extra = (_elements(have, name) or {}).keys() - (wanted["elements"] if wanted else {})
        if wanted is None and _elements(have, name) is not None:
            foreign[name] = None
        elif extra:
            foreign[name] = {"elements": dict.fromkeys(sorted(extra))}
    return {"spec": {"features": {"attributes": foreign}}} if foreign else {}


def _elements(report: NodeFeature, name: str) -> Mapping[str, str] | None:
    feature = getattr(report.spec.features.attributes, _FIELDS[name])
    return feature.elements if feature is not None else None
