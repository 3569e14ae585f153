"""`kubectl gpu queue` and `release`: what they say where something may not be read, and what they write."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

import pytest

from controllers.api import names, resources
from controllers.api.record import adapter
from controllers.api.resources import Resource
from controllers.explain.faults import UsageError
from controllers.explain.records import SeenPod, Unreadable
from controllers.runtime.errors import Conflict, Forbidden, NotFound, RuntimeFault
from kubectl_gpu import queueing, releasing
from kubectl_gpu.cluster import Found
from kubectl_gpu.parser import build
from tests.kit import objects
from tests.kubectl_gpu.queues import GATE, KUEUE, node, queued_body, used
from tests.kubectl_gpu.test_say import POOL

Operations: TypeAlias = list[dict[str, Any]]


class Api:
    """Pods, pools, cards and nodes; of the plurals in `forbidden` no more may be read than those of one namespace."""

    namespace = "team"

    def __init__(
        self, *pods: dict[str, Any], pools: Any = None, forbidden: tuple[str, ...] = (), right: bool = True
    ) -> None:
        self.pods = {f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": pod for pod in pods}
        self.pools = [objects.pool(POOL)] if pools is None else pools
        self.forbidden, self.right = forbidden, right
        self.asked: list[tuple[str, str, str]] = []
        self.patched: list[tuple[Operations, bool]] = []
        self.faults: list[RuntimeFault] = []

    def _objects(self, resource: Resource, namespace: str | None) -> list[Any]:
        if resource.plural in self.forbidden and namespace is None:
            what = f'cannot list resource "{resource.plural}" in API group "{resource.group}" at the cluster scope'
            raise Forbidden(403, "Forbidden", f'User "dev" {what}')
        if resource == resources.POD:
            return [pod for key, pod in self.pods.items() if namespace in (None, key.partition("/")[0])]
        kinds = {"gpupools": self.pools, "gpudevices": used("n1", 2), "nodes": [node("n1")]}
        return kinds.get(resource.plural, [])

    async def list(
        self, resource: Resource, cls: type[Any], *, namespace: str | None = None, labels: str | None = None, **_: Any
    ) -> Any:
        found = self._objects(resource, namespace)
        if resource != resources.POD:
            return [Found({}, obj) for obj in found]
        pool = (labels or "").partition("=")[2]
        matching = [pod for pod in found if not pool or pod["metadata"]["labels"][names.LABEL_POOL] == pool]
        return [Found(pod, adapter(cls).validate_python(pod)) for pod in matching]

    async def get(self, resource: Resource, cls: type[Any], name: str, namespace: str | None = None) -> Any:
        if resource == resources.POD and (pod := self.pods.get(f"{namespace}/{name}")):
            return Found(pod, adapter(cls).validate_python(pod))
        for pool in self.pools if resource == resources.GPUPOOL else ():
            if pool.name == name:
                return Found({}, pool)
        raise NotFound(404, "NotFound", f"no {name}", about=name)

    async def may(self, verb: str, resource: Resource, name: str) -> bool:
        self.asked.append((verb, resource.plural, name))
        return self.right

    async def json_patch(self, _: Any, __: Any, operations: Operations, *, dry_run: bool) -> None:
        if self.faults:
            raise self.faults.pop(0)
        self.patched.append((operations, dry_run))


async def run(api: Any, line: str) -> int:
    args = build().parse_args(line.split())
    return await {"queue": queueing.queue, "release": releasing.release}[args.command](api, args)


class TestQueue:
    async def test_the_pods_of_a_pool_in_their_order(self, capsys: pytest.CaptureFixture[str]) -> None:
        api = Api(queued_body("young", age=10), queued_body("old", 2, age=90, team="other", says="OverLimit"))
        assert await run(api, f"queue {POOL}") == 0
        said = capsys.readouterr()
        head, first, second = said.out.splitlines()
        assert head.split() == ["POSITION", "NAMESPACE", "POD", "UNITS", "PRIORITY", "WAITS", "REASON"]
        assert [first.split()[at] for at in (0, 1, 2, 3, 6)] == ["1", "other", "old", "2", "OverLimit"]
        assert second.split()[:3] == ["2", "team", "young"]
        assert said.err == ""

    async def test_of_one_namespace_in_each_form(self, capsys: pytest.CaptureFixture[str]) -> None:
        api = Api(queued_body("young", age=10), queued_body("old", age=90, team="other"))
        assert await run(api, f"queue {POOL} -n team -o wide --no-headers") == 0
        (row,) = capsys.readouterr().out.splitlines()
        assert row.split() == ["2", "team", "young", "1", "0", *row.split()[5:]]
        assert await run(api, f"queue {POOL} -n team -o json") == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["pool"], told["waiting"], [pod["pod"] for pod in told["pods"]]) == (POOL, 2, ["young"])
        assert await run(api, f"queue {POOL} -n nobody") == 0
        said = capsys.readouterr()
        assert (said.out, said.err) == (
            "",
            f"No pod of namespace nobody waits for cards of GPUPool {POOL}; 2 of other namespaces do.\n",
        )

    async def test_nobody_waits(self, capsys: pytest.CaptureFixture[str]) -> None:
        for line, sentence in (
            (f"queue {POOL}", f"No pod waits for cards of GPUPool {POOL}.\n"),
            ("queue", "No pod waits for cards.\n"),
            ("queue -n team", "No pod of namespace team waits for cards.\n"),
        ):
            assert await run(Api(), line) == 0
            assert capsys.readouterr() == ("", sentence)

    @pytest.mark.parametrize("what", ["pods", "gpudevices"])
    async def test_what_may_not_be_read_is_said_and_the_pools_status_takes_its_place(
        self, what: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        told = objects.pool(POOL, status={"queue": {"waiting": 41, "waitingUnits": 99}})
        api = Api(queued_body("mine", says="Waiting"), pools=[told], forbidden=(what,))
        assert await run(api, f"queue {POOL}") == 0
        said = capsys.readouterr()
        assert [row.split()[:3] for row in said.out.splitlines()[1:]] == [["-", "team", "mine"]]
        assert f"? GPUPool {POOL} says how many wait, and nothing of their order\n" in said.err
        assert f"dev may not list {what}" in said.err
        assert await run(api, f"queue {POOL} -o json") == 0
        assert len(json.loads(capsys.readouterr().out)["unread"]) == 2

    async def test_every_pool_for_which_somebody_waits(self, capsys: pytest.CaptureFixture[str]) -> None:
        api = Api(queued_body("a", 2), queued_body("b", team="other"), queued_body("c", pool="gone"))
        assert await run(api, "queue --no-headers") == 0
        rows = [row.split()[:3] for row in capsys.readouterr().out.splitlines()]
        assert rows == [["gone", "1", "1"], [POOL, "2", "3"]]
        assert await run(api, "queue -n other -o json") == 0
        told = json.loads(capsys.readouterr().out)
        assert [(each["pool"], each["waiting"]) for each in told["queues"]] == [(POOL, 1)]

    async def test_every_pool_as_pools_say_it(self, capsys: pytest.CaptureFixture[str]) -> None:
        told = objects.pool(POOL, status={"queue": {"waiting": 41, "waitingUnits": 99}})
        api = Api(pools=[told], forbidden=("pods",))
        assert await run(api, "queue --no-headers") == 0
        said = capsys.readouterr()
        assert said.out.split() == [POOL, "41", "99", "-"]
        assert "? This is what GPUPools say of their queues\n" in said.err
        assert "dev may not list pods in the whole cluster" in said.err

    async def test_a_pool_that_is_not_there(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(UsageError, match=f"There is no GPUPool 'trainin'. Did you mean {POOL}?"):
            await run(Api(), "queue trainin")
        assert await run(Api(queued_body("p", pool="gone")), "queue gone --no-headers") == 0
        assert capsys.readouterr().out.split()[-1] == "PoolClosed"

    async def test_where_the_pool_may_not_be_read_there_is_no_answer(self) -> None:
        api = Api(queued_body("p"))

        async def no(*_: Any) -> Any:
            raise Forbidden(403, "Forbidden", "no")

        api.get = no  # type: ignore[method-assign]
        with pytest.raises(UsageError, match="You are not allowed to do this: no"):
            await run(api, f"queue {POOL}")
        found = await queueing.attempt_queue(api, POOL, "team")  # type: ignore[arg-type]
        assert isinstance(found, Unreadable)


class TestRelease:
    async def test_our_gate_is_taken_off_that_version_and_others_stay(self, capsys: pytest.CaptureFixture[str]) -> None:
        api = Api(queued_body("p", gates=(KUEUE, GATE)))
        assert await run(api, "release p") == 0
        ((operations, dry_run),) = api.patched
        assert operations == [
            {"op": "add", "path": "/metadata/resourceVersion", "value": "7"},
            {"op": "test", "path": "/spec/schedulingGates/1/name", "value": names.CARDS_GATE},
            {"op": "remove", "path": "/spec/schedulingGates/1"},
        ]
        assert not dry_run
        assert api.asked == [("release", "gpupools", POOL)]
        said = capsys.readouterr()
        assert said.out == f"Pod team/p is let past the queue of GPUPool {POOL}.\n"
        assert "No cards are reserved for it: gpupool-controller reserves for it first" in said.err
        assert "it waits for them: kueue.x-k8s.io/admission." in said.err

    async def test_a_gate_behind_more_than_are_kept_is_found(self) -> None:
        many = tuple({"name": f"x.io/{at}"} for at in range(12))
        api = Api(queued_body("p", gates=(*many, GATE)))
        assert await run(api, "release p") == 0
        assert api.patched[0][0][-1]["path"] == "/spec/schedulingGates/12"

    @pytest.mark.parametrize("right", [True, False])
    async def test_a_dry_run_writes_nothing(self, right: bool, capsys: pytest.CaptureFixture[str]) -> None:
        api = Api(queued_body("p"), right=right)
        if not right:
            with pytest.raises(UsageError, match="You may not let pods past"):
                await run(api, "release p --dry-run")
            return
        assert await run(api, "release p --dry-run -o json") == 0
        assert api.patched == []
        told = json.loads(capsys.readouterr().out)
        assert told == {"dryRun": "client", "namespace": "team", "pod": "p", "pool": POOL, "released": False}
        assert await run(api, "release p --dry-run=server -o name") == 0
        assert capsys.readouterr().out == "pod/p\n"
        assert [dry_run for _, dry_run in api.patched] == [True]

    async def test_who_lacks_the_right_hears_which(self) -> None:
        api = Api(queued_body("p"), right=False)
        with pytest.raises(UsageError) as refused:
            await run(api, "release p")
        assert f"the verb release on gpupools.gpu.deckhouse.io/{POOL}" in str(refused.value)
        assert (
            f"kubectl create clusterrole gpu-release-{POOL} --verb=release --resource=gpupools.gpu.deckhouse.io"
            f" --resource-name={POOL}" in str(refused.value)
        )
        assert api.patched == []

    async def test_one_that_was_written_meanwhile_is_looked_at_again(self) -> None:
        conflict = Conflict(409, "Conflict", "another version")
        api = Api(queued_body("p"))
        api.faults = [conflict, conflict]
        assert await run(api, "release p") == 0
        assert (len(api.patched), len(api.asked)) == (1, 3)
        api.faults = [conflict] * releasing.TRIES
        with pytest.raises(UsageError, match="is written by others all the time"):
            await run(api, "release p")

    @pytest.mark.parametrize(
        ("pod", "sentence"),
        [
            (queued_body("p", gates=(KUEUE,)), "it waits for other scheduling gates alone, kueue.x-k8s.io/admission."),
            (queued_body("p", gates=()), "it has no scheduling gate, and the scheduler has it"),
            (queued_body("p", gates=(), nodeName="n1"), "it is on node n1"),
            (queued_body("p", phase="Failed"), r"has ended \(Failed\)"),
            (queued_body("p", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}), "is being deleted"),
            (queued_body("p", 0, meta={"labels": {}}), "asks for no card: there is no pool to let it past"),
            (queued_body("q"), "There is no pod 'p' in namespace team. There are q."),
        ],
    )
    async def test_what_does_not_wait_is_refused(self, pod: dict[str, Any], sentence: str) -> None:
        api = Api(pod)
        with pytest.raises(UsageError, match=sentence):
            await run(api, "release p")
        assert (api.patched, api.asked) == ([], [])

    async def test_gates_of_any_shape_are_read(self) -> None:
        pod = queued_body("p")
        for spoiled in ({}, {"spec": None}, {"spec": {"schedulingGates": None}}, {"spec": {"schedulingGates": ["x"]}}):
            assert releasing.release_of.gates_of(spoiled) == ()
        assert releasing.release_of.gates_of(pod) == (names.CARDS_GATE,)
        assert adapter(SeenPod).validate_python(pod).spec.scheduling_gates
