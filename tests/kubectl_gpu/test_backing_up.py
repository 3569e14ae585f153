"""`kubectl gpu backup` and `restore`: a cluster that is made anew has what people decided, and nothing goes unsaid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from controllers.api import names, resources
from controllers.api.gpudriver import GPUDriver
from controllers.api.record import adapter
from controllers.explain import backup
from controllers.explain.faults import UsageError
from controllers.explain.writes import between, extended, replaced
from tests.kit import objects
from tests.kubectl_gpu.conftest import Here
from tests.kubectl_gpu.test_keeping import card
from tests.slice.people import People

POOL = {"apiVersion": "gpu.deckhouse.io/v1alpha1", "kind": "GPUPool"}


def stored(kind: str = "GPUPool", name: str = "a", **more: Any) -> dict[str, Any]:
    """An object as the API server has it."""
    meta = {"name": name, "uid": "u", "resourceVersion": "7", "managedFields": [], "finalizers": ["f"]}
    version = "deckhouse.io/v1alpha1" if kind == "ModuleConfig" else POOL["apiVersion"]
    made = {"apiVersion": version, "kind": kind, "metadata": meta | more.pop("meta", {}), "spec": {"x": 1}}
    return made | {"status": {"y": 2}} | more


def test_what_a_cluster_adds_is_not_in_the_file() -> None:
    marks = {"labels": {"team": "x"}, "annotations": {"a": "b", names.RESUME: "1"}}
    listed = backup.backed_up([stored("GPUDriver"), stored(meta=marks), stored("ModuleConfig", "m")], [])
    assert [item["kind"] for item in listed["items"]] == ["ModuleConfig", "GPUPool", "GPUDriver"]
    pool = listed["items"][1]
    assert pool == POOL | {
        "metadata": {"name": "a", "labels": {"team": "x"}, "annotations": {"a": "b"}},
        "spec": {"x": 1},
    }


def test_a_file_is_read_as_it_was_written_whatever_its_form() -> None:
    listed = backup.backed_up([stored("GPUDriver"), stored()], [])
    for text in (yaml.safe_dump(listed), json.dumps(listed), yaml.safe_dump_all(listed["items"])):
        found = backup.read(text, "x")
        assert [one["kind"] for one in found.objects] == ["GPUPool", "GPUDriver"]


@pytest.mark.parametrize(("text", "told"), [
    ("{", "is no YAML"),
    ("words", "holds no objects"),
    ("kind: List\nitems: [3]\n", "holds no objects"),
    ("kind: Pod\napiVersion: v1\n", "is not what kubectl gpu"),
    ("kind: GPUPool\n", "is not what kubectl gpu"),
])  # fmt: skip
def test_another_file_is_a_mistake(text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        backup.read(text, "x")


def test_a_card_is_known_by_its_uuid_wherever_it_is_now() -> None:
    marks = [one for one in _marks(card(0), card(1), card(2, None)) if one is not None]
    moved = objects.card("new-name", 5, hardware={"uuid": "GPU-00000001"})
    twice = [objects.card("n9", n, hardware={"uuid": "GPU-00000000"}) for n in (1, 2)]
    found = backup.located(marks, [moved, *twice])
    assert [one.name for one in found] == ["n1-0000-00-00-0", moved.name, "n1-0000-02-00-0"]


def _marks(*cards: Any) -> list[Any]:
    from controllers.explain.card_marks import CardMarks

    return [CardMarks(one.name, one.status.hardware.uuid, {names.ASSIGNMENT: "a"}) for one in cards]


def test_what_a_driver_names_beside_is_in_no_backup() -> None:
    spec = {"version": "580.1.2", "type": "VGPUGuest", "image": {"pullSecrets": ["p"]},
            "licensing": {"secretName": "l"},
            "build": {"secretEnv": "e", "repositories": {"configMap": "r"}}}  # fmt: skip
    driver = adapter(GPUDriver).validate_python({"metadata": {"name": "d"}, "spec": spec})
    assert backup.beside([driver]) == ["ConfigMap r", "Secret e", "Secret l", "Secret p"]


@pytest.mark.parametrize(
    ("there", "then", "action", "paths"),
    [
        (None, {"a": 1}, "Create", []),
        ({"a": 1}, {"a": 1}, "Same", []),
        ({"a": 1}, {"a": 1, "b": {"c": 2}}, "Extend", ["spec.b"]),
        ({"a": {"b": 1}}, {"a": {"b": 2, "c": 3}}, "Change", ["spec.a.b", "spec.a.c"]),
        ({"a": 1, "b": 2}, {"a": 1}, "Change", ["spec.b"]),
        ({"a": [1]}, {"a": [1, 2]}, "Change", ["spec.a"]),
    ],
)
def test_a_difference_is_said_by_its_paths(there: Any, then: Any, action: str, paths: list[str]) -> None:
    raw = None if there is None else {"metadata": {}, "spec": there}
    found, differing = between(raw, {"metadata": {}, "spec": then})
    assert (found, [one.path for one in differing]) == (action, paths)


def test_a_replaced_object_keeps_its_finalizers_and_what_others_marked() -> None:
    there = stored(meta={"labels": {"mine": "1"}})
    wanted = POOL | {"metadata": {"name": "a", "labels": {"team": "x"}}, "spec": {"z": 3}}
    made = replaced(there, wanted)
    assert (made["spec"], made["metadata"]["labels"]) == ({"z": 3}, {"mine": "1", "team": "x"})
    assert (made["metadata"]["finalizers"], made["metadata"]["resourceVersion"]) == (["f"], "7")
    assert extended({"a": {"b": 1}, "c": 2}, {"a": {"d": 4}}) == {"a": {"b": 1, "d": 4}, "c": 2}


@pytest.mark.cluster
async def test_a_wiped_cluster_is_as_it_was(people: People, here: Here, tmp_path: Path) -> None:
    one, two = "kept-a", "kept-b"
    cards = sorted(device.name for device in people.view.devices if device.status.node_name == "gpu-4")[:2]
    await people.pool(one, access={"namespaces": ["team"]}, scheduling={"strategy": "BinPack"})
    await people.pool(two, allocation={"mode": "TimeSlice", "timeSlice": {"maxSlicesPerDevice": 3}})
    await people.settings(scheduling={"defaultStrategy": "BinPack"})
    for name, pool in zip(cards, (one, two), strict=True):
        await people.annotate(name, pool)
    await people.view.until(lambda: people.cards(one) and people.cards(two), 60, lambda: "no card in its pool")

    file = tmp_path / "backup.yaml"
    file.write_text((await here("backup")).out)
    assert {(item["kind"], item["metadata"]["name"]) for item in yaml.safe_load(file.read_text())["items"]} >= {
        ("GPUPool", one), ("GPUPool", two), ("ModuleConfig", names.MODULE), *(("GPUDevice", name) for name in cards),
    }  # fmt: skip
    for name in cards:
        await people.annotate(name, None)
    for pool in (one, two):
        await people.retire(pool)
    await people.no_settings()

    status, shown, _ = await here("restore", "-f", str(file))
    assert f"GPUPool {one}: would be created" in shown
    assert people.view.pools.get(one) is None
    status, shown, _ = await here("restore", "-f", str(file), "--apply", "--wait")
    assert (status, f"GPUPool {two}: created" in shown, "2 cards restored" in shown) == (0, True, True), shown
    await people.view.until(lambda: people.cards(one) and people.cards(two), 60, lambda: "no card in its pool")
    assert (await here("backup")).out == file.read_text()

    status, shown, _ = await here("restore", "-f", str(file), "--apply")
    assert (status, "created" in shown, "replaced" in shown) == (0, False, False), shown
    body = {"spec": {"scheduling": {"strategy": "Spread"}}}
    await people.client.merge(resources.GPUPOOL, one, body, manager="test")
    status, shown, _ = await here("restore", "-f", str(file), "--apply")
    assert status == 1
    assert f"GPUPool {one}: left (spec.scheduling.strategy): it is there and differs" in shown
    status, shown, _ = await here("restore", "-f", str(file), "--apply", "--overwrite")
    assert (status, f"GPUPool {one}: replaced (spec.scheduling.strategy)" in shown) == (0, True), shown

    for name in cards:
        await people.annotate(name, None)
    for pool in (one, two):
        await people.retire(pool)
    await people.no_settings()
