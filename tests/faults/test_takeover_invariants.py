"""Each invariant of another program's plugin can fail: a bad trace is told of, a good one is not."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api import names
from controllers.domain.driver.variant import ADOPTED
from reliability.faults.takeover_invariants import LET_GO
from tests.faults import test_driver_invariants as drivers
from tests.faults.test_invariants import device, told

OFFERED = device(poolRef={"name": "p"}, published={"pool": "p", "slots": 1})
FREE = device(poolRef={"name": "p"})


def node(**allocatable: str) -> dict[str, Any]:
    keys = {"theirs": "nvidia.com/gpu", "parts": "nvidia.com/mig-1g.5gb", "ours": "gpu.deckhouse.io/p"}
    listed = {keys[name]: amount for name, amount in allocatable.items()}
    return {"metadata": {"name": "n", "uid": "u-n"}, "spec": {}, "status": {"allocatable": {"cpu": "4"} | listed}}


def pod(resource: str = "nvidia.com/gpu", *, restarts: int = 0, **more: Any) -> dict[str, Any]:
    meta = {"name": "x", "namespace": "team", "uid": "u-x", **more.pop("meta", {})}
    container = {"name": "main", "resources": {"limits": {resource: "1"}}}
    status = {"phase": "Running", "containerStatuses": [{"restartCount": restarts}], **more}
    return {"metadata": meta, "spec": {"nodeName": "n", "containers": [container]}, "status": status}


def test_a_node_that_goes_from_plugin_to_plugin_is_well() -> None:
    assert not told(
        *(("Node", node(theirs="4"), 0), ("GPUDevice", FREE, 0), ("Node", node(theirs="0"), 0)),
        *(("GPUDevice", OFFERED, 0), ("Node", node(theirs="0", ours="1"), 0)),
    )


@pytest.mark.parametrize("theirs", [{"theirs": "4"}, {"parts": "2"}])
def test_a_card_that_two_plugins_offer_is_told_once(theirs: dict[str, str]) -> None:
    both = [("Node", node(**theirs), 0), ("GPUDevice", OFFERED, 0)]
    for steps in (both, both[::-1]):
        (said,) = told(*steps, ("Node", node(**theirs, ours="1"), 0))
        assert "two plugins offer the cards of node n: nvidia.com/" in said
        assert "n-1 for p" in said
    (said,) = told(("Node", node(**theirs, ours="1"), 0))
    assert "gpu.deckhouse.io/p: 1" in said, "kubelet's own word is enough"


@pytest.mark.parametrize(
    ("revision", "words"),
    [
        (("-Pod", pod(), 0), "is ended though nobody has let it go"),
        (("Pod", pod(meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}), 0), "is ended though nobody"),
        (("Pod", pod(phase="Failed"), 0), "is Failed though nobody"),
        (("Pod", pod(restarts=1), 0), "a container of it starts again"),
    ],
)
def test_a_pod_with_cards_that_does_not_run_on_is_told(revision: tuple[str, Any, float], words: str) -> None:
    (said,) = told(("Pod", pod(), 0), revision)
    assert words in said


def test_a_pod_that_is_let_go_or_has_no_card_of_theirs_may_end() -> None:
    free = pod(meta={"annotations": {LET_GO: "true"}})
    assert not told(("Pod", pod(), 0), ("Pod", free, 0), ("-Pod", free, 0))
    other = pod("gpu.deckhouse.io/p")
    assert not told(("Pod", other, 0), ("-Pod", other, 0))


def test_a_label_of_a_driver_that_is_given_over_is_there_with_its_pod() -> None:
    marks = {"name": "d", "uid": "u-d", "labels": {names.DRIVER_ADOPTED: "true"}}
    given = {"metadata": marks | {"namespace": "gpu-operator"}, "spec": {"nodeName": "n"}}
    assert not told(
        ("Pod", given, 0), ("Node", drivers.node(ADOPTED), 1), ("-Pod", given, 2), ("Node", drivers.node(), 3)
    )
    assert f"its label turns from None to {ADOPTED}" in told(("Node", drivers.node(ADOPTED), 0))[0]
    assert (
        f"its label turns from {ADOPTED} to None"
        in told(("Pod", given, 0), ("Node", drivers.node(ADOPTED), 1), ("Node", drivers.node(), 2))[0]
    ), "nor does it go while the pod is there"
