"""What gpu-bootstrap-controller may change in a GPUDevice beside its status: it removes one annotation."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api import names
from tests.templates import harness
from tests.templates.harness import GROUP

pytestmark = pytest.mark.cluster
RETURN, ASSIGNMENT = names.RETURN, names.ASSIGNMENT
DEVICES = f"{GROUP}/gpudevices"


@pytest.fixture
def card(kube: harness.Kube) -> str:
    """A card with annotations, labels and nobody's finalizer."""
    path = f"{DEVICES}/marked"
    kube.delete(path)
    meta = {"name": "marked", "annotations": {RETURN: "true", ASSIGNMENT: "a"}, "labels": {"x": "y"}}
    body = {"apiVersion": "gpu.deckhouse.io/v1alpha1", "kind": "GPUDevice", "metadata": meta}
    assert kube.create(DEVICES, body).code == 201
    return path


def test_it_takes_a_command_off(kube: harness.Kube, card: str) -> None:
    answer = kube.account("gpu-bootstrap-controller").merge(card, {"metadata": {"annotations": {RETURN: None}}})
    assert answer.code == 200
    assert RETURN not in kube.get(card).body["metadata"]["annotations"]


@pytest.mark.parametrize(
    "change",
    [
        {"annotations": {ASSIGNMENT: None}},
        {"annotations": {ASSIGNMENT: "b"}},
        {"annotations": {RETURN: "again"}},
        {"annotations": {"more": "x"}},
        {"labels": {"x": "z"}},
        {"labels": {"x": None}},
        {"finalizers": ["a.example.com/b"]},
    ],
)
def test_it_changes_nothing_else(kube: harness.Kube, card: str, change: dict[str, Any]) -> None:
    answer = kube.account("gpu-bootstrap-controller").merge(card, {"metadata": change})
    assert answer.code == 403
    assert "gpu-bootstrap-controller may not change " in answer.message
    assert f"it may remove annotation {RETURN}" in answer.message


def test_people_may(kube: harness.Kube, card: str) -> None:
    assert kube.merge(card, {"metadata": {"annotations": {ASSIGNMENT: None, RETURN: "no"}}}).code == 200
