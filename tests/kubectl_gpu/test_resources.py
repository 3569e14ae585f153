"""What plain kubectl shows of the module: `explain`, columns, short names, the category, events."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from controllers.api import resources
from tests.kit.waiting import PATIENCE, until
from tests.kubectl_gpu.conftest import Kubectl
from tests.slice.people import People

ROOT = Path(__file__).resolve().parents[2]
FILES = ("gpudevice.yaml", "gpunodeinventory.yaml", "gpupool.yaml", "gpudriver.yaml")
CRDS = [yaml.safe_load((ROOT / "crds" / name).read_text()) for name in FILES]
KINDS = [crd["spec"]["names"]["kind"] for crd in CRDS]
BY_THE_SERVER = {".apiVersion", ".kind", ".metadata"}
"""Fields that the API server describes by itself."""
REPORTERS = {"gpu-inventory", "gpu-bootstrap", "gpupool", "gpu-admission"}
DOES = re.compile(
    r"kubectl |\b(Add|Annotate|Change|Create|Give|Install|Look|Make|Mend|Name|Put|Raise|Remove|See"
    r"|Tell|Wait|Waiting|Confirm|keeps waiting|is free again)\b",
    re.IGNORECASE,
)
"""Words of a warning that say what to do, or who does it."""


def fields(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, node
    for key, value in node.get("properties", {}).items():
        yield from fields(value, f"{path}.{key}")
    items = node.get("items", {})
    for key, value in items.get("properties", {}).items():
        yield from fields(value, f"{path}[].{key}")


def schema(crd: dict[str, Any]) -> dict[str, Any]:
    return crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("crd", CRDS, ids=KINDS)
def test_every_field_is_described_by_a_sentence(crd: dict[str, Any]) -> None:
    found = [(path, node.get("description", "")) for path, node in fields(schema(crd)) if path not in BY_THE_SERVER]

    assert len(found) > 10
    assert [path for path, text in found if not re.match(r"[A-Z`].*\.$", text, re.DOTALL)] == []


@pytest.mark.parametrize("crd", CRDS, ids=KINDS)
def test_columns_show_what_there_is(crd: dict[str, Any]) -> None:
    """Each column's path leads to a field; names are not said twice; what everybody asks for is in the narrow ones."""
    known = {path for path, _ in fields(schema(crd))}
    columns = crd["spec"]["versions"][0]["additionalPrinterColumns"]
    for column in columns:
        path = re.sub(r"\[\?\(@\.type=='\w+'\)\]|\[0\]", "[]", column["jsonPath"])
        assert path in known or path == ".metadata.creationTimestamp", column

    assert len({column["name"] for column in columns}) == len(columns)
    narrow = {column["name"] for column in columns if not column.get("priority")}
    wanted = {
        "GPUDevice": {"Node", "Product", "State", "Pool"},
        "GPUNodeInventory": {"Ready", "Reason", "Driver"},
        "GPUPool": {"Mode", "Total", "Used", "Available", "Ready", "Waiting"},
        "GPUDriver": {"Version", "Mode", "Nodes", "Current", "Busy", "Failed", "State"},
    }
    assert wanted[crd["spec"]["names"]["kind"]] <= narrow
    assert columns[-1]["name"] == "Age"


@pytest.mark.cluster
async def test_short_names_the_category_and_explain(people: People, kubectl: Kubectl) -> None:
    shorts = {"gpudev": "GPUDevice", "gpunode": "GPUNodeInventory", "gpupool": "GPUPool", "gpudrv": "GPUDriver"}
    for short, kind in shorts.items():
        assert kubectl.run("get", short, "-o", "name").returncode == 0
        assert f"KIND:       {kind}" in kubectl.run("explain", short).stdout
    every = kubectl.run("get", "gpu", "-o", "name").stdout
    assert "gpudevice.gpu.deckhouse.io/gpu-1-" in every
    assert "gpunodeinventory.gpu.deckhouse.io/gpu-1" in every
    for path in ("gpupool.spec.deviceSelector.include", "gpudev.status.hardware", "gpunode.status.pools.pending"):
        assert "<no description>" not in kubectl.run("explain", path).stdout

    await people.pool("unsaid")
    columns = kubectl.run("get", "gpupool", "unsaid", "-o", "wide").stdout.split("\n")[0].split()
    assert columns == [
        "NAME",
        "MODE",
        "TOTAL",
        "USED",
        "RESERVED",
        "AVAILABLE",
        "READY",
        "WAITING",
        "UNAVAILABLE",
        "MAINTENANCE",
        "MISCONFIGURED",
        "MESSAGE",
        "AGE",
    ]

    def applied() -> bool:
        pool = people.view.pools.get("unsaid")
        return pool is not None and pool.status.applied_allocation is not None

    await people.view.until(applied, PATIENCE, lambda: "the pool has no status")
    assert " Exclusive " in kubectl.run("get", "gpupool", "unsaid").stdout, "the spec does not say the mode"
    await people.remove(resources.GPUPOOL, "unsaid")


@pytest.mark.cluster
async def test_events_read_as_sentences(people: People) -> None:
    """All that the module has said in this cluster until now."""
    wanted = {"GPUDeviceDetected", "GPUNodeReadyForPooling", "GPUNodeWithoutPool"}

    async def told() -> set[tuple[str, str, str]]:
        items = orjson.loads(await people.client.request("GET", resources.EVENT.path()))["items"]
        # Kubernetes' own "(combined from similar events)", which a busy DaemonSet controller writes, names no reporter.
        found = {(e["reason"], e["type"], e["note"]) for e in items if e.get("reportingController") in REPORTERS}
        return found if wanted <= {reason for reason, _, _ in found} else set()

    ours = await until(told, f"events of {sorted(wanted)}")
    for reason, kind, text in ours:
        assert text[0].isupper() or not text.split()[0].isalpha(), (reason, text)
        assert re.search(r"[.!?…]$|(^|[:;,] )kubectl [^,;:]*$", text) or len(text.encode()) >= 1020, (reason, text)
        assert kind == "Normal" or DOES.search(text), f"{reason} does not say what to do: {text}"
