"""A release goes: its clean-up can be run again where it failed, and the namespace stays."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.worker_plane import WorkerPlane
from tests.templates import harness

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.cluster
RELEASE = "gpu-control-plane"
JOB = f"/apis/batch/v1/namespaces/{harness.NAMESPACE}/jobs/gpu-cleanup"
NOW = "2026-01-01T00:00:00Z"
SECONDS = 180
CHART = str(harness.ROOT)
SETS = ("--no-hooks", f"--set=gpuControlPlane.webhook.url={harness.DEAD_WEBHOOK}")


@pytest.fixture
def plane(worker_plane: WorkerPlane, request: pytest.FixtureRequest) -> harness.Kube:
    """An API server of the test's own, and nothing that would run a Job."""
    return worker_plane.take(request.node.name, harness.scratch)


def helm(kube: harness.Kube, verb: str, *args: str) -> subprocess.Popen[str]:
    """Helm at work on the release, which lives in another namespace than the module."""
    command = [kube.binaries["helm"], verb, RELEASE, *args, f"--kubeconfig={kube.kubeconfig}", "--namespace=default"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def said(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Its exit status and what it printed."""
    text, _ = process.communicate(timeout=SECONDS)
    return process.returncode, text


def complete(kube: harness.Kube, before: str) -> None:
    """What the Job's controller says of a Job that is another than `before` and has done its work."""
    found: dict[str, Any] = {}

    def is_new() -> bool:
        found.update(kube.get(JOB).body)
        return found.get("kind") == "Job" and found["metadata"]["uid"] != before

    harness.eventually(is_new, "the clean-up's Job is not made anew", SECONDS)
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": NOW} for kind in ("SuccessCriteriaMet", "Complete")
    ]
    status = {"startTime": NOW, "completionTime": NOW, "succeeded": 1, "conditions": conditions}
    answer = kube.merge(f"{JOB}/status", {"status": status})
    assert answer.code == 200, answer.message


def begun(kube: harness.Kube) -> str:
    """The release is installed, and its clean-up fails; the uid of its Job."""
    status, text = said(helm(kube, "install", CHART, *SETS))
    assert status == 0, text
    status, text = said(helm(kube, "uninstall", "--timeout=5s"))
    assert status != 0, text
    status, text = said(helm(kube, "upgrade", CHART, *SETS))
    assert status != 0
    assert "has no deployed releases" in text
    return str(kube.get(JOB).body["metadata"]["uid"])


def deployments(kube: harness.Kube) -> set[str]:
    """Those of the module, by name."""
    found = kube.get(f"/apis/apps/v1/namespaces/{harness.NAMESPACE}/deployments").body["items"]
    return {item["metadata"]["name"] for item in found}


def test_a_clean_up_that_failed_is_run_by_uninstalling_again_and_the_namespace_stays(plane: harness.Kube) -> None:
    failed = begun(plane)
    again = helm(plane, "uninstall", f"--timeout={SECONDS}s")
    try:
        complete(plane, failed)
    except AssertionError:
        again.kill()
        pytest.fail(said(again)[1])
    status, text = said(again)
    assert status == 0, text
    assert deployments(plane) == set()
    there = plane.get(f"/api/v1/namespaces/{harness.NAMESPACE}").body
    assert there["status"]["phase"] == "Active"
    assert "deletionTimestamp" not in there["metadata"]


def test_whoever_keeps_the_module_after_all_rolls_back_and_upgrades(plane: harness.Kube) -> None:
    begun(plane)
    made = deployments(plane)
    assert len(made) == 4
    for name in made:  # as the clean-up does first
        assert plane.delete(f"/apis/apps/v1/namespaces/{harness.NAMESPACE}/deployments/{name}").code == 200

    status, text = said(helm(plane, "rollback", "1"))
    assert status == 0, text
    assert deployments(plane) == made
    status, text = said(helm(plane, "upgrade", CHART, *SETS))
    assert status == 0, text
