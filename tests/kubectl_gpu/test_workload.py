"""Why a Deployment or the like lacks pods, and that one that has them is not said to."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api import names, resources
from controllers.domain.clock import stamp
from controllers.domain.refusals import NOT_ALLOWED
from controllers.explain import refused
from controllers.explain.explanation import Explanation
from controllers.explain.faults import UsageError
from controllers.explain.records import CORE_EVENT, REPLICASET, SeenEvent, SeenPod, Unreadable, Workload
from controllers.explain.workload import Maker, WorkloadSeen, explained, lacks_pods
from controllers.runtime.errors import Forbidden, NotFound
from kubectl_gpu import workloads
from kubectl_gpu.cluster import Found
from tests.kubectl_gpu.test_say import NOW, POOL, a_pod, made, text

TEAM, RS = "team", "web-6b9898b466"
OURS = 'Error creating: admission webhook "pods.gpu.deckhouse.io" denied the request: '
ACCESS = f"{OURS}AccessDenied: {NOT_ALLOWED.begin(namespace='team', account='default', pool='training')}"
QUOTA = 'Error creating: pods "web-6b9898b466-blgkv" is forbidden: exceeded quota: cards, requested: pods=1'


def event(message: str, owner: str = RS, kind: str = "ReplicaSet", seconds: float = 30, uid: str = "") -> SeenEvent:
    return made(  # type: ignore[no-any-return]
        SeenEvent,
        metadata={"name": "e"},
        reason=refused.FAILED_CREATE,
        message=message,
        type="Warning",
        involvedObject={"kind": kind, "name": owner, "uid": uid},
        lastTimestamp=stamp(NOW - seconds),
    )


def workload(name: str, spec: dict[str, Any], status: dict[str, Any], owner: str = "") -> Workload:
    owners = [{"kind": "Deployment", "name": owner, "uid": f"uid-{owner}", "controller": True}] if owner else []
    metadata = {"name": name, "namespace": TEAM, "uid": f"uid-{name}", "ownerReferences": owners}
    return made(Workload, metadata=metadata, spec=spec, status=status)  # type: ignore[no-any-return]


def replicas(kind: str, name: str, wanted: int, there: int, **status: Any) -> Maker:
    return Maker(kind, workload(name, {"replicas": wanted}, {"replicas": there, **status}))


def job(spec: dict[str, Any], **status: Any) -> Maker:
    return Maker("Job", workload("train", spec, status))


def seen(itself: Maker, *makers: Maker, **parts: Any) -> WorkloadSeen:
    base: dict[str, Any] = {"replicasets": makers, "events": (), "pods": (), "now": NOW}
    return WorkloadSeen(itself=itself, **{**base, **parts})


def web(there: int, *events: SeenEvent, **parts: Any) -> Explanation:
    """What is said of a Deployment of two pods."""
    makers = (replicas("ReplicaSet", RS, 2, there),)
    return explained(seen(replicas("Deployment", "web", 2, there), *makers, events=events, **parts))


def owned_pod(name: str, owner: str, *, ready: bool) -> SeenPod:
    condition = {"type": "Ready", "status": str(ready)}
    references = [{"kind": "ReplicaSet", "name": owner, "uid": f"uid-{owner}", "controller": True}]
    status = {"phase": "Running", "conditions": [condition]}
    return a_pod(node="n", status=status, name=name, namespace=TEAM, ownerReferences=references)


class TestWhatIsRefused:
    def test_our_webhooks_refusal_has_its_cure(self) -> None:
        answer = web(0, event(ACCESS))
        assert answer.verdict == "The webhook refuses the pods of team/web: AccessDenied"
        assert "kubectl edit gpupool training" in answer.findings[0].do
        assert f"ReplicaSet {RS} could not make a pod, 30s ago: AccessDenied: namespace team" in text(answer)

    def test_an_old_event_is_not_told_when_the_pods_are_there(self) -> None:
        answer = web(2, event(ACCESS), pods=(owned_pod("a", RS, ready=True), owned_pod("b", RS, ready=True)))
        assert answer.verdict == "Deployment team/web has all its pods: 2 of 2"
        assert [finding.level for finding in answer.findings] == ["good"]

    def test_a_healthy_one_names_pods_that_are_not_ready_and_only_its_own(self) -> None:
        pods = (owned_pod("a", RS, ready=False), owned_pod("b", RS, ready=True), owned_pod("c", "other", ready=False))
        said = text(web(2, pods=pods))
        assert "1 pod not ready: a" in said
        assert "kubectl gpu explain pod a -n team" in said

    def test_other_failures_are_printed_as_they_are(self) -> None:
        answer = web(1, event(QUOTA))
        assert answer.verdict == "Deployment team/web has 1 of 2 pods, and the others cannot be made"
        assert answer.findings[0].text.endswith(QUOTA)
        assert answer.findings[0].do == ""

    def test_another_webhooks_denial_is_not_ours(self) -> None:
        theirs = 'Error creating: admission webhook "policy.example.com" denied the request: AccessDenied: no'
        answer = web(0, event(theirs))
        assert "The webhook refuses" not in answer.verdict
        assert answer.findings[0].text.endswith(theirs)
        near = 'admission webhook "gpu.deckhouse.io.example.com" denied the request: no'
        assert "The webhook refuses" not in web(0, event(near)).verdict

    def test_the_last_event_counts(self) -> None:
        old, new = event(f"{OURS}PoolNotFound: there is no GPUPool 'x'", seconds=60), event(ACCESS)
        assert web(0, new, old).verdict.endswith("AccessDenied")
        assert "exceeded quota" in text(web(0, event(ACCESS, seconds=60), event(QUOTA)))

    @pytest.mark.parametrize(
        "other",
        [
            event(ACCESS, owner="web-frontend-5c9f8d7b6"),
            event(ACCESS, kind="StatefulSet"),
            event(ACCESS, uid="of one that was deleted"),
        ],
    )
    def test_events_of_other_objects_are_not_told(self, other: SeenEvent) -> None:
        answer = web(0, other)
        assert answer.verdict == "Deployment team/web has 0 of 2 pods, and no event says why"
        assert "kubectl describe deployment web -n team" in answer.findings[0].do

    def test_the_condition_is_told_where_the_event_has_gone_or_may_not_be_read(self) -> None:
        failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": ACCESS}
        deployment = replicas("Deployment", "web", 2, 0, conditions=[failure])
        kept = explained(seen(deployment, replicas("ReplicaSet", RS, 2, 0, conditions=[failure])))
        assert kept.verdict.endswith("AccessDenied")
        blind = explained(seen(deployment, replicasets=Unreadable("not these"), events=Unreadable("nor those")))
        assert blind.verdict.endswith("AccessDenied")
        assert blind.unread == ("not these", "nor those")

    def test_a_roll_out_that_is_refused_beside_pods_that_run(self) -> None:
        makers = replicas("ReplicaSet", "web-old", 2, 2), replicas("ReplicaSet", RS, 1, 0)
        answer = explained(seen(replicas("Deployment", "web", 2, 2), *makers, events=(event(ACCESS),)))
        assert answer.verdict == "The webhook refuses the pods of team/web: AccessDenied"


class TestHowManyPodsThereShouldBe:
    @pytest.mark.parametrize(
        ("maker", "lacks"),
        [
            (replicas("StatefulSet", "db", 3, 1), True),
            (replicas("StatefulSet", "db", 0, 0), False),
            (Maker("DaemonSet", workload("d", {}, {"desiredNumberScheduled": 2, "currentNumberScheduled": 1})), True),
            (job({"parallelism": 2, "completions": 2}, active=0), True),
            (job({"parallelism": 2, "completions": 2}, active=1, succeeded=1), False),
            (job({"parallelism": 2}, active=1, succeeded=1), False),
            (job({}, active=0), True),
            (job({"suspend": True}), False),
            (job({}, conditions=[{"type": "Failed", "status": "True"}]), False),
        ],
    )
    def test_by_kind(self, maker: Maker, lacks: bool) -> None:
        assert lacks_pods(seen(maker)) is lacks

    def test_a_job_that_has_ended_and_one_of_nothing(self) -> None:
        failed = {"type": "Failed", "status": "True", "message": "it reached its limit"}
        answer = explained(seen(job({}, conditions=[failed]), events=(event(ACCESS, "train", "Job"),)))
        assert answer.verdict == "Job team/train has ended (Failed)"
        assert "It reached its limit." in text(answer)
        assert explained(seen(job({"suspend": True}))).verdict == "Job team/train asks for no pods now"


class Api:
    """A namespace: what each kind has by name. A kind that is missing here may not be read."""

    namespace = TEAM

    def __init__(self, **has: list[Any]) -> None:
        self.has = has

    def _of(self, resource: resources.Resource) -> list[Any]:
        if resource.kind not in self.has:
            raise Forbidden(403, "Forbidden", f"{resource.kind} is not for you")
        return self.has[resource.kind]

    async def get(self, resource: resources.Resource, _: Any, name: str, __: str | None = None) -> Any:
        for obj in self._of(resource):
            if obj.name == name:
                return Found({}, obj)
        raise NotFound(404, "NotFound", f"no {name}", about=name)

    async def list(self, resource: resources.Resource, *_: Any, **__: Any) -> Any:
        return [Found({}, obj) for obj in self._of(resource)]


def api(there: int, **more: list[Any]) -> Any:
    """Deployment `web` with that many of two pods, a ReplicaSet of it, and one whose name only looks so."""
    sets = [
        workload(RS, {"replicas": 2}, {"replicas": there}, owner="web"),
        workload("web-frontend-5c9f8d7b6", {"replicas": 1}, {"replicas": 0}, owner="web-frontend"),
    ]
    events = [event(ACCESS), event(QUOTA, owner="web-frontend-5c9f8d7b6")]
    has = {
        "Deployment": [workload("web", {"replicas": 2}, {"replicas": there})],
        REPLICASET.kind: sets,
        CORE_EVENT.kind: events,
        "Pod": [],
        "StatefulSet": [],
        "DaemonSet": [],
        "Job": [],
    }
    return Api(**{**has, **more})


class TestReading:
    async def test_replicasets_are_followed_by_their_owner(self) -> None:
        answer = await workloads.explained(api(0), "deployment", "web")
        assert "AccessDenied" in answer.verdict
        assert "frontend" not in text(answer)
        healthy = await workloads.explained(api(2), "deployment", "web")
        assert healthy.verdict == "Deployment team/web has all its pods: 2 of 2"

    async def test_its_kind_counts_and_one_that_is_not_there_is_a_mistake(self) -> None:
        with pytest.raises(UsageError, match="There is no statefulset 'web' in namespace team"):
            await workloads.explained(api(0), "statefulset", "web")
        with pytest.raises(UsageError, match="Did you mean web"):
            await workloads.explained(api(0), "deployment", "webb")

    @pytest.mark.parametrize("asked", ["web", RS, f"{RS}-blgkv"])
    async def test_a_pod_that_was_never_made_is_told_of_under_any_name_of_the_row(self, asked: str) -> None:
        answer = await workloads.missing(api(0), asked)
        assert answer.verdict.startswith("The webhook refuses the pods of team/web")
        assert ("There is no pod" in text(answer)) == asked.endswith("blgkv")

    async def test_a_pod_that_nothing_fails_to_make_is_a_mistake(self) -> None:
        with pytest.raises(UsageError, match=r"nothing fails to make one.*kubectl gpu explain deployment web -n team"):
            await workloads.missing(api(2), "web")
        with pytest.raises(UsageError) as told:
            await workloads.missing(Api(Deployment=[], Pod=[]), "web")  # type: ignore[arg-type]
        assert "nothing fails" not in str(told.value)
        assert "ReplicaSet is not for you" in str(told.value)


def test_every_word_of_the_webhook_about_pods_has_its_cure() -> None:
    of_pods = (
        names.POOL_NOT_FOUND, names.MIXED_POOL_REQUEST, names.ACCESS_DENIED,
        names.POOL_IN_MAINTENANCE, names.POOL_MISCONFIGURED, names.INSUFFICIENT_CAPACITY,
    )  # fmt: skip
    assert set(of_pods) == set(refused.CURES)
    assert refused.cure("Unheard: of") == ""


def test_a_pod_refused_by_a_closed_pool_hears_the_cure_of_its_reason() -> None:
    def of(why: str, word: str = names.POOL_IN_MAINTENANCE) -> str:
        return refused.cure(f"{word}: GPUPool {POOL} gives no cards now: {why}. Try again.")

    failed = of("its cards could not be divided as its spec asks (LayoutFailed)", names.POOL_MISCONFIGURED)
    assert f"annotate gpupool {POOL} {names.RESUME}=true" in failed
    assert of("spec.scheduling.affinity cannot be read", names.POOL_MISCONFIGURED).startswith("Show the pool's admin")
    assert "spec.enabled: true" in of(f"the module is disabled by ModuleConfig {names.MODULE}, and pods keep theirs")
    overdue = of("its cards are being divided anew (PodsOverdue)")
    assert overdue.startswith("For an administrator: end the pods")
    assert overdue.endswith("; the controller then tries again by itself")
    assert of("its cards are being divided anew (Rebuilding)").startswith("Wait, the controller tries again")


def test_names_that_may_make_a_pod() -> None:
    guesses = refused.makers("web-1-a")
    assert ("statefulset", "web-1") in guesses
    assert ("deployment", "web") in guesses
    assert all(name for _, name in refused.makers("web"))
