"""What people publish of a node's labels: JSON with comments, `k=v` lines, describe excerpts, tables, profiles."""

from __future__ import annotations

import csv
import json
import re
from typing import TYPE_CHECKING, Any

import yaml

from tests.golden.dumps.told import Card, Told

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PAIR = re.compile(r"""["']?([A-Za-z0-9./_-]+)["']? *(?:=|:) *["']?([^"'\n]*?)["']?,?[ \t]*(?:#.*)?""")
VALUE = re.compile("(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
NO_CARDS = ("single cards: how many, of which model, and no more",)
# The domains of NVIDIA's, NFD's and Kubernetes' labels.
DOMAINS = (
    "nvidia.com/",
    "node-role.kubernetes.io/",
    "kubernetes.io/",
    "feature.node.kubernetes.io/",
    "beta.kubernetes",
)
VENDORS = {"nvidia": "10de", "amd": "1002"}


def lines(path: Path, name: str) -> list[Told]:
    """One pair a line, in JSON with or without its braces and comments, `k=v`, or `k: v`; others are passed over."""
    found = (PAIR.fullmatch(line.strip()) for line in path.read_text().splitlines())
    labels = {pair[1]: pair[2] for pair in found if pair and pair[1].startswith(DOMAINS)}
    resources = [key for key in labels if key == "nvidia.com/gpu" or re.fullmatch(r"nvidia\.com/mig-[^.]+\.\w+", key)]
    return [_node(name, {key: text for key, text in labels.items() if key not in resources})]


def blocks(path: Path, name: str) -> list[Told]:
    """`# <which> strategy output` above allocatable resources: a node for each, without labels."""
    return [Told(name, which.lower(), lacks=NO_CARDS) for which in re.findall("# (.*) strategy", path.read_text())]


def node(path: Path, name: str) -> list[Told]:
    """A Node as `kubectl edit` shows it."""
    found = yaml.safe_load(path.read_text())
    return [Told(name, labels=found["metadata"]["labels"], node=found, lacks=NO_CARDS)]


def aicr(path: Path, name: str) -> list[Told]:
    """A profile from which simulated nodes get GFD's labels."""
    spec = yaml.safe_load(path.read_text())["spec"]["gpu"]
    return [_node(name, {f"nvidia.com/gpu.{key}": str(spec[key]) for key in ("product", "count", "memory")})]


def knavigator(path: Path, name: str) -> list[Told]:
    """Types of virtual nodes with their labels."""
    nodes = yaml.safe_load(path.read_text())["nodes"]
    return [_node(name, one.get("labels", {}), one["type"]) for one in nodes]


def table(path: Path, name: str) -> list[Told]:
    """A CSV of nodes: how many cards of which model, in the cluster's own words; no labels."""
    with path.open() as file:
        return [Told(name, row["sn"], lacks=NO_CARDS) for row in csv.DictReader(file)]


def worker(path: Path, name: str) -> list[Told]:
    """An inventory of a worker: cards with uuid, name and bytes, by index."""
    found = json.loads(path.read_text())
    cards = tuple(_device(device) for device in found["status"]["gpu_devices"])
    return [Told(name, cards=cards, lacks=("PCI address, device, class", "driver version"))]


def _device(device: dict[str, Any]) -> Card:
    return Card(
        vendor=VENDORS[device["vendor"]],
        by_driver=True,
        uuid=device["uuid"],
        product=device["name"],
        memory_mib=device["memory"]["total"] // 2**20,
    )


def _node(name: str, labels: Mapping[str, str], which: str = "") -> Told:
    """A node with those of its labels that Kubernetes would take: a dump may say `...`, or `NVIDIA DGX`."""
    valid = {key: text for key, text in labels.items() if VALUE.fullmatch(text)}
    refused = tuple(f"a label value that Kubernetes takes: {key}={labels[key]!r}" for key in labels if key not in valid)
    return Told(name, which, labels=valid, lacks=(*NO_CARDS, *refused))
