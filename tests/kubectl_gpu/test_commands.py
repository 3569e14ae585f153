"""Lists, assignments and their mistakes, through the real kubectl in a real cluster."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import yaml

from controllers.api import names, resources
from kubectl_gpu.main import main
from tests.kubectl_gpu.conftest import Kubectl
from tests.slice.people import People

pytestmark = pytest.mark.cluster


def of(people: People, node: str) -> list[str]:
    return sorted(device.name for device in people.view.devices if device.status.node_name == node)


async def test_nodes_and_cards_are_listed_filtered_and_given_to_programs(people: People, kubectl: Kubectl) -> None:
    header, *rows = kubectl.gpu("nodes").splitlines()
    assert header.split() == ["NODE", "READY", "REASON", "CARDS", "POOLS", "PENDING", "DRIVER", "AGE"]
    assert [row.split()[0] for row in rows] == ["gpu-1", "gpu-2", "gpu-3", "gpu-4"]
    assert "4 x NVIDIA L40S" in kubectl.gpu("nodes", "gpu-3", "-o", "wide")

    cards = of(people, "gpu-3")
    rows = kubectl.gpu("cards", "--node", "gpu-3", "--no-headers").splitlines()
    assert [row.split()[0] for row in rows] == cards
    assert kubectl.gpu("cards", "-l", f"{names.LABEL_NODE}=gpu-3", "-o", "name").split() == [
        f"gpudevice.{names.GROUP}/{card}" for card in cards
    ]
    items = kubectl.json("cards", "--node", "gpu-3", "--state", "Unassigned")["items"]
    assert [item["metadata"]["name"] for item in items] == cards
    assert {item["kind"] for item in items} == {"GPUDevice"}
    assert yaml.safe_load(kubectl.gpu("nodes", "gpu-3", "-o", "yaml"))["items"][0]["metadata"]["name"] == "gpu-3"

    found = kubectl.run("gpu", "cards", "--state", "Faulted")
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "No card matches.\n")


async def test_versions_are_those_of_the_nodes(people: People, kubectl: Kubectl) -> None:
    header, *rows = kubectl.gpu("versions").splitlines()
    assert header.split() == ["COMPONENT", "VERSION", "WANTED", "NODES", "NAMES"]
    assert len([row for row in rows if row.startswith("driver ")]) > 1  # the nodes' shapes come with their own
    (toolkit,) = (one for one in kubectl.json("versions")["versions"] if one["component"] == "toolkit")
    assert toolkit["nodes"] == ["gpu-1", "gpu-2", "gpu-3", "gpu-4"]

    skew = kubectl.json("versions", "--skew")["versions"]
    assert "driver" in {one["component"] for one in skew}
    assert "toolkit" not in {one["component"] for one in skew}
    one = kubectl.run("gpu", "versions", "--skew", "-l", f"{names.LABEL_HOSTNAME}=nobody")
    assert (one.returncode, one.stdout) == (0, "")
    assert "No node tells its versions yet" in one.stderr


async def test_cards_are_assigned_and_unassigned_and_waited_for(people: People, kubectl: Kubectl) -> None:
    pool, (first, second, *_) = "by-hand", of(people, "gpu-3")
    await people.pool(pool)
    inventory_id = people.view.devices.get(first).status.inventory_id  # type: ignore[union-attr]

    said = kubectl.gpu("assign", str(inventory_id), second, pool, "--dry-run=server")
    assert f"{first} (gpu-3, NVIDIA L40S): no pool → {pool}" in said
    assert "2 cards assigned to by-hand (dry run on the server: nothing is refused)." in said
    assert f"→ {pool}" in kubectl.gpu("assign", first, pool, "--dry-run=client")
    assert kubectl.json("cards", "--pool", pool)["items"] == []

    done = kubectl.run("gpu", "assign", str(inventory_id), second, pool, "--wait")
    assert (done.returncode, done.stderr) == (0, f"2 cards offered in {pool}.\n"), done.stdout
    assert len(kubectl.json("cards", "--pool", pool, "--state", "Assigned")["items"]) == 2
    assert "stays in by-hand" in kubectl.gpu("assign", first, pool)

    taken = kubectl.json("unassign", "--node", "gpu-3", "--wait")
    assert {(c["card"], c["before"], c["after"]) for c in taken["changes"] if c["before"]} == {
        (first, pool, None),
        (second, pool, None),
    }
    assert kubectl.json("cards", "--pool", pool)["items"] == []
    await people.retire(pool)


async def test_a_nodes_cards_that_another_pool_has_are_left_alone(people: People, kubectl: Kubectl) -> None:
    first, *rest = of(people, "gpu-4")
    await people.pool("one")
    await people.pool("two")
    kubectl.gpu("assign", first, "one")

    done = kubectl.run("gpu", "assign", "--node", "gpu-4", "two", "-o", "json", "--dry-run", "server")
    assert f"Left alone, since another pool has them: {first} (one)." in done.stderr
    assert all(f'"{card}"' in done.stdout for card in rest)
    assert f'"{first}"' not in done.stdout

    for pool in ("one", "two"):
        await people.retire(pool)


async def test_what_people_said_goes_into_a_file_and_back(people: People, kubectl: Kubectl, tmp_path: Path) -> None:
    pool, (first, second, *_) = "kept", of(people, "gpu-4")
    ignore, file = f"{names.LABEL_IGNORE}=true", str(tmp_path / "cards.yaml")
    await people.pool(pool)
    kubectl.gpu("assign", first, pool, "--wait")
    assert kubectl.run("label", "gpudevice", second, ignore).returncode == 0
    text = kubectl.gpu("export", "--node", "gpu-4")
    stored(file, text)
    assert [item["metadata"]["name"] for item in yaml.safe_load(text)["items"]] == [first, second]

    kubectl.gpu("unassign", first, "--wait")
    assert kubectl.run("label", "gpudevice", second, f"{names.LABEL_IGNORE}-").returncode == 0
    assert "2 cards restored, 0 as in the file, 0 left." in kubectl.gpu("apply", "-f", file)
    assert "0 cards restored, 2 as in the file, 0 left." in kubectl.gpu("apply", "-f", file)
    meta = {item["metadata"]["name"]: item["metadata"] for item in kubectl.json("cards", "--node", "gpu-4")["items"]}
    assert meta[first]["annotations"][names.ASSIGNMENT] == pool
    assert meta[second]["labels"][names.LABEL_IGNORE] == "true"

    plain = kubectl.run("apply", "-f", file)  # on cards that are there kubectl's own does it, without a look at uuids
    assert plain.returncode == 0, plain.stderr
    uuid = yaml.safe_load(text)["items"][0]["status"]["hardware"]["uuid"]
    stored(file, text.replace(uuid, "GPU-77777777-0000-0000-0000-000000000000"))
    kubectl.gpu("unassign", first, "--wait")
    assert f"another card is in its place: GPU-77777777-0000-0000-0000-000000000000 is expected, {uuid} found" in (
        kubectl.fails("apply", "-f", file)
    )
    assert kubectl.run("label", "gpudevice", second, f"{names.LABEL_IGNORE}-").returncode == 0
    await people.retire(pool)


def stored(file: str, text: str) -> None:
    Path(file).write_text(text, encoding="utf-8")


async def test_what_the_webhook_refuses_is_a_sentence_and_nothing_is_done(people: People, kubectl: Kubectl) -> None:
    pool, card, other = "only-h100", of(people, "gpu-3")[0], of(people, "gpu-1")[0]
    await people.pool(pool, deviceSelector={"include": {"products": ["NVIDIA H100 80GB HBM3"]}})

    said = kubectl.fails("assign", card, other, pool)
    assert f"error: {card}: {names.DEVICE_NOT_IN_SELECTOR}: GPUPool {pool} does not match card {card}" in said
    assert "1 card of 2 refused. Nothing was changed." in said
    assert kubectl.run("gpu", "assign", card, "-o", "name", other, pool).stdout == ""
    assert other not in kubectl.gpu("cards", "--pool", pool)
    device = people.view.devices.get(other)
    assert device is not None
    assert names.ASSIGNMENT not in device.metadata.annotations
    assert names.DEVICE_NOT_IN_SELECTOR in kubectl.fails("assign", card, pool, "--dry-run=server")

    await people.remove(resources.GPUPOOL, pool)


MISTYPED = {
    "cards --node gpu-9": "There is no node with cards 'gpu-9'. Did you mean gpu-",
    "cards --pool nothing": "There is no GPUPool 'nothing'.",
    "cards gpu-1-0000-19-00-9": "There is no card 'gpu-1-0000-19-00-9' here. Did you mean gpu-1-0000-19-00-0",
    "nodes gpu-11": "There is no node 'gpu-11' here. Did you mean gpu-1",
    "pools nothing": "There is no pool 'nothing' here.",
    "assign gpu-1-0000-19-00-0 nothing": f"{names.UNKNOWN_POOL}: there is no GPUPool 'nothing'.",
    "unassign": "Which cards? Name some",
    "unassign gpu-1-0000:19:00.7": "There is no card 'gpu-1-0000:19:00.7'. Did you mean gpu-1-0000:19:00.0",
    "unassign --node gpu-9": "Node 'gpu-9' has no cards. Did you mean gpu-",
    "queue nothing": "There is no GPUPool 'nothing'.",
    "release nobody": "There is no pod 'nobody' in namespace default.",
    "explain node gpu-9": "There is no node with cards 'gpu-9'. Did you mean gpu-",
    "explain pool nothing": "There is no GPUPool 'nothing'.",
    "explain deployment nobody": "There is no deployment 'nobody' in namespace default.",
    "explain card gpu-1-0000-19-00-9": "There is no card 'gpu-1-0000-19-00-9'. Did you mean gpu-1-0000-19-00-0",
    "explain pod nobody": "There is no pod 'nobody' in namespace default, and nothing fails to make one",
    "nodes --context nowhere": "There is no context 'nowhere' in the kubeconfig.",
    "nodes --kubeconfig /nowhere": "There is no kubeconfig /nowhere.",
    "nodes --as-group admins": "--as-group needs --as",
}
USAGE = {
    "": "the following arguments are required: COMMAND. See kubectl gpu --help",
    "cads": "invalid choice: 'cads'",
    "cards --state Broken": "invalid choice: 'Broken'",
    "assign": "the following arguments are required: pool",
    "explain pod": "the following arguments are required: name",
    "assign a b --timeout soon": "a time is a number of seconds, such as 60, not 'soon'",
    "nodes -o xml": "invalid choice: 'xml'",
    "queue a b": "unrecognized arguments: b",
    "queue -o name": "invalid choice: 'name'",
    "release": "the following arguments are required: pod",
    "release a b": "unrecognized arguments: b",
}


async def test_a_mistake_is_a_sentence(
    people: People, kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, in a thread with a loop of its own: each would take a second to start."""
    monkeypatch.setenv("KUBECONFIG", str(kubectl.plane.kubeconfig))
    for typed, sentence in MISTYPED.items():
        assert await asyncio.to_thread(main, typed.split()) == 1, typed
        assert sentence in capsys.readouterr().err, typed
    for typed, sentence in USAGE.items():
        with pytest.raises(SystemExit) as ended:
            main(typed.split())
        assert ended.value.code == 2, typed
        assert sentence in capsys.readouterr().err, typed
    assert "There is no pool 'nothing' here." in kubectl.fails("pools", "nothing")
    assert "invalid choice: 'cads'" in kubectl.fails("cads", status=2)


