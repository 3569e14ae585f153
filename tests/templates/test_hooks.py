"""The programs that Helm runs do their work with the rights that the chart gives them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from controllers.api import names
from controllers.install import definitions
from controllers.install.__main__ import parser
from tests.kit.worker_plane import WorkerPlane
from tests.templates import harness
from tests.templates.containers import at_this_server, running, the_container

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.cluster
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OURS = {f"{kind}.{names.GROUP}" for kind in ("gpudevices", "gpunodeinventories", "gpupools")}
SECONDS = 180
PULL = 60
"""Seconds for a node to be found and an image to be pulled."""


@pytest.fixture(scope="module")
def plane(worker_plane: WorkerPlane) -> harness.Kube:
    """An API server without anything of ours, but for the CRDs of NFD."""
    return worker_plane.take("hooks", _with_nfd)


@contextmanager
def _with_nfd(folder: Path) -> Iterator[harness.Kube]:
    with harness.scratch(folder) as kube:
        for path in sorted((harness.ROOT / "sim" / "crds").glob("nodefeature*.yaml")):
            done = kube.kubectl("create", "-f", str(path))
            assert done.returncode == 0, done.stderr
        yield kube


def hooks(event: str, *sets: str, **how: Any) -> list[dict[str, Any]]:
    """What Helm makes at an event, in its order."""
    rendered = harness.objects(harness.render(harness.programs()["helm"], *sets, **how))
    chosen = [(item, item["metadata"].get("annotations", {})) for item in rendered]
    found = [(item, notes) for item, notes in chosen if event in notes.get("helm.sh/hook", "").split(",")]
    return [item for item, notes in sorted(found, key=lambda pair: int(pair[1]["helm.sh/hook-weight"]))]


def run(kube: harness.Kube, folder: Path, event: str) -> tuple[int, str]:
    """Play Helm and kubelet at an event; the program's exit status and what it said. What is made for it goes again."""
    made = hooks(event, *at_this_server(kube))
    (job,) = [item for item in made if item["kind"] == "Job"]
    text = yaml.safe_dump_all(item for item in made if item["kind"] != "Job")
    done = kube.kubectl("apply", "--server-side", "-f", "-", stdin=text)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    account, namespace = job["spec"]["template"]["spec"]["serviceAccountName"], job["metadata"]["namespace"]
    with running(kube, folder / event, the_container(job), account, namespace) as (process, log):
        status = process.wait(SECONDS)
    assert kube.kubectl("delete", "-f", "-", stdin=text).returncode == 0
    return status, log.read_text()


def test_before_an_install_the_crds_come_and_before_an_uninstall_everything_goes(
    plane: harness.Kube, tmp_path: Path
) -> None:
    status, said = run(plane, tmp_path, "pre-install")
    assert status == 0, said
    there = {item["metadata"]["name"] for item in plane.get(DEFINITIONS).body["items"]}
    assert OURS | {"moduleconfigs.deckhouse.io"} <= there
    status, said = run(plane, tmp_path, "pre-upgrade")
    assert status == 0, said

    text = harness.render(plane.binaries["helm"], f"gpuControlPlane.webhook.url={harness.DEAD_WEBHOOK}", hooks=False)
    done = plane.kubectl("apply", "--server-side", "-f", "-", stdin=text)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    body = {"apiVersion": "gpu.deckhouse.io/v1alpha1", "kind": "GPUPool"}
    meta = {"name": "training", "finalizers": [names.FINALIZER_POOL]}
    assert plane.create(f"{harness.GROUP}/gpupools", {**body, "metadata": meta, "spec": {}}).code == 201
    labels = {names.deploy_label("gfd"): "true", names.pool_node_label("training"): "true", "mine": "1"}
    assert plane.create("/api/v1/nodes", {"metadata": {"name": "node-a", "labels": labels}}).code == 201

    status, said = run(plane, tmp_path, "pre-delete")
    assert status == 0, said
    assert plane.get("/api/v1/nodes/node-a").body["metadata"]["labels"] == {"mine": "1"}
    assert OURS.isdisjoint(item["metadata"]["name"] for item in plane.get(DEFINITIONS).body["items"])
    listed = plane.get(f"/apis/apps/v1/namespaces/{harness.NAMESPACE}/deployments").body["items"]
    assert listed == []


