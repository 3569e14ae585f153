"""What `kubectl gpu explain` says of a pod in a queue, of what makes such pods, and of their pool."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controllers.api import names
from controllers.api.gpudevice import GPUDevice
from controllers.api.record import adapter
from controllers.domain.queue.gates import is_queued
from controllers.explain import pod, words, workload
from controllers.explain import pool as pools
from controllers.explain.explanation import Explanation
from controllers.explain.misfit import explain_misfit
from controllers.explain.queue import Queue, from_status
from controllers.explain.queue_order import computed
from controllers.explain.records import SeenPod, Unreadable
from controllers.explain.words import ordinal
from kubectl_gpu import explaining, workloads
from tests.kit import objects
from tests.kubectl_gpu.queues import GATE, KUEUE, cards, condition, queued, queued_body, seen, used
from tests.kubectl_gpu.test_queue_commands import Api
from tests.kubectl_gpu.test_say import NOW, POOL, text
from tests.kubectl_gpu.test_workload import replicas
from tests.kubectl_gpu.test_workload import seen as workload_seen


def explained(of: SeenPod, queue: Queue | Unreadable | None, **parts: Any) -> Explanation:
    base: dict[str, Any] = {"pool": objects.pool(POOL), "cards": (), "node": None, "inventory": None, "events": ()}
    return pod.explained(pod.PodSeen(pod=of, now=NOW, queue=queue, **{**base, **parts}))


def in_full(of: SeenPod, *others: SeenPod, on: list[GPUDevice], pool: dict[str, Any] | None = None) -> Explanation:
    """To one who may read everything."""
    view = seen(of, *others, on=on, pool=pool)
    return explained(of, computed(view), pool=view.pool, misfit=explain_misfit(view, of))


class TestPod:
    def test_its_place_and_what_is_ahead_of_it(self) -> None:
        me = queued("me", says="Waiting")
        answer = in_full(me, queued("a", 8, age=300), queued("b", 3, age=200), on=used("n1", 8))
        assert answer.verdict == (
            "Pod team/me waits for 1 card of GPUPool training: it is 3rd of 3, and 11 cards are ahead of it"
        )
        assert f"→ It gets cards in its turn: kubectl gpu queue {POOL} shows" in text(answer)

    def test_the_node_that_is_kept_for_it(self) -> None:
        answer = in_full(queued("big", 4, age=700), on=[*used("gpu-4", 3), objects.card("gpu-4", 9, pool=POOL)])
        assert answer.verdict.endswith("it is 1st of 1, and no card is ahead of it")
        assert "✓ Node gpu-4 is kept for it: nobody else gets free slots there until 4 are free." in text(answer)

    def test_cards_that_nobody_reserves_point_to_the_controller(self) -> None:
        said = text(in_full(queued("p"), on=cards("n1", 1)))
        assert "✓ Node n1 has enough free for it now: gpupool-controller reserves it." in said
        assert f"kubectl -n {names.NAMESPACE} get pods -l app=gpupool-controller" in said

    def test_one_whose_cards_are_reserved(self) -> None:
        held = objects.reservation("r-p", since=NOW - 1, until=NOW + 60)
        answer = in_full(queued("p"), on=cards("n1", 1, reservations=[held]))
        assert answer.verdict == "Pod team/p has 1 card of GPUPool training reserved on n1, and is released in a moment"

    def test_the_limit_of_its_namespace(self) -> None:
        pool = {"queue": {"namespaces": [{"name": "team", "limit": 1}]}}
        runs = queued("runs", gates=(), nodeName="n1")
        said = text(in_full(queued("p", says="OverLimit"), runs, on=used("n1", 2), pool=pool))
        assert "! OverLimit: its namespace has as many slots of the pool as spec.queue.namespaces allows." in said
        assert "an administrator can raise limit in the pool" in said
        assert "! Namespace team may have 1 slot of the pool, and has 1." in said

    def test_why_no_node_could_take_it(self) -> None:
        said = text(in_full(queued("p", 3, says="NoNodeFits"), on=used("n1", 2)))
        assert "✗ NoNodeFits: it asks for 3 slots of one node, and no node of the pool has more than 2." in said
        assert "→ Ask for fewer cards" in said
        assert "kubectl gpu explain pod p -n team tells which" in said

    def test_gates_of_others_are_named(self) -> None:
        answer = in_full(queued("p", gates=(KUEUE, GATE)), on=used("n1", 1))
        assert answer.verdict.endswith(
            "will wait for 1 card of GPUPool training once its other scheduling gates are gone"
        )
        assert "other scheduling gates come first: kueue.x-k8s.io/admission. No card is kept before." in text(answer)
        assert "kubectl get pod p -n team -o jsonpath" in text(answer)

    def test_what_the_api_server_said_when_it_was_not_let_go_on(self) -> None:
        found = queued_body("p", says="ReleaseDenied")
        found["status"]["conditions"][0]["message"] = "Cards were free for the pod: denied by a policy"
        answer = in_full(adapter(SeenPod).validate_python(found), on=used("n1", 1))
        assert answer.verdict.endswith("could not be released, though 1 card of GPUPool training could be had")
        assert "✗ ReleaseDenied: Cards were free for the pod: denied by a policy." in text(answer)

    def test_a_pool_that_is_closed_is_told_of_with_its_condition(self) -> None:
        closed = {"conditions": [objects.condition("Maintenance", message="its cards are divided anew")]}
        said = text(in_full(queued("p", says="Waiting"), on=used("n1", 1), pool=closed))
        assert "✗ PoolClosed: the pool gives no cards now" in said
        assert "its cards are divided anew" in said

    def test_to_a_tenant_what_the_condition_and_the_pools_status_say(self) -> None:
        status = {"waiting": 41, "waitingUnits": 120, "oldest": "2026-01-01T00:00:00Z"}
        pool = objects.pool(POOL, status={"queue": status}, queue={"namespaces": [{"name": "*", "limit": 16}]})
        found = queued_body("mine")
        found["status"]["conditions"] = [condition("Waiting", "The pod waits for 1 slot: others are before it.")]
        mine = adapter(SeenPod).validate_python(found)
        no = "dev may not list pods in the whole cluster."
        answer = explained(mine, from_status(pool, (mine,), [no]), pool=pool)
        assert answer.verdict == "Pod team/mine waits for 1 card of GPUPool training"
        said = text(answer)
        assert "· Waiting: The pod waits for 1 slot: others are before it." in said
        assert "· Namespace team may have 16 slots of the pool" in said
        assert "· 41 pods wait for 120 slots of GPUPool training, the longest for " in said
        assert f"? {no}" in said

    def test_where_nothing_of_the_queue_may_be_read(self) -> None:
        no = Unreadable("dev may not get gpupools.")
        answer = explained(queued("p", says="OverLimit"), no, pool=no)
        assert answer.verdict == "Pod team/p waits for 1 card of GPUPool training"
        assert "! OverLimit: " in text(answer)
        assert answer.unread == (no.reason, no.reason)

    @pytest.mark.parametrize("spoiled", [{"reason": "Gang", "message": "of another version"}, {"reason": ""}])
    def test_a_reason_of_another_version_is_told_as_it_is(self, spoiled: dict[str, str]) -> None:
        found = queued_body("p", says="Waiting")
        found["status"]["conditions"][0] |= spoiled
        answer = in_full(adapter(SeenPod).validate_python(found), on=used("n1", 1))
        assert f"{spoiled['reason'] or 'Waiting'}: " in text(answer)

    def test_one_that_is_being_deleted_is_in_no_queue(self) -> None:
        going = queued("p", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})
        assert not is_queued(going)
        assert explained(going, None).verdict.endswith("it is being deleted")

    async def test_it_is_read_with_what_may_be_read(self) -> None:
        api: Any = Api(queued_body("p"), queued_body("first", 2, age=90, team="other"))
        answer = await explaining._pod(api, "p")
        assert answer.verdict.endswith("it is 2nd of 2, and 2 cards are ahead of it")
        api.forbidden = ("pods", "nodes")
        answer = await explaining._pod(api, "p")
        assert answer.verdict == "Pod team/p waits for 1 card of GPUPool training"
        assert any("dev may not list pods" in why for why in answer.unread)


class TestWorkload:
    def owned(self, name: str, **more: Any) -> dict[str, Any]:
        owner = {"kind": "Job", "name": "train", "uid": "uid-train", "controller": True}
        return queued_body(name, meta={"ownerReferences": [owner]}, **more)

    def test_its_pods_that_wait_are_told_with_their_places(self) -> None:
        found = [adapter(SeenPod).validate_python(self.owned(f"p{at}", age=90 - at)) for at in range(2)]
        maker = workload.Maker("Job", replicas("Job", "train", 0, 0, active=2).obj)
        maker = replace(maker, obj=replace(maker.obj, spec=replace(maker.obj.spec, parallelism=2)))
        view = workload_seen(maker, pods=tuple(found), queue=computed(seen(*found, queued("x"), on=used("n1", 1))))
        said = text(workload.explained(replace(view, replicasets=())))
        assert "! 2 pods in a queue for cards: p0 (1st of 3), p1 (2nd of 3)." in said
        assert "→ kubectl gpu explain pod p0 -n team" in said
        assert "not ready" not in said
        blind = text(workload.explained(replace(view, replicasets=(), queue=Unreadable("no"))))
        assert "2 pods in a queue for cards: p0, p1." in blind
        assert "? no" in blind

    async def test_the_queue_is_read_where_pods_of_it_wait(self) -> None:
        api: Any = Api(self.owned("p"), queued_body("first", age=90))
        found = replicas("Job", "train", 0, 0).obj
        view = await workloads._observe_workload(api, "job", found)
        assert isinstance(view.queue, Queue)
        assert (found_in := view.queue.of("team/p")) is not None
        assert (found_in.position, view.queue.total) == (2, 2)


def test_a_pool_says_how_many_wait() -> None:
    pool = objects.pool(POOL, status={"queue": {"waiting": 41, "waitingUnits": 120}})
    said = text(pools.explained(pools.PoolSeen(pool, ())))
    assert "! 41 pods wait for 120 slots of it." in said
    assert f"→ kubectl gpu queue {POOL}" in said
    assert "wait for" not in text(pools.explained(pools.PoolSeen(objects.pool(POOL), ())))


def test_ordinals() -> None:
    numbers = (1, 2, 3, 4, 11, 12, 13, 21, 22, 101, 111, 113, 1002)
    assert [ordinal(number) for number in numbers] == [
        "1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd", "101st", "111th", "113th", "1002nd",
    ]  # fmt: skip
    assert words.counted(1, "slot") == "1 slot"
