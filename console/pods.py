"""Pods as the console reads them: what explains them, and of those on no node what the scheduler decides by."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field

from controllers.api import bounds
from controllers.api.record import record
from controllers.api.whole_pod import PodTerm, WholeAffinity, WholeContainer, WholePod, WholeSpec
from controllers.explain.records import SeenPod

AMOUNTS_MAX: Final = 2000
"""Requests, limits and ports of all containers together that are kept of a pod; ordinary ones have a few dozen."""
_SOME: Final = (PodTerm(),)
"""Stands for any demands on other pods: verdicts ask only whether there are some."""


def _unbound(found: Any) -> Any:
    """The spec of a pod that is on no node yet; of others nobody asks where they could go."""
    return None if isinstance(found, dict) and found.get("nodeName") else found


def _bounded(spec: WholeSpec | None) -> WholeSpec | None:
    """What is kept of it: nothing where its author wrote more than anybody needs."""
    if spec is None or bounds.excess(spec, bounds.KEPT) is not None or _amounts(spec) > AMOUNTS_MAX:
        return None
    strict = tuple(each for each in spec.topology_spread_constraints if each.when_unsatisfiable == "DoNotSchedule")
    return replace(spec, affinity=_brief(spec.affinity), topology_spread_constraints=strict[:1])


def _amounts(spec: WholeSpec) -> int:
    every: tuple[WholeContainer, ...] = (*spec.containers, *spec.init_containers)
    asked = (len(each.resources.requests) + len(each.resources.limits) + len(each.ports) for each in every)
    return sum(asked) + len(spec.overhead) + len(spec.resources.requests) + len(spec.resources.limits)


def _brief(affinity: WholeAffinity | None) -> WholeAffinity | None:
    if affinity is None or not (affinity.pod_affinity or affinity.pod_anti_affinity):
        return affinity
    near, away = (_SOME if found else () for found in (affinity.pod_affinity, affinity.pod_anti_affinity))
    return replace(affinity, pod_affinity=near, pod_anti_affinity=away)


@record
class ShownPod(SeenPod):
    """A pod with what explains it."""

    asks: Annotated[WholeSpec | None, BeforeValidator(_unbound), AfterValidator(_bounded), Field(alias="spec")] = None
    """By what the scheduler decides about a pod on no node yet; None of others, and of one with more than is kept."""

    @property
    def whole(self) -> WholePod | None:
        """The pod as verdicts on nodes take it; None where they cannot be made."""
        return None if self.asks is None else WholePod(metadata=self.metadata, spec=self.asks)