def test_a_definition_that_is_being_deleted_is_waited_for(plane: harness.Kube, tmp_path: Path) -> None:
    path = f"{DEFINITIONS}/gpudevices.{names.GROUP}"
    body = definitions.wanted()[f"gpudevices.{names.GROUP}"]
    body["metadata"]["finalizers"] = ["example.com/held"]
    assert plane.create(DEFINITIONS, body).code == 201
    uid = plane.get(path).body["metadata"]["uid"]
    assert plane.delete(path).code == 200

    def told() -> bool:
        log = tmp_path / "pre-install" / "log"
        return log.exists() and "waiting: gpudevices.gpu.deckhouse.io, which is being deleted" in log.read_text()

    with ThreadPoolExecutor(1) as pool:
        at_work = pool.submit(run, plane, tmp_path, "pre-install")
        try:
            harness.eventually(told, "nobody waits for it", SECONDS)
        finally:
            assert plane.merge(path, {"metadata": {"finalizers": None}}).code == 200
        status, said = at_work.result()
    assert status == 0, said
    assert plane.get(path).body["metadata"]["uid"] != uid


def test_they_can_be_switched_off() -> None:
    assert hooks("pre-install", "gpuControlPlane.hooks.crds=false") == []
    assert hooks("pre-delete", "gpuControlPlane.hooks.cleanup=false") == []


@pytest.mark.parametrize("namespace", ["default", harness.NAMESPACE])
def test_before_an_install_they_live_where_the_release_does(namespace: str) -> None:
    made = hooks("pre-install", release_namespace=namespace)
    namespaced = [item for item in made if not item["kind"].startswith("Cluster")]
    assert {item["metadata"]["namespace"] for item in namespaced} == {namespace}
    assert {item["kind"] for item in namespaced} == {"ServiceAccount", "Job"}


def test_in_deckhouse_what_people_made_stays_and_it_brings_the_crds_itself() -> None:
    values = ("global.modulesImages.digests.gpuControlPlane.controlPlane=sha256:00",
              "global.modulesImages.digests.gpuControlPlane.nodeAgent=sha256:00",
              "global.modulesImages.registry.base=registry.example")  # fmt: skip
    assert hooks("pre-install", *values) == []
    (job,) = [item for item in hooks("pre-delete", *values) if item["kind"] == "Job"]
    assert parser().parse_args(the_container(job)["args"]).keep_records
    (job,) = [item for item in hooks("pre-delete") if item["kind"] == "Job"]
    assert not parser().parse_args(the_container(job)["args"]).keep_records


def test_helm_waits_longer_than_they_take() -> None:
    for event in ("pre-install", "pre-delete"):
        (job,) = [item for item in hooks(event) if item["kind"] == "Job"]
        patience = parser().parse_args(the_container(job)["args"]).timeout
        deadline = job["spec"]["activeDeadlineSeconds"]
        assert patience + PULL <= deadline < 300, "Helm's own --timeout is five minutes"
        assert job["spec"]["backoffLimit"] == 1
        notes = job["metadata"]["annotations"]
        assert notes["helm.sh/hook-delete-policy"] == "before-hook-creation,hook-succeeded"
        assert notes["helm.sh/hook-output-log-policy"] == "hook-failed"


def test_a_downgrade_is_allowed_by_a_value() -> None:
    for sets, allowed in (((), False), (("gpuControlPlane.hooks.allowDowngrade=true",), True)):
        for event in ("pre-install", "pre-upgrade"):
            (job,) = [item for item in hooks(event, *sets) if item["kind"] == "Job"]
            assert parser().parse_args(the_container(job)["args"]).allow_downgrade is allowed
