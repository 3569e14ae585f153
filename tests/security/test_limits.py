"""What the API server itself refuses of objects that are too large, and lets pass of pods that are merely large."""

from __future__ import annotations

import ssl
import urllib.error
from typing import TYPE_CHECKING, Any

import pytest

from controllers.api import names
from controllers.api.resources import NODEFEATURE
from tests.kit.manifests import manifest
from tests.kit.reports import feature, features
from tests.templates.harness import FEATURES, GROUP, pod
from tests.templates.test_status_owners import ALLOCATION, RESERVATION

if TYPE_CHECKING:
    from tests.templates import harness

pytestmark = pytest.mark.cluster
DRY = "?dryRun=All"
CARD = f"{GROUP}/gpudevices/card-a"
PODS = f"/api/v1/namespaces/default/pods{DRY}"
MIB = 1 << 20


@pytest.mark.parametrize("size", [MIB, 256 * 1024 + 1])
def test_annotations_of_one_object_are_a_quarter_of_a_megabyte_at_most(guarded: harness.Kube, size: int) -> None:
    meta = {"annotations": {"example.com/flood": "x" * size}}
    for answer in (
        guarded.merge(f"{CARD}{DRY}", {"metadata": meta}),
        guarded.merge(f"{GROUP}/gpupools/pool-a{DRY}", {"metadata": meta}),
        guarded.create(PODS, {**pod("big"), "metadata": {"name": "big", **meta}}),
    ):
        assert answer.code == 422, answer.message
        assert "262144 bytes" in answer.message


ALLOCATED = [{**ALLOCATION, "podUID": str(n)} for n in range(257)]
PROMISED = [{**RESERVATION, "requestID": str(n)} for n in range(65)]
LONG: list[tuple[str, dict[str, Any]]] = [
    (names.WEBHOOK, {"reservations": PROMISED}),
    (names.WEBHOOK, {"reservations": [{**RESERVATION, "pod": "p" * MIB}]}),
    (names.MANAGER_PLUGIN, {"allocations": ALLOCATED}),
    (names.MANAGER_PLUGIN, {"allocations": [{**ALLOCATION, "pod": "p" * 300}]}),
    (names.MANAGER_PLUGIN, {"published": {"pool": "p" * 100, "configVersion": "1", "slots": 1}}),
    (names.WEBHOOK, {"reservations": [{**RESERVATION, "slots": 65}]}),
    (names.MANAGER_PLUGIN, {"allocations": [{**ALLOCATION, "slots": 1 << 62}]}),
    (names.MANAGER_PLUGIN, {"published": {"pool": "pool-a", "configVersion": "1", "slots": 65}}),
    (names.MANAGER_MIG, {"migApply": {"version": "1", "phase": "Failed", "reason": "x" * MIB}}),
]


@pytest.mark.parametrize(
    ("who", "status"), LONG, ids=[f"{at} {who} {next(iter(one))}" for at, (who, one) in enumerate(LONG)]
)
def test_nobody_makes_a_card_heavy(guarded: harness.Kube, who: str, status: dict[str, Any]) -> None:
    """Its owners neither: a card's status is in the memory of four processes."""
    node = None if who == names.WEBHOOK else "node-a"
    answer = guarded.account(who, node).merge(f"{CARD}/status{DRY}", {"status": status})
    assert answer.code == 422, answer.message
    assert any(word in answer.message for word in ("Too long", "Too many", "should be less than or equal to 64"))


def test_a_report_of_four_megabytes_is_refused(guarded: harness.Kube) -> None:
    elements = {f"k{n}": "x" * 1000 for n in range(4000)}
    told = features({names.FEATURE_AGENT: elements})
    body = manifest(feature("gpu-node-a", "node-a", told), NODEFEATURE)
    try:
        answer = guarded.account(names.MANAGER_DISCOVER, "node-a").create(FEATURES, body)
    except urllib.error.URLError as error:  # it hangs up when it has read enough: who still sends may see that first
        if not isinstance(error.reason, (BrokenPipeError, ConnectionResetError, ssl.SSLEOFError)):
            raise
    else:
        assert answer.code == 413, answer.message
    assert guarded.get(f"{FEATURES}/gpu-node-a").code == 404


def test_a_pod_of_two_thousand_containers_that_asks_for_nothing_is_left_alone(guarded: harness.Kube) -> None:
    """With the webhook dead, and within what the API server lets an expression cost."""
    limits = {f"example.com/{n}": "1" for n in range(20)}
    body = pod(
        "wide", containers=[{"name": f"c{n}", "image": "x", "resources": {"limits": limits}} for n in range(2000)]
    )
    body["metadata"]["labels"] = {f"example.com/{n}": "x" for n in range(1000)}
    answer = guarded.create(PODS, body)
    assert answer.code == 201, answer.message[:500]


def test_a_pod_of_a_thousand_pools_waits_for_the_webhook_as_any_other(guarded: harness.Kube) -> None:
    limits = {names.resource_name(f"p{n}"): "1" for n in range(1000)}
    body = pod("many", containers=[{"name": "main", "image": "x", "resources": {"limits": limits}}])
    answer = guarded.create(PODS, body)
    assert answer.code == 500
    assert 'failed calling webhook "pods.gpu.deckhouse.io"' in answer.message
