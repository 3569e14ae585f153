"""`kubectl gpu versions`: which versions run where, what differs, and what is said where nothing does."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.resources import GPUDRIVER, GPUNODEINVENTORY, Resource
from kubectl_gpu import versions
from kubectl_gpu.cluster import Found
from kubectl_gpu.parser import build
from tests.kit import objects

DIGEST = f"sha256:{'0123456789ab' + 'f' * 52}"


def node(name: str, **software: str | tuple[str, str]) -> GPUNodeInventory:
    """A node that runs these versions; of two the second is wanted."""
    told = []
    for component, version in software.items():
        running, wanted = (version, None) if isinstance(version, str) else version
        told.append({"component": component.replace("_", "-"), "running": running, "wanted": wanted})
    return objects.inventory(name, software=told)


class Api:
    """The nodes, as a cluster lists them."""

    def __init__(self, *nodes: GPUNodeInventory) -> None:
        self.nodes, self.labels = nodes, ""

    async def list(self, resource: Resource, cls: type[Any], *, labels: str | None = None) -> list[Found[Any]]:
        if resource == GPUDRIVER:
            return []
        assert (resource, cls) == (GPUNODEINVENTORY, GPUNodeInventory)
        self.labels = labels or ""
        return [Found({}, one) for one in self.nodes]


async def lines(api: Any, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[list[list[str]], str]:
    """The table's cells, and what is said beside it."""
    assert await versions.versions(api, build().parse_args(["versions", *words])) == 0
    told = capsys.readouterr()
    return [[cell for cell in line.split("  ") if cell] for line in told.out.splitlines()], told.err


def cells(rows: list[list[str]]) -> list[list[str]]:
    return [[cell.strip() for cell in row] for row in rows]


MIXED = (
    node("c", gfd=("v3", "v3"), kernel="6.8", toolkit=("v1", "v2"), own_tool="1"),
    node("a", gfd=("v3", "v3"), kernel="6.9", toolkit=("v2", "v2")),
    node("b", gfd=("v3", "v3"), kernel="6.8", toolkit=("v2", "v2")),
)


async def test_each_version_is_a_line_with_its_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    rows, said = await lines(Api(*MIXED), capsys)
    assert cells(rows) == [
        ["COMPONENT", "VERSION", "WANTED", "NODES", "NAMES"],
        ["kernel", "6.8", "-", "2", "b, c"],
        ["kernel", "6.9", "-", "1", "a"],
        ["toolkit", "v2", "-", "2", "a, b"],
        ["toolkit", "v1", "v2", "1", "c"],
        ["gfd", "v3", "-", "3", "a, b, c"],
        ["own-tool", "1", "-", "1", "c"],
    ]
    assert said == ""


async def test_skew_is_several_versions_or_another_that_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    rows, _ = await lines(Api(*MIXED), capsys, "--skew", "--no-headers")
    assert {row[0] for row in cells(rows)} == {"kernel", "toolkit"}
    assert len(rows) == 4

    rows, _ = await lines(Api(node("a", gfd=("v1", "v2"), kernel="6")), capsys, "--skew", "--no-headers")
    assert cells(rows) == [["gfd", "v1", "v2", "1", "a"]]


async def test_of_many_nodes_the_first_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    rows, _ = await lines(Api(*(node(f"n{at}", kernel="6") for at in range(9))), capsys, "--no-headers")
    assert cells(rows) == [["kernel", "6", "-", "9", "n0, n1, n2, n3, n4 and 4 more"]]


async def test_a_digest_is_whole_only_where_there_is_room(capsys: pytest.CaptureFixture[str]) -> None:
    api = Api(node("a", gfd=(f"v1@{DIGEST}", DIGEST)))
    rows, _ = await lines(api, capsys, "--no-headers")
    assert cells(rows)[0][1:3] == ["v1@sha256:0123456789ab", "sha256:0123456789ab"]
    rows, _ = await lines(api, capsys, "--no-headers", "-o", "wide")
    assert cells(rows)[0][1:3] == [f"v1@{DIGEST}", DIGEST]


@pytest.mark.parametrize("form", ["json", "yaml"])
async def test_programs_get_every_node(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    api = Api(*(node(f"n{at}", gfd=("v1", "v2")) for at in range(9)))
    assert await versions.versions(api, build().parse_args(["versions", "-o", form, "-l", "a=b"])) == 0  # type: ignore[arg-type]
    told = capsys.readouterr().out
    (one,) = (json.loads(told) if form == "json" else yaml.safe_load(told))["versions"]
    assert one == {"component": "gfd", "version": "v1", "wanted": "v2", "nodes": [f"n{at}" for at in range(9)]}
    assert api.labels == "a=b"


@pytest.mark.parametrize(
    ("nodes", "words", "sentence"),
    [
        ((), [], versions.NONE),
        ((node("a"),), ["--skew"], versions.NONE),
        ((node("a", gfd=("v1", "v1")), node("b", gfd=("v1", "v1"))), ["--skew"], versions.NO_SKEW),
    ],
)
async def test_where_there_is_nothing_to_show_that_is_said(
    nodes: Any, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await lines(Api(*nodes), capsys, *words) == ([], f"{sentence}\n")
    assert await versions.versions(Api(*nodes), build().parse_args(["versions", *words, "-o", "json"])) == 0  # type: ignore[arg-type]
    assert json.loads(capsys.readouterr().out) == {"versions": []}
