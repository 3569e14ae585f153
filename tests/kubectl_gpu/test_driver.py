"""`kubectl gpu driver`: how far the drivers are, which node is kept by what, and what to do about it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controllers.api import names
from controllers.api.resources import GPUDRIVER, GPUNODEINVENTORY
from controllers.explain.faults import UsageError
from kubectl_gpu import drivers, versions
from kubectl_gpu.parser import build
from tests.kit import objects
from tests.kubectl_gpu.drivers import SINCE, Api, condition, driver, node

MISSING = "the registry does not have nvcr.io/nvidia/driver:580.1-ubuntu24.04"

MAIN = driver(
    "main",
    target="0123456789",
    state="Blocked",
    counts={"nodes": 4, "current": 2, "busy": 1, "blocked": 1},
    revisions=[{"hash": "0123456789", "version": "580.178.04", "result": "Good", "since": SINCE}],
    nodes=[
        {"name": "n1", "phase": "Blocked", "reason": "ImageMissing", "since": SINCE},
        {"name": "n2", "phase": "Queued", "reason": "NodeCordoned", "since": SINCE},
        {"name": "n3", "phase": "Current"},
        {"name": "n4", "phase": "Host"},
    ],
    conditions=[
        condition("Ready", "NodesBlocked", "of 4 nodes 2 as asked for, 1 cannot get it", "False"),
        condition("Blocked", "ImageMissing", "ImageMissing: 1 node"),
        condition("Overlaps", "AsExpected", "no node is matched by others", "False"),
    ],
)


CLUSTER = Api(
    (MAIN, driver("other")),
    (
        node("n1", phase="Blocked", reason="ImageMissing", message=MISSING),
        node("n2", phase="Queued", reason="NodeCordoned", message="the node is cordoned"),
        node("n3"),
        node("n4"),
    ),
)


async def said(api: Any, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, str]:
    assert await drivers.driver(api, build().parse_args(["driver", *words])) == 0
    told = capsys.readouterr()
    return told.out, told.err


@pytest.mark.parametrize("words", [[], ["status"]])
async def test_all_drivers_are_listed_with_their_nodes_by_how_far_they_are(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = await said(CLUSTER, capsys, *words)
    rows = [line.split() for line in out.splitlines()]

    assert rows[0] == ["DRIVER", "VERSION", "MODE", "NODES", "CURRENT", "BUSY", "BLOCKED", "FAILED", "STATE", "AGE"]
    assert rows[1][:9] == ["main", "580.178.04", "Auto", "4", "2", "1", "1", "0", "Blocked"]
    assert rows[2][:9] == ["other", "580.178.04", "Auto", "-", "-", "-", "-", "-", "-"]
    assert err == ""


async def test_wide_has_what_few_ask_for(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = await said(CLUSTER, capsys, "-o", "wide")

    assert "0123456789" in out
    assert out.split()[9:13] == ["FLAVOUR", "REVISION", "PRIORITY", "OVERLAPS"]


@pytest.mark.parametrize("words", [["main"], ["status", "main"]])
async def test_one_driver_names_what_keeps_its_nodes_and_the_cure(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out, _ = await said(CLUSTER, capsys, *words)
    lines = out.splitlines()

    assert lines[0] == "GPUDriver main, version 580.178.04: 2 of 4 nodes as asked for."
    at = next(number for number, line in enumerate(lines) if "Blocked (ImageMissing)" in line)
    assert "mirror the image, or name one in spec.image.overrides" in lines[at + 1]
    assert any("kubectl uncordon n2" in line for line in lines)
    rows = [line.split() for line in lines[-3:]]
    assert rows[0] == ["NODE", "PHASE", "SINCE", "REASON", "MESSAGE"]
    assert rows[1][:2] + rows[1][3:4] == ["n1", "Blocked", "ImageMissing"]
    assert MISSING in lines[-2]
    assert rows[2][:2] == ["n2", "Queued"]


async def test_nodes_that_are_well_are_shown_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = await said(CLUSTER, capsys, "main", "-o", "wide")

    assert [line.split()[0] for line in out.splitlines()[-4:]] == ["n1", "n2", "n3", "n4"]


async def test_programs_get_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    one = json.loads((await said(CLUSTER, capsys, "main", "-o", "json"))[0])
    every = json.loads((await said(CLUSTER, capsys, "-o", "json"))[0])
    name, _ = await said(CLUSTER, capsys, "main", "-o", "name")

    assert one["nodes"][0] == {
        "name": "n1", "phase": "Blocked", "reason": "ImageMissing", "since": SINCE, "message": MISSING, "wave": None,
        "stratum": "",
    }  # fmt: skip
    assert one["findings"]
    assert [item["metadata"]["name"] for item in every["items"]] == ["main", "other"]
    assert name == "gpudriver.gpu.deckhouse.io/main\n"


async def test_a_driver_that_nobody_looks_at_says_which_setting_is_off(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = await said(CLUSTER, capsys, "other")

    assert out == "GPUDriver other has not been looked at yet: is setting driver.enabled on?\n"


async def test_without_drivers_that_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert await said(Api(), capsys) == ("", f"{drivers.NONE}\n")


async def test_who_may_not_read_nodes_hears_so_and_gets_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    api = Api(CLUSTER.drivers, CLUSTER.nodes, (GPUNODEINVENTORY,))
    out, _ = await said(api, capsys, "main")

    assert "Blocked (ImageMissing)" in out
    assert MISSING not in out
    assert any(line.startswith("  ? ") for line in out.splitlines())


async def test_a_name_that_is_mistyped_is_guessed() -> None:
    with pytest.raises(UsageError, match=r"There is no GPUDriver 'mian'\. Did you mean main\?"):
        await drivers.driver(CLUSTER, build().parse_args(["driver", "mian"]))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="One driver at a time"):
        await drivers.driver(CLUSTER, build().parse_args(["driver", "main", "other"]))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="Which node"):
        await drivers.driver(CLUSTER, build().parse_args(["driver", "retry"]))  # type: ignore[arg-type]


async def test_a_node_is_marked_to_be_tried_again(capsys: pytest.CaptureFixture[str]) -> None:
    api = Api(CLUSTER.drivers, CLUSTER.nodes)
    out, _ = await said(api, capsys, "retry", "n1", "n2")
    assert out == "Node n1 is tried again.\nNode n2 is tried again.\n"
    assert api.marked == [("n1", names.DRIVER_RETRY, "true", False), ("n2", names.DRIVER_RETRY, "true", False)]

    await said(api, capsys, "retry", "n1", "--dry-run=server")
    out, _ = await said(api, capsys, "retry", "n1", "--dry-run")
    assert out == "Node n1 is tried again (dry run on the client).\n"
    assert api.marked[2:] == [("n1", names.DRIVER_RETRY, "true", True)]


async def test_versions_tell_the_driver_that_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    running = [objects.inventory("n3", software=[{"component": "driver", "running": "580.178.04"}])]
    running += [objects.inventory("n2", software=[{"component": "driver", "running": "570.1.2"}]), node("n1")]
    api = Api((MAIN,), tuple(running))
    assert await versions.versions(api, build().parse_args(["versions", "--no-headers"])) == 0  # type: ignore[arg-type]
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]

    assert sorted(rows) == sorted(
        [
            ["driver", "580.178.04", "-", "1", "n3"],
            ["driver", "570.1.2", "580.178.04", "1", "n2"],
            ["driver", "-", "580.178.04", "1", "n1"],
        ]
    )


async def test_versions_are_told_where_drivers_cannot_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    running = (objects.inventory("n2", software=[{"component": "driver", "running": "570.1.2"}]),)
    api = Api((MAIN,), running, (GPUDRIVER,))
    assert await versions.versions(api, build().parse_args(["versions", "--no-headers"])) == 0  # type: ignore[arg-type]

    assert capsys.readouterr().out.split() == ["driver", "570.1.2", "-", "1", "n2"]
