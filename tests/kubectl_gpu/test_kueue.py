"""`kubectl gpu kueue`: objects of Kueue for a pool as it is, printed and never written."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from controllers.api.gpupool import GPUPool
from controllers.api.record import to_json
from controllers.explain.faults import UsageError
from controllers.explain.kueue import TOLERATIONS_MAX, kueue_objects
from controllers.runtime.errors import NotFound
from kubectl_gpu import kueue
from kubectl_gpu.cluster import Found
from kubectl_gpu.parser import build
from tests.kit import objects

RESOURCE = "gpu.deckhouse.io/training"


def pool(total: int = 8, unavailable: int = 2, **spec: Any) -> GPUPool:
    capacity = {"unit": "card", "total": total, "used": 5, "unavailable": unavailable, "available": 1}
    return objects.pool("training", status={"capacity": capacity}, **spec)


def quota(queue: dict[str, Any]) -> Any:
    (group,) = queue["spec"]["resourceGroups"]
    ((flavor,), (resource,)) = group["flavors"], group["coveredResources"]
    (entry,) = flavor["resources"]
    assert (resource, entry["name"]) == (RESOURCE, RESOURCE)
    return flavor["name"], entry["nominalQuota"]


def test_the_quota_is_what_the_pool_can_give_and_the_flavor_its_nodes() -> None:
    flavor, queue = kueue_objects(pool())
    assert (flavor["kind"], flavor["metadata"]["name"]) == ("ResourceFlavor", "gpu-training")
    assert flavor["spec"] == {"nodeLabels": {"gpu.deckhouse.io/pool.training": "true"}}
    assert (queue["kind"], queue["metadata"]["name"]) == ("ClusterQueue", "gpu-training")
    assert quota(queue) == ("gpu-training", 6)
    assert {one["apiVersion"] for one in (flavor, queue)} == {"kueue.x-k8s.io/v1beta2"}


def test_more_unavailable_than_there_is_makes_no_negative_quota() -> None:
    assert quota(kueue_objects(pool(total=1, unavailable=2))[1]) == ("gpu-training", 0)


def test_the_flavor_tolerates_the_pools_taints_and_no_more_than_kueue_takes() -> None:
    taints = [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}, {"key": "bare", "effect": "NoExecute"}]
    flavor, _ = kueue_objects(pool(scheduling={"taints": taints}))
    assert flavor["spec"]["tolerations"] == [
        {"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"},
        {"key": "bare", "operator": "Equal", "value": "", "effect": "NoExecute"},
    ]
    many = [{"key": f"k{number}", "effect": "NoSchedule"} for number in range(20)]
    flavor, _ = kueue_objects(pool(scheduling={"taints": many}))
    assert len(flavor["spec"]["tolerations"]) == TOLERATIONS_MAX


@pytest.mark.parametrize(
    ("access", "selector"),
    [
        (None, {}),
        ({"namespaces": []}, {}),
        (
            {"namespaces": ["b", "a"]},
            {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"]}]},
        ),
        ({"namespaces": ["a"], "serviceAccounts": ["b/c"]}, {}),
        ({"namespaces": ["a"], "namespaceSelector": {"matchLabels": {"x": "y"}}}, {}),
    ],
)
def test_the_queue_is_open_to_whoever_may_use_the_pool(access: Any, selector: Any) -> None:
    _, queue = kueue_objects(pool(access=access))
    assert queue["spec"]["namespaceSelector"] == selector


def test_a_pool_without_figures_has_no_quota() -> None:
    with pytest.raises(UsageError, match="GPUPool new has no figures yet"):
        kueue_objects(objects.pool("new"))


class Api:
    """One pool, and no way to write."""

    async def get(self, _: Any, __: Any, name: str, ___: Any = None) -> Found[GPUPool]:
        if name != "training":
            raise NotFound(404, "NotFound", f'gpupools.gpu.deckhouse.io "{name}" not found', about=name)
        found = pool()
        return Found(to_json(found), found)

    async def list(self, *_: Any, **__: Any) -> list[Found[GPUPool]]:
        return [await self.get(None, None, "training")]


async def command(line: str) -> int:
    return await kueue.kueue(Api(), build().parse_args(line.split()))  # type: ignore[arg-type]


async def test_both_are_printed_as_a_list_that_kubectl_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert await command("kueue training") == 0
    said = capsys.readouterr()
    shown = yaml.safe_load(said.out)
    assert (shown["kind"], [item["kind"] for item in shown["items"]]) == ("List", ["ResourceFlavor", "ClusterQueue"])
    assert "printed, not written" in said.err
    assert await command("kueue training -o json") == 0
    assert json.loads(capsys.readouterr().out) == shown


async def test_a_mistyped_pool_is_guessed() -> None:
    with pytest.raises(UsageError, match=r"There is no GPUPool 'trainin'\..*training"):
        await command("kueue trainin")
