"""Compares a role's part of NodeFeature `gpu-<node>` with what is to be there, and makes the writes. Pure.

The NodeFeature has three writers: discover makes it and owns its features, and the two roles of validate add to
`gpu.validation`, a map in which every key has an owner of its own.
A server-side apply takes away what its manager applied before and does not name now, so the roles apply under two
managers (`gpu-nodeagent-validate-driver`, `…-container`): under one, each would remove the other's keys. The account is
one and the same, which is what RBAC and the policies go by.
What somebody else wrote under the role's names is taken out by a merge patch of just those keys.
Role `container` owns `gpu.nvml` beside, a list that each apply replaces as a whole, in the same write as its verdict:
who reads that the container passes finds there what it was told of the cards.

An apply carries the object's uid: a report that was deleted is made anew by discover alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controllers.api import names, validation
from controllers.api.resources import NODEFEATURE
from controllers.runtime.plan import Apply, Merge, ref
from nodeagent.validate.checks import cardfacts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controllers.api.nodefeature import NodeFeature

Cards = list[dict[str, str]]
"""Attributes of each element of `gpu.nvml`; of role `driver` there are none."""


def manager(role: str) -> str:
    """The field manager of a role."""
    return f"{names.MANAGER_VALIDATE}-{role}"


def elements(have: NodeFeature | None, role: str) -> dict[str, str]:
    """What the report says under the role's names."""
    feature = have.spec.features.attributes.validation if have is not None else None
    return validation.of_role(feature.elements, role) if feature is not None else {}


def applies(have: NodeFeature, role: str, want: Mapping[str, str], cards: Cards) -> tuple[Apply, ...]:
    """The apply of the role's part; none where the report says it already."""
    if elements(have, role) == want and _tells(have, role, cards):
        return ()
    return (Apply(ref(NODEFEATURE, have), _body(want, cards)),)


def removals(now: NodeFeature, role: str, want: Mapping[str, str], cards: Cards) -> tuple[Merge, ...]:
    """A merge patch that takes out what the apply has left, since others own it; none where there is nothing."""
    foreign = elements(now, role).keys() - want.keys()
    patch = _body(dict.fromkeys(sorted(foreign)), []) if foreign else {"spec": {"features": {}}}
    if not _tells(now, role, cards):
        patch["spec"]["features"]["instances"] = {names.FEATURE_NVML: None}
    if not patch["spec"]["features"]:
        return ()
    return (Merge(ref(NODEFEATURE, now), now.metadata.resource_version, patch),)


def _tells(have: NodeFeature, role: str, cards: Sequence[Mapping[str, str]]) -> bool:
    """Whether the report says of the cards what this role has to say."""
    return role != validation.CONTAINER or cardfacts.same(have.spec.features.instances.nvml, cards)


def _body(told: Mapping[str, str | None], cards: Cards) -> dict[str, Any]:
    features: dict[str, Any] = {"attributes": {names.FEATURE_VALIDATION: {"elements": dict(told)}}}
    if cards:
        features["instances"] = {names.FEATURE_NVML: {"elements": [{"attributes": each} for each in cards]}}
    return {"spec": {"features": features}}
