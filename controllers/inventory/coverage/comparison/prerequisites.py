"""What everything else rests on: NFD, and our rule in it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.wording import listed
from controllers.inventory.coverage.comparison.result import Issue
from controllers.inventory.rule import node_feature_rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controllers.inventory.coverage.comparison.records import ClusterState

OBJECT = f"NodeFeatureRule {names.NODE_FEATURE_RULE}"
SHOWN = 4


def findings(seen: ClusterState) -> list[Issue]:
    """What is wrong with the cluster as a whole, the gravest first."""
    found = [] if seen.nfd and seen.rules else [_no_nfd(seen)]
    if seen.rules and (changed := _rule(seen)) is not None:
        found.append(changed)
    return found + [_unreadable(name, why) for name, why in seen.unreadable]


def _no_nfd(seen: ClusterState) -> Issue:
    kinds = [kind for kind, served in (("NodeFeature", seen.nfd), ("NodeFeatureRule", seen.rules)) if not served]
    return Issue(
        reason="NFDNotServed",
        about="Node Feature Discovery",
        found=f"the API server does not serve {' and '.join(kinds)}",
        expected="both, in nfd.k8s-sigs.io/v1alpha1",
        todo="install Node Feature Discovery (0.15 or newer) with its CRDs",
    )


def _rule(seen: ClusterState) -> Issue | None:
    keeper = f"{names.INVENTORY} makes and keeps it: see whether it runs, and its log"
    wanted = node_feature_rule.manifest()["spec"]["rules"]
    if seen.rule is None:
        expected = f"{len(wanted)} rules, by which NFD labels nodes"
        return Issue(reason="RuleAbsent", about=OBJECT, found="no such object", expected=expected, todo=keeper)
    found = seen.rule.spec.get("rules")
    if found == wanted:
        return None
    return Issue(
        reason="RuleChanged",
        about=OBJECT,
        found=_difference(found, wanted),
        expected="the rules of this version of the module",
        todo=keeper,
    )


def _difference(found: object, wanted: Sequence[dict[str, object]]) -> str:
    """Which rules are others, by name."""
    rules = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    ours = {str(one["name"]): one for one in wanted}
    theirs = {str(one.get("name")): one for one in rules}
    parts = {
        "without": [name for name in ours if name not in theirs],
        "changed": [name for name in ours if name in theirs and theirs[name] != ours[name]],
        "added": [name for name in theirs if name not in ours],
    }
    words = [f"{word}: {listed(names_, SHOWN)}" for word, names_ in parts.items() if names_]
    return "; ".join(words) or "the same rules, in another order or twice"


def _unreadable(name: str, why: str) -> Issue:
    return Issue(
        reason="Unreadable",
        about=name,
        found=why,
        expected="an object of the kind's usual form",
        todo="correct it or delete it: who made it is in its metadata.managedFields",
    )
