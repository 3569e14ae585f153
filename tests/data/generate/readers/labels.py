"""What people publish of a node's labels: JSON with comments, `k=v` lines, describe excerpts, tables, profiles."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import yaml

from tests.data.generate.readers import one
from tests.data.told import Card, Told

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PAIR = re.compile(r"""["']?([A-Za-z0-9./_-]+)["']? *(?:=|:) *["']?([^"'\n]*?)["']?,?[ \t]*(?:#.*)?""")
VALUE = re.compile("(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
# The domains of NVIDIA's, NFD's and Kubernetes' labels.
DOMAINS = (
    "nvidia.com/",
    "node-role.kubernetes.io/",
    "kubernetes.io/",
    "feature.node.kubernetes.io/",
    "beta.kubernetes",
)
VENDORS = {"nvidia": "10de", "amd": "1002"}
CONDITION = ("type", "status", "reason")
HOST_NAME = "kubernetes.io/hostname"


def lines(path: Path) -> dict[str, Any]:
    """One pair a line, in JSON with or without its braces and comments, `k=v`, or `k: v`; others are passed over."""
    found = (PAIR.fullmatch(line.strip()) for line in path.read_text().splitlines())
    labels = {pair[1]: pair[2] for pair in found if pair and pair[1].startswith(DOMAINS)}
    resources = [key for key in labels if key == "nvidia.com/gpu" or re.fullmatch(r"nvidia\.com/mig-[^.]+\.\w+", key)]
    return one.nodes([_node({key: text for key, text in labels.items() if key not in resources})])


def blocks(path: Path) -> dict[str, Any]:
    """`# <which> strategy output` above allocatable resources: a node for each, without labels."""
    return one.nodes(Told(name=which.lower()) for which in re.findall("# (.*) strategy", path.read_text()))


def node(path: Path) -> dict[str, Any]:
    """A Node as `kubectl edit` shows it, without what is one machine's own: names, addresses, ids, times."""
    found = yaml.safe_load(path.read_text())
    status = {
        "conditions": [{key: each[key] for key in CONDITION} for each in found["status"]["conditions"]],
        "nodeInfo": {
            key: text for key, text in found["status"]["nodeInfo"].items() if not key.endswith(("ID", "UUID"))
        },
    }
    return one.nodes([Told(labels=_neutral(found["metadata"]["labels"]), status=status)])


def aicr(path: Path) -> dict[str, Any]:
    """A profile from which simulated nodes get GFD's labels."""
    spec = yaml.safe_load(path.read_text())["spec"]["gpu"]
    return one.nodes([_node({f"nvidia.com/gpu.{key}": str(spec[key]) for key in ("product", "count", "memory")})])


def knavigator(path: Path) -> dict[str, Any]:
    """Types of virtual nodes with their labels."""
    types = yaml.safe_load(path.read_text())["nodes"]
    return one.nodes(_node(each.get("labels", {}), each["type"]) for each in types)


def table(path: Path) -> dict[str, Any]:
    """A CSV of nodes: how many cards of which model, in the cluster's own words; no labels."""
    with path.open() as file:
        alike = Counter(f"{row['gpu']}-{row['model']}" for row in csv.DictReader(file))
    return one.nodes(Told(name=name, times=times) for name, times in sorted(alike.items()))


def worker(path: Path) -> dict[str, Any]:
    """An inventory of a worker: cards with uuid, name and bytes, by index."""
    found = json.loads(path.read_text())
    cards = tuple(_device(device) for device in found["status"]["gpu_devices"])
    return one.node(cards=cards)


def _device(device: dict[str, Any]) -> Card:
    return Card(
        vendor=VENDORS[device["vendor"]],
        by_driver=True,
        uuid=device["uuid"],
        product=device["name"],
        memory_mib=device["memory"]["total"] // 2**20,
    )


def _node(labels: Mapping[str, str], name: str = "") -> Told:
    """A node with those of its labels that Kubernetes would take: a dump may say `...`, or `NVIDIA DGX`."""
    return Told(name=name, labels=_neutral({key: text for key, text in labels.items() if VALUE.fullmatch(text)}))


def _neutral(labels: Mapping[str, str]) -> dict[str, str]:
    return {key: "node" if key == HOST_NAME else text for key, text in labels.items()}
