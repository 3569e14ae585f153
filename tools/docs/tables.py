"""Tables of the page about the design that are made from the code: owners, happenings, phases, checks, sizes. Pure."""

from __future__ import annotations

import ast
import tomllib
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import yaml

from controllers.api import bounds, names, ownership
from controllers.api.components import COMPONENTS
from controllers.api.crdgen import crd
from controllers.api.gpudevice import SLOTS_MAX, GPUDevice
from controllers.api.gpudriver import GPUDriver
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.gpupool import GPUPool
from controllers.api.record import json_name
from controllers.api.resources import GPUDEVICE, GPUDRIVER, GPUNODEINVENTORY, GPUPOOL
from controllers.domain import eligibility, lifecycle, pool_lifecycle
from controllers.gpupool.operands.device_plugin import SHARD_CARDS
from webhook.decision import review
from webhook.reservations import concurrency

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from controllers.domain.lifecycle import Transition

KINDS: Final = (
    (GPUDEVICE, crd(GPUDEVICE, GPUDevice)),
    (GPUNODEINVENTORY, crd(GPUNODEINVENTORY, GPUNodeInventory)),
    (GPUPOOL, crd(GPUPOOL, GPUPool)),
    (GPUDRIVER, crd(GPUDRIVER, GPUDriver)),
)
YES: Final = {True: "yes", False: ""}


def blocks(root: Path) -> dict[str, str]:
    """What each table is to contain, by the name of its block."""
    return {
        "owners": owners(yaml.safe_load(ownership.table())),
        "card-happenings": happenings(lifecycle.TRANSITIONS),
        "pool-happenings": happenings(pool_lifecycle.TRANSITIONS),
        "phases": phases(),
        "checks": checks(),
        "sizes": sizes(),
        "layers": layers(root),
    }


def owners(by_resource: Mapping[str, Mapping[str, Mapping[str, list[str]]]]) -> str:
    """Each field and condition of each status with who writes it; the policy refuses everybody else."""
    rows = []
    for resource, definition in KINDS:
        fields, conditions = _by_field(by_resource[resource.plural])
        status = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
        for name, schema in status.items():
            if name != "conditions":
                writers = _listed(fields.get(name, ["nobody"]))
                rows.append((f"`{resource.kind}.{name}`", writers, _first(schema["description"])))
        together: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for kind, who in conditions.items():
            together[tuple(who)].append(kind)
        rows += [(f"`{resource.kind}`", _listed(who), f"conditions {_listed(own)}") for who, own in together.items()]
    return _table(("field or condition", "owner", "what it says"), rows)


def happenings(table: Mapping[str, Transition]) -> str:
    """What can happen, which facts it needs and which it changes."""
    rows = [(name, _facts(each.needs), _facts(each.sets), each.actor) for name, each in table.items()]
    return _table(("what happens", "needs", "then", "who"), rows)


def components() -> str:
    """The settings of the components that prepare a node, with what they run where nothing is set."""
    rows = [
        (
            f"`bootstrap.{json_name(each.setting)}`",
            _first(each.description),
            f"`{each.image}`" if each.image else "the module's node agent",
            each.minimum.version if each.minimum else "",
        )
        for each in COMPONENTS
    ]
    return _table(("setting", "component", "image", "least version"), rows)


def phases() -> str:
    """The components of a node's preparation, in order."""
    rows = [
        (f"`{each.name}`", f"`{each.condition}`", YES[each.essential], YES[each.holds_gpu_open]) for each in COMPONENTS
    ]
    return _table(
        ("component", "condition while it is missing", "its failure takes cards out", "holds cards open"), rows
    )


def checks() -> str:
    """The chain that decides whether a card comes into a pool, in order."""
    groups = {"pool": eligibility.POOL_CHECKS, "card": eligibility.CARD_CHECKS, "place": eligibility.PLACE_CHECKS}
    about = {check: group for group, chain in groups.items() for check in chain}
    rows = [
        (about.get(check, "card"), f"`{check.__name__}`", _first(check.__doc__ or "")) for check in eligibility.CHECKS
    ]
    return _table(("about the", "check", "passes when"), rows)


def sizes() -> str:
    """Limits that the code holds, from its constants."""
    rows = [
        ("characters of a pool's name", names.POOL_NAME_MAX, "`controllers/api/names.py`"),
        ("cards of a node that are believed", names.CARDS_MAX, "`controllers/api/names.py`"),
        ("entries of a list in a status", names.LIST_MAX, "`controllers/api/names.py`"),
        ("slots of a card", SLOTS_MAX, "`controllers/api/gpudevice.py`"),
        ("cards of a pool in one ConfigMap", SHARD_CARDS, "`controllers/gpupool/operands/device_plugin.py`"),
        ("bytes that a pod may say about its nodes", bounds.JSON_MAX, "`controllers/api/bounds.py`"),
        ("terms of required node affinity of a pod", bounds.ASKED.terms, "`controllers/api/bounds.py`"),
        ("tolerations of a pod", bounds.ASKED.tolerations, "`controllers/api/bounds.py`"),
        ("tolerations for taints of neighbouring pools", bounds.NEIGHBOURS, "`controllers/api/bounds.py`"),
        ("bytes of an AdmissionReview", review.BODY_MAX, "`webhook/decision/review.py`"),
        (
            "reviews of a replica that choose and write at once",
            concurrency.IN_FLIGHT_MAX,
            "`webhook/reservations/concurrency.py`",
        ),
    ]
    return _table(("at most", "", "where"), [(what, f"{most:,}", where) for what, most, where in rows])


def layers(root: Path) -> str:
    """The layers that import-linter holds, the highest first, in the words of the packages themselves."""
    linter = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    of_all = (c for c in linter["contracts"] if c["type"] == "layers" and "containers" not in c)
    (found,) = (contract["layers"] for contract in of_all)
    rows = []
    for layer in found:
        packages = layer.split(" | ")
        what = _package(root, packages[0]) if len(packages) == 1 else _independent(packages)
        rows.append((_listed(packages), what))
    return _table(("packages", "what they are"), rows)


def _independent(packages: list[str]) -> str:
    what = "the programs" if "webhook" in packages else "beside the product"
    return f"{what}; independent of each other"


def _package(root: Path, name: str) -> str:
    source = (root / name.replace(".", "/") / "__init__.py").read_text(encoding="utf-8")
    return _first((ast.get_docstring(ast.parse(source)) or "").partition("\n\n")[0])


def _by_field(owned: Mapping[str, Mapping[str, list[str]]]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    found: tuple[dict[str, list[str]], dict[str, list[str]]] = (defaultdict(list), defaultdict(list))
    for owner, what in owned.items():
        for key, into in zip(("fields", "conditions"), found, strict=True):
            for name in what.get(key, ()):
                into[name].append(owner)
    return found


def _facts(facts: Mapping[str, bool]) -> str:
    return ", ".join(name if value else f"not {name}" for name, value in facts.items()) or "–"


def _listed(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _first(sentence: str) -> str:
    """A description in one cell, without its stop."""
    return " ".join(sentence.split()).removesuffix(".").replace("|", "\\|")


def _table(head: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> str:
    lines = [f"| {' | '.join(map(str, line))} |" for line in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]])
