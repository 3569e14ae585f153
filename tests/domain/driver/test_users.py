"""Who uses cards of a node: by pool, by NVIDIA's resources, by claims; and what decides how they may leave."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api import names
from controllers.api.driver_rollout import Drain
from controllers.api.gpudevice import ForeignAllocation
from controllers.api.record import adapter
from controllers.api.user_pod import ResourceClaim, UserPod, may_use_cards
from controllers.domain.driver.users import User, protection, users_of
from tests.kit import objects

POOL = names.resource_name("a")
JOB = {"kind": "Job", "name": "job", "uid": "job-uid", "controller": True}
BACK = "its DaemonSet would bring it back"
NODE = {"kind": "Node", "name": "n1", "uid": "n1-uid", "controller": True}


def asks(**resources: str) -> dict[str, Any]:
    return {"name": "main", "resources": {"requests": resources, "limits": resources}}


def pod(name: str = "p", *, resource: str | None = POOL, phase: str = "Running", **more: Any) -> UserPod:
    meta = {"name": name, "namespace": "team", "uid": f"{name}-uid", "ownerReferences": [JOB], **more.pop("meta", {})}
    spec = {"nodeName": "n1", "containers": [asks(**({resource: "1"} if resource else {}))], **more}
    return adapter(UserPod).validate_python({"metadata": meta, "spec": spec, "status": {"phase": phase}})


def claim(driver: str = "gpu.nvidia.com", *, admin: bool | None = None) -> dict[str, ResourceClaim]:
    results = [{"driver": driver, "pool": "n1", "device": "gpu-0", "request": "r", "adminAccess": admin}]
    body = {
        "metadata": {"name": "c", "namespace": "team", "annotations": {"any": "x"}},
        "status": {"allocation": {"devices": {"results": results}}},
    }
    found = adapter(ResourceClaim).validate_python(body)
    return {found.key: found}


def claiming(**more: Any) -> UserPod:
    return pod(resource=None, resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}], **more)


def only(*pods: UserPod, claims: dict[str, ResourceClaim] | None = None) -> User | None:
    found = users_of((), pods, claims or {})
    assert len(found) <= 1
    return found[0] if found else None


@pytest.mark.parametrize(
    ("resource", "is_user", "is_foreign"),
    [
        (POOL, True, False),
        ("nvidia.com/gpu", True, True),
        ("nvidia.com/gpu.shared", True, True),
        ("nvidia.com/mig-1g.10gb", True, True),
        ("nvidia.com/GA102GL_A10", False, False),
        ("rdma/hca", False, False),
    ],
)
@pytest.mark.parametrize("where", ["containers", "initContainers"])
def test_a_pod_uses_cards_by_what_a_container_asks_for(
    resource: str, is_user: bool, is_foreign: bool, where: str
) -> None:
    asking: dict[str, Any] = {where: [asks(**{"cpu": "1", resource: "1"})]}
    found = only(pod(resource=None, **asking))

    assert (found is not None, found is not None and found.is_foreign) == (is_user, is_foreign)


@pytest.mark.parametrize(
    ("driver", "admin", "is_user"),
    [
        ("gpu.nvidia.com", None, True),
        ("compute-domain.nvidia.com", False, True),
        ("gpu.nvidia.com", True, False),
        ("dra.networking", None, False),
    ],
)
def test_a_pod_uses_cards_by_a_claim_but_for_who_looks_after_them(
    driver: str, admin: bool | None, is_user: bool
) -> None:
    found = only(claiming(), claims=claim(driver, admin=admin))

    assert (found is not None and found.is_foreign) == is_user


def test_a_claim_that_was_made_from_a_template_is_the_pods() -> None:
    made = pod(resource=None, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}])
    told = {"name": "p", "namespace": "team", "uid": "u"}
    status = {"phase": "Pending", "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "c"}]}
    body = {"metadata": told, "spec": {"nodeName": "n1", "resourceClaims": [{"name": "gpu"}]}, "status": status}

    assert made.claims == frozenset()
    assert only(adapter(UserPod).validate_python(body), claims=claim()) is not None


@pytest.mark.parametrize(
    "other",
    [
        pod(phase="Succeeded"),
        pod(phase="Failed"),
        pod(nodeName=None),
        pod(meta={"annotations": {"kubernetes.io/config.mirror": "x"}}),
        pod(meta={"ownerReferences": [NODE]}),
        pod(meta={"namespace": names.NAMESPACE}),
        pod(resource=None),
    ],
)
def test_who_has_ended_or_cannot_be_evicted_or_is_the_modules_own_is_no_user(other: UserPod) -> None:
    assert only(other) is None


def test_whom_kubelet_tells_of_is_a_user_by_whatever_resource() -> None:
    given = objects.card("n1", allocations=(objects.allocation("p", "p-uid"),))
    theirs = ForeignAllocation(namespace="team", pod="q", container="main", resource="nvidia.com/a100")
    taken = objects.card("n1", foreign_allocations=(theirs,))
    found = users_of([given, taken], [pod("p", resource=None), pod("q", resource=None), pod("r", resource=None)], {})

    assert [(one.name, one.is_foreign) for one in found] == [("p", False), ("q", True)]


def test_users_come_in_the_order_in_which_they_are_evicted() -> None:
    made = [pod("high", priority=1000), pod("b"), pod("a"), pod("low", priority=-1)]

    assert [one.name for one in users_of((), made, {})] == ["low", "a", "b", "high"]


@pytest.mark.parametrize(
    ("labels", "annotations", "job"),
    [
        ({}, {}, "job-uid"),
        ({"jobset.sigs.k8s.io/jobset-name": "j"}, {}, "team/jobset.sigs.k8s.io/jobset-name=j"),
        ({"training.kubeflow.org/job-name": "j"}, {}, "team/training.kubeflow.org/job-name=j"),
        ({"scheduling.x-k8s.io/pod-group": "g"}, {}, "team/scheduling.x-k8s.io/pod-group=g"),
        ({}, {"scheduling.k8s.io/group-name": "g"}, "team/scheduling.k8s.io/group-name=g"),
        ({"kueue.x-k8s.io/pod-group-name": "g"}, {}, "team/kueue.x-k8s.io/pod-group-name=g"),
        (
            {"leaderworkerset.sigs.k8s.io/name": "l", "leaderworkerset.sigs.k8s.io/group-index": "2"},
            {},
            "team/leaderworkerset.sigs.k8s.io/name=l/2",
        ),
    ],
)
def test_what_pods_of_one_job_have_in_common(labels: dict[str, str], annotations: dict[str, str], job: str) -> None:
    found = only(pod(meta={"labels": {**labels, "app": "x"}, "annotations": annotations}))

    assert found is not None
    assert (found.job, found.owner_kind) == (job, "Job")


def test_of_a_stored_pod_only_what_is_read_is_kept() -> None:
    made = pod(
        meta={"labels": {"app": "x"}, "annotations": {"note": "x" * 1000}},
        containers=[asks(**{POOL: "1", "cpu": "4"}), asks(cpu="1")],
        initContainers=[asks(memory="1Gi")],
        volumes=[{"name": "s", "emptyDir": {}}],
    )

    assert (made.metadata.labels, made.metadata.annotations) == ({}, {})
    assert [one.resources.limits for one in made.spec.containers] == [{POOL: "1"}]
    assert made.spec.init_containers == ()
    assert made.spec.has_local_data


@pytest.mark.parametrize(
    ("made", "is_kept"),
    [
        (pod(), True),
        (pod(resource="nvidia.com/renamed"), True),
        (claiming(), True),
        (pod(resource=None), False),
        (pod(resource="cpu"), False),
    ],
)
def test_a_cache_has_those_that_may_use_cards(made: UserPod, is_kept: bool) -> None:
    assert may_use_cards(made) is is_kept


@pytest.mark.parametrize(
    ("volumes", "owner", "drain", "why"),
    [
        ([], [JOB], Drain(), None),
        ([{"name": "s", "emptyDir": {}}], [JOB], Drain(), "data in an emptyDir"),
        ([{"name": "s", "emptyDir": {"medium": "Memory"}}], [JOB], Drain(), None),
        ([{"name": "s", "emptyDir": {}}], [JOB], Drain(local_data="Evict"), None),
        ([], [], Drain(), "nothing makes it anew"),
        ([], [{**JOB, "controller": False}], Drain(), "nothing makes it anew"),
        ([], [], Drain(bare="Evict"), None),
        (
            [],
            [{**JOB, "kind": "DaemonSet"}],
            Drain(bare="Evict", local_data="Evict"),
            "its DaemonSet would bring it back",
        ),
    ],
)
def test_who_is_waited_for(
    volumes: list[dict[str, Any]], owner: list[dict[str, Any]], drain: Drain, why: str | None
) -> None:
    found = only(pod(volumes=volumes, meta={"ownerReferences": owner}))

    assert found is not None
    assert protection(found, drain) == why
