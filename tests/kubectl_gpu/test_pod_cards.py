"""`kubectl gpu explain pod --cards`: every node and card of the pool, and why not."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from controllers.api import names
from controllers.api.gpudevice import GPUDevice
from controllers.api.kube import Node
from controllers.api.record import adapter
from controllers.api.whole_pod import WholePod
from controllers.domain.clock import stamp
from controllers.domain.verdict.records import PodVerdict
from controllers.explain import verdict_table
from controllers.explain.faults import UsageError
from controllers.explain.pod_verdict import kept_before, node_verdicts, numbers_of, verdict_of
from controllers.explain.queue_order import computed
from controllers.explain.records import SeenPod, Unreadable
from kubectl_gpu import explaining
from kubectl_gpu.parser import build
from tests.kit import objects
from tests.kit.pods import asking
from tests.kubectl_gpu.queues import cards, queued, queued_body, seen, used
from tests.kubectl_gpu.test_queue_commands import Api
from tests.kubectl_gpu.test_say import NOW, POOL

RESOURCE = names.resource_name(POOL)


def roomy(name: str, free: int = 8, *, memory: str = "512Gi", **spec: Any) -> Node:
    """A node of the pool with allocatable resources, of which it shows so many cards."""
    shows = {RESOURCE: str(free), "memory": memory, "cpu": "64", "pods": "110"}
    made = replace(objects.node(name, labels={names.pool_node_label(POOL): "true"}, **spec))
    return replace(made, status=replace(made.status, allocatable=shows))


def verdict(body: dict[str, Any], *others: SeenPod, on: list[GPUDevice], nodes: dict[str, Node]) -> PodVerdict:
    pod = adapter(SeenPod).validate_python(body)
    view = seen(pod, *others, on=on, nodes=nodes)
    whole = adapter(WholePod).validate_python(body)
    made = verdict_of(view, computed(view), pod, node_verdicts(whole, nodes, (), view.tolerated))
    assert made is not None
    return made


def lines(found: PodVerdict) -> list[list[str]]:
    return [[cell.text for cell in row] for row in verdict_table.rows(found, NOW)]


def big(units: int = 4, memory: str = "900Gi", **more: Any) -> dict[str, Any]:
    container = asking(POOL, units=units)
    container["resources"]["requests"] = {"memory": memory}
    return queued_body("big", units, containers=[container], **more)


def test_the_table_of_the_docs() -> None:
    runs = adapter(SeenPod).validate_python(queued_body("x", gates=(), team="team-b", nodeName="gpu-1"))
    runs = replace(runs, status=replace(runs.status, phase="Running", start_time=stamp(NOW - 3 * 3600)))
    taken = [objects.allocation("x", "pod-x", namespace="team-b")]
    found = verdict(
        big(),
        runs,
        on=[
            *(objects.card("gpu-1", at, pool=POOL) for at in (0x19, 0x3B, 0x9B)),
            objects.card("gpu-1", 0x4C, pool=POOL, allocations=taken),
            *cards("gpu-2", 4),
            *cards("gpu-3", 1),
        ],
        nodes={
            "gpu-1": roomy("gpu-1", memory="1Ti"),
            "gpu-2": roomy("gpu-2"),
            "gpu-3": roomy("gpu-3", taints=[{"key": "dedicated", "value": "infer", "effect": "NoSchedule"}]),
        },
    )
    assert lines(found) == [
        ["gpu-1", "TooFewHere: 3 of 4 free", "19,3b,9b Free  4c InUse team-b/x 3h"],
        ["gpu-2", "Insufficient memory (needs 900Gi, 512Gi free)", "01,02,03,04 Free"],
        ["gpu-3", "taint dedicated=infer:NoSchedule", "-"],
    ]


def test_what_decides_and_is_not_looked_at_is_said() -> None:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    found = verdict(big(1, "1Gi", volumes=[volume]), on=cards("n1", 1), nodes={"n1": roomy("n1")})
    assert lines(found) == [["n1", "? volumes", "01 Free"]]


def test_without_the_right_to_list_pods_no_node_fits_for_sure() -> None:
    body = big(1, "1Gi")
    made = node_verdicts(adapter(WholePod).validate_python(body), {"n1": roomy("n1")}, Unreadable("no"), ())
    assert [(each.reason, each.unseen) for each in made] == [("Unknown", ("pods on the node",))]


def test_a_node_that_does_not_show_its_free_cards_yet() -> None:
    found = verdict(big(2, "1Gi"), on=cards("n1", 2), nodes={"n1": roomy("n1", free=1)})
    assert lines(found) == [["n1", "TooFewHere: 1 of 2 free", "01,02 Free"]]


def test_in_a_mixed_layout_it_is_the_resource_of_the_profile() -> None:
    resource = names.resource_name(f"{POOL}.3g.40gb")
    layout = [{"profile": "1g.10gb", "count": 2}, {"profile": "3g.40gb", "count": 1}]
    offered = {"pool": POOL, "configVersion": "1", "slots": 3,
               "profiles": [{"profile": each["profile"], "slots": each["count"]} for each in layout]}  # fmt: skip
    taken = [replace(objects.allocation("x", "u-x"), profile="3g.40gb")]
    hardware = {"mig": {"capable": True, "enabled": True}}
    on = [
        objects.card("n1", 0x19, pool=POOL, hardware=hardware, published=offered, allocations=taken),
        objects.card("n1", 0x3B, pool=POOL, hardware=hardware, published=offered),
    ]
    shown = roomy("n1")
    shown = replace(shown, status=replace(shown.status, allocatable={**shown.status.allocatable, resource: "1"}))
    body = queued_body("big", containers=[asking(f"{POOL}.3g.40gb", units=2)])
    pod, whole = adapter(SeenPod).validate_python(body), adapter(WholePod).validate_python(body)
    view = seen(pod, on=on, nodes={"n1": shown}, pool={"allocation": {"mode": "MIG", "mig_layout": layout}})
    found = verdict_of(view, computed(view), pod, node_verdicts(whole, view.nodes, (), view.tolerated))
    assert found is not None
    assert found.resource == resource
    assert found.nodes[0].messages == (f"Insufficient {resource}",)
    assert lines(found) == [["n1", "TooFewHere: 0 of 2 free", "19 InUse team/x  3b Free"]]


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (
            {"published": None, "conditions": [objects.condition("Configured", False, "AwaitingPlugin")]},
            "NotPublished (AwaitingPlugin)",
        ),
        ({"conditions": [objects.condition("Faulted", reason="CriticalXid")]}, "Faulted (CriticalXid)"),
        ({"reservations": [objects.reservation("r-o", pod="o", until=NOW + 90)]}, "Promised team/o for 90s"),
    ],
)
def test_a_card_says_why_not(status: dict[str, Any], text: str) -> None:
    found = verdict(big(1, "1Gi"), on=cards("n1", 1, **status), nodes={"n1": roomy("n1")})
    assert lines(found) == [["n1", "no card is free", f"01 {text}"]]


def test_what_is_promised_to_the_pod_itself() -> None:
    mine = cards("n1", 1, reservations=[objects.reservation("r-big", pod="big", until=NOW + 90)])
    assert lines(verdict(big(1, "1Gi"), on=mine, nodes={"n1": roomy("n1")}))[0][1] == "promised to the pod"
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    found = verdict(big(1, "1Gi", volumes=[volume]), on=mine, nodes={"n1": roomy("n1")})
    assert lines(found)[0][1] == "promised to the pod; ? volumes"


class TestBefore:
    """What others get first, by the queue as it is computed."""

    def test_a_node_that_is_kept_is_kept_from_those_behind(self) -> None:
        first, second = queued("big", 4, age=700), queued("small", 1, age=10)
        view = seen(first, second, on=[*used("n1", 3), objects.card("n1", 9, pool=POOL)])
        queue = computed(view)
        assert kept_before(queue, first) == {}
        assert kept_before(queue, second)["n1"].position == 1
        made = numbers_of(view, queue, second)
        assert made is not None
        assert made.cards == {"InUse": 3, "KeptFor": 1}

    def test_who_is_served_next_takes_what_it_needs(self) -> None:
        first, second = queued("first", 1, age=60), queued("second", 2, age=10)
        view = seen(first, second, on=cards("n1", 2))
        assert {name: (each.slots, each.position) for name, each in kept_before(computed(view), second).items()} == {
            "n1": (1, 1)
        }

    def test_pods_that_were_admitted_come_before_the_queue_and_have_no_place_in_it(self) -> None:
        before, me = queued("released", gates=(), age=300), queued("me")
        view = seen(before, me, on=cards("n1", 1))
        queue = computed(view)
        assert {name: (each.slots, each.position) for name, each in kept_before(queue, me).items()} == {"n1": (1, 0)}
        assert kept_before(queue, before) == {}

    def test_what_is_reserved_for_a_waiter_already_counts_once(self) -> None:
        first, me = queued("first", 2, age=60), queued("me", age=10)
        promised = objects.card(
            "n1", 0, pool=POOL, reservations=[objects.reservation("r-first", pod="first", until=NOW + 9)]
        )
        view = seen(first, me, on=[promised, *(objects.card("n1", at, pool=POOL) for at in (1, 2))])
        assert {name: each.slots for name, each in kept_before(computed(view), me).items()} == {"n1": 1}
        made = numbers_of(view, computed(view), me)
        assert made is not None
        assert (made.slots.free, made.slots.kept) == (1, 1)

    def test_where_nodes_may_not_be_read_there_is_no_verdict(self) -> None:
        view = seen(queued("p"), on=cards("n1", 1), nodes=Unreadable("no"))
        assert numbers_of(view, computed(view), queued("p")) is None
        assert verdict_of(view, computed(view), queued("p"), ()) is None


class TestCommand:
    async def said(self, api: Api, line: str, capsys: pytest.CaptureFixture[str]) -> str:
        assert await explaining.explain(api, build().parse_args(line.split())) == 0  # type: ignore[arg-type]
        return capsys.readouterr().out

    async def test_the_pod_and_its_table(self, capsys: pytest.CaptureFixture[str]) -> None:
        out = await self.said(Api(queued_body("p")), "explain pod p --cards", capsys)
        first, heading, row = out.splitlines()
        assert first == f"Pod team/p waits for 1 card of GPUPool {POOL}: it is 1st of 1, and no card is ahead of it."
        assert heading.split() == ["NODE", "VERDICT", "CARDS"]
        assert row.split()[0] == "n1"
        assert "InUse team/runs-1" in row

    async def test_every_pair_for_programs(self, capsys: pytest.CaptureFixture[str]) -> None:
        made = json.loads(await self.said(Api(queued_body("p")), "explain pod p --cards -o json", capsys))
        assert [(each["node"], each["reason"]) for each in made["cards"]] == [("n1", "InUse"), ("n1", "InUse")]
        assert [each["node"] for each in made["nodes"]] == ["n1"]
        assert made["summary"]["cards"] == {"InUse": 2}
        assert made["verdict"].startswith("Pod team/p waits")

    async def test_who_may_not_list_cards_gets_the_answer_without_them(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        said = queued_body("p", says="Waiting")
        said["status"]["conditions"][0]["message"] = "It waits. When this was written: 8 cards: 8 in use."
        out = await self.said(Api(said, forbidden=("gpudevices",)), "explain pod p --cards", capsys)
        assert "Waiting: It waits. When this was written: 8 cards: 8 in use." in out
        assert "? Verdicts on cards and nodes need the right to list GPUDevices, Nodes and the pool's pods" in out
        assert "VERDICT" not in out

    async def test_a_pod_that_asks_for_two_pools_has_a_table_of_each(self, capsys: pytest.CaptureFixture[str]) -> None:
        """The webhook lets none such in; one may have come past it."""
        body = queued_body("p")
        more = {"name": "more", "resources": {"limits": {names.resource_name("other"): "1"}}}
        body["spec"]["containers"].append(more)
        api = Api(body, pools=[objects.pool(POOL), objects.pool("other")])
        out = await self.said(api, "explain pod p --cards", capsys)
        assert [line for line in out.splitlines() if line.startswith("GPUPool ")] == [
            f"GPUPool {each}:" for each in sorted((POOL, "other"))
        ]
        made = json.loads(await self.said(api, "explain pod p --cards -o json", capsys))
        assert [made["pool"], *(each["pool"] for each in made["otherPools"])] == sorted((POOL, "other"))

    async def test_it_goes_with_pods_alone(self) -> None:
        with pytest.raises(UsageError, match="--cards goes with a pod"):
            await explaining.explain(Api(), build().parse_args(["explain", "pool", "a", "--cards"]))  # type: ignore[arg-type]
