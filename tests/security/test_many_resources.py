"""A container that names thousands of resources: what our conditions cost the API server."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from tests.templates.harness import asking, eventually, pod, without_webhook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.templates import harness

pytestmark = pytest.mark.cluster
PODS = "/api/v1/namespaces/default/pods"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
MANY = 20_000
GPU = {"name": "gpu", "image": "none", "resources": asking()}


def container(keys: int, **resources: Any) -> dict[str, Any]:
    limits = {f"example.com/k{n}": "1" for n in range(keys)}
    return {"name": "main", "image": "none", "resources": {"limits": {**limits, **resources.get("limits", {})}}}


def created(guarded: harness.Kube, *containers: dict[str, Any]) -> harness.Answer:
    return guarded.create(f"{PODS}?dryRun=All", pod("wide", containers=list(containers)))


def cpu(guarded: harness.Kube, *containers: dict[str, Any]) -> float:
    """The least of three: seconds of the API server's processor."""
    (server,) = (
        process
        for process in psutil.process_iter(["cmdline"])
        if (line := process.info["cmdline"])
        and "kube-apiserver" in line[0]
        and str(guarded.ca.parent) in " ".join(line)
    )
    took = []
    for _ in range(3):
        before = server.cpu_times()
        assert created(guarded, *containers).code in {201, 403}
        after = server.cpu_times()
        took.append(after.user + after.system - before.user - before.system)
    return min(took)


@pytest.fixture
def alone(guarded: harness.Kube) -> Iterator[harness.Kube]:
    """The policies, and no webhook: one that is not there refuses who has to ask it."""
    with without_webhook(guarded):
        yield guarded


@contextmanager
def without_the_policy(kube: harness.Kube) -> Iterator[None]:
    """As if nobody looked at what a pod asks for."""
    name = "gpu-control-plane-pod-asks"
    spec = kube.get(f"{BINDINGS}/{name}").body["spec"]
    assert kube.delete(f"{BINDINGS}/{name}").code == 200
    try:
        eventually(lambda: created(kube, GPU).code == 201, "the policy is still in force")
        yield
    finally:
        kube.create(BINDINGS, {"metadata": {"name": name}, "spec": spec})
        eventually(lambda: created(kube, GPU).code == 403, "the policy is not in force again")


@pytest.mark.parametrize("others", [[], [GPU]], ids=["alone", "beside one that asks"])
def test_it_costs_what_it_costs_without_us(alone: harness.Kube, others: list[dict[str, Any]]) -> None:
    """Of the policy that looks at each pod; with the square of their number it was three times as much."""
    with without_the_policy(alone):
        floor = cpu(alone, container(MANY), *others)
    found = cpu(alone, container(MANY), *others)
    assert found < 2 * floor, f"{found:.2f} s with it, {floor:.2f} s without"


def test_the_webhook_is_asked_about_it_without_a_look(guarded: harness.Kube) -> None:
    for keys in (65, MANY):
        answer = created(guarded, container(keys))
        assert (answer.code, 'failed calling webhook "pods.gpu.deckhouse.io"' in answer.message) == (500, True)
    assert created(guarded, container(64)).code == 201