async def test_help_names_every_command(kubectl: Kubectl) -> None:
    said = kubectl.gpu("--help")
    assert all(
        f"\n    {c} " in said
        for c in ("nodes", "cards", "pools", "queue", "release", "assign", "unassign", "explain", "export", "apply")
    )
    assert "\n    completion " in said
    assert "exit status" in said
    assert "--dry-run" in kubectl.gpu("assign", "--help")
    assert "--no-headers" in kubectl.gpu("queue", "--help")
    assert "--dry-run" in kubectl.gpu("release", "--help")


async def test_no_cluster_is_a_sentence(kubectl: Kubectl) -> None:
    away = "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n"
    away += "clusters: [{name: a, cluster: {server: 'http://127.0.0.1:9'}}]\nusers: [{name: a, user: {}}]\n"
    path = kubectl.programs / "away.kubeconfig"
    path.write_text(away)
    assert "The API server does not answer" in kubectl.fails("nodes", "--kubeconfig", str(path))
    broken = kubectl.programs / "broken.kubeconfig"
    broken.write_text("just words")
    assert f"cannot use {broken}" in kubectl.fails("nodes", "--kubeconfig", str(broken))
    assert "There is no kubeconfig" in Kubectl(kubectl.plane, kubectl.programs, {"KUBECONFIG": "/no"}).fails("nodes")
