"""`kubectl gpu images`: every image that is run, as it is configured, with and without a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from controllers.api.components import COMPONENTS
from controllers.api.gpudriver import GPUDriver
from controllers.api.record import adapter
from controllers.explain import images
from kubectl_gpu.main import main
from tests.kubectl_gpu.conftest import Here
from tests.slice.people import People

ROOT = Path(__file__).resolve().parents[2]
MIRROR = "mirror.example.com/nvidia"


def driver(**spec: Any) -> GPUDriver:
    body = {"version": "580.178.04", "mode": "Compiled", **spec}
    return adapter(GPUDriver).validate_python({"metadata": {"name": "main"}, "spec": body})


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, ["nvcr.io/nvidia/driver:580.178.04-ubuntu24.04"]),
        ({"mode": "Host"}, []),
        ({"mode": "Precompiled"}, ["nvcr.io/nvidia/driver:580-6.8.0-60-generic-ubuntu24.04"]),
        ({"mode": "Auto"}, ["nvcr.io/nvidia/driver:580-6.8.0-60-generic-ubuntu24.04",
                            "nvcr.io/nvidia/driver:580.178.04-ubuntu24.04"]),
        ({"image": {"repository": MIRROR, "overrides": [{"system": "ubuntu24.04", "image": "x.example.com/d:1"}]}},
         ["x.example.com/d:1"]),
        ({"gdrcopy": {"enabled": True, "image": "x.example.com/gdr", "version": "v2.6"}},
         ["nvcr.io/nvidia/driver:580.178.04-ubuntu24.04", "x.example.com/gdr:v2.6-ubuntu24.04"]),
    ],
)  # fmt: skip
def test_a_drivers_images_follow_from_systems_and_kernels(spec: dict[str, Any], expected: list[str]) -> None:
    found = images.driver_images([driver(**spec)], {("ubuntu24.04", ""), ("ubuntu24.04", "6.8.0-60-generic")})
    assert [one["image"] for one in images.merged(found)] == expected


def test_a_kernel_that_is_not_named_has_no_image_of_its_own() -> None:
    assert images.driver_images([driver(mode="Precompiled")], {("ubuntu24.04", "")}) == []
    assert images.driver_images([driver()], {("plan9", "4")}) == []


def test_an_air_gapped_install_is_listed_from_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = {"bootstrap": {"gfd": {"enabled": False}, "toolkit": {"repository": MIRROR, "version": "v1.21.0"}}}
    config = {"kind": "ModuleConfig", "spec": {"version": 2, "settings": settings}}
    made = {"kind": "GPUDriver", "metadata": {"name": "main"}, "spec": {"version": "580.178.04", "mode": "Compiled"}}
    file = tmp_path / "objects.yaml"
    file.write_text(yaml.safe_dump({"kind": "List", "items": [config, made]}))
    values = str(ROOT / "values.yaml")
    assert main(["images", "-f", values, "-f", str(file), "--system", "ubuntu24.04"]) == 0
    printed = capsys.readouterr()
    others = {one.image for one in COMPONENTS if one.image and one.name not in ("gfd", "toolkit")}
    assert printed.err == ""
    assert {*printed.out.splitlines()} == others | {
        f"{MIRROR}/container-toolkit:v1.21.0",
        "nvcr.io/nvidia/driver:580.178.04-ubuntu24.04",
        "registry.local/gpu-control-plane/controllers:dev",
        "registry.local/gpu-control-plane/nodeagent:dev",
    }
    assert main(["images", "-f", str(file), "-o", "json"]) == 0
    printed = capsys.readouterr()
    assert {"image": f"{MIRROR}/container-toolkit:v1.21.0", "for": ["toolkit"]} in json.loads(printed.out)["images"]
    assert "own images are not among them" in printed.err
    assert "give --system" in printed.err


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        ("{", [], "is no YAML in line 1"),
        ("- 1", [], "holds no objects"),
        ("kind: ModuleConfig\nspec: {version: 2, settings: {nope: 1}}", [], "there is no such setting"),
        ("", ["--kernel", "6.8"], "--kernel needs --system"),
    ],
)
def test_a_mistake_is_a_message(
    tmp_path: Path, text: str, more: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(text)
    assert main(["images", "-f", str(file), *more]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.cluster
async def test_a_clusters_images_are_those_of_its_workloads_and_settings(people: People, here: Here) -> None:
    found = {one["image"]: one["for"] for one in json.loads((await here("images", "-o", "json")).out)["images"]}
    toolkit = next(one.image for one in COMPONENTS if one.name == "toolkit")
    assert "toolkit" in found[toolkit]
    assert any(use.startswith("DaemonSet ") for use in found[toolkit])
    assert {*(await here("images")).out.splitlines()} == {*found}
