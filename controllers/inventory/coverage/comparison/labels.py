"""A node's labels against those that the NodeFeatureRule gives it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.inventory.coverage.comparison.result import Issue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.kube import Node

OWNED = {names.LABEL_PRESENT, names.LABEL_DEVICE_COUNT, names.PREFIX + "driver.name"}
OWNED_PARTS = tuple(names.PREFIX + part for part in ("device.", "driver.module.", "kernel.version.", "os."))
RESYNC = (
    "nfd-master puts it right when it next applies its rules (once an hour, and when it starts); where it does not, its"
    " log says why"
)


def owned(key: str) -> bool:
    """Whether a label of a node is the rule's to give, and nobody's to set by hand."""
    return key in OWNED or key.startswith(OWNED_PARTS)


def compare_labels(node: Node, expected: Mapping[str, str]) -> tuple[int, list[Issue]]:
    """How many labels are as expected, and what is said of the others."""
    actual = {key: value for key, value in node.metadata.labels.items() if owned(key)}
    if expected and not actual:
        return 0, [_none(node.name, len(expected))]
    same = {key for key, value in expected.items() if actual.get(key) == value}
    found = [_wrong(key, actual.get(key), expected[key]) for key in sorted(expected.keys() - same)]
    found += [_left_over(node.name, key, actual[key]) for key in sorted(actual.keys() - expected.keys())]
    return len(same), found


def _none(node: str, count: int) -> Issue:
    return Issue(
        reason="NotLabelled",
        about=f"Node {node}",
        found=f"none of the labels of NodeFeatureRule {names.NODE_FEATURE_RULE}",
        expected=f"{count} of them, by what NFD reports of the node",
        todo="see whether nfd-master runs and what its log says of the rule and of this node (a denied label"
        " namespace, an error in a template)",
    )


def _wrong(key: str, value: str | None, expected: str) -> Issue:
    return Issue(
        reason="LabelMissing" if value is None else "LabelDifferent",
        about=key,
        found="no such label" if value is None else value or "an empty value",
        expected=expected or "an empty value",
        todo=RESYNC,
    )


def _left_over(node: str, key: str, value: str) -> Issue:
    return Issue(
        reason="LabelUnexpected",
        about=key,
        found=value or "an empty value",
        expected="no such label",
        todo="what nfd-master does not remove when it next applies its rules was set by hand; remove it with"
        f" kubectl label node {node}, the label and a minus behind it",
    )
