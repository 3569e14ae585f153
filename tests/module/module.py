"""The module as Deckhouse's linter looks at it: files, and the objects that each template makes."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import yaml

from tests.templates import harness

NAME = "gpu-control-plane"
PARTS = (
    *("charts", "crds", "docs", "hooks", "images", "monitoring", "openapi", "templates", ".werf"),
    *("Chart.yaml", "module.yaml", "oss.yaml", "values.yaml", "werf.yaml", "werf-giterminism.yaml"),
    *(".helmignore", ".dmtlint.yaml", "enabled", "release.yaml"),
)
SOURCE = re.compile(rf"^# Source: {NAME}/(\S+)$", re.MULTILINE)
Object = dict[str, Any]


@dataclass(frozen=True)
class Module:
    """What a rule may look at; counter-examples are changed copies."""

    files: dict[str, str]
    """Text by path."""
    objects: tuple[tuple[str, Object], ...]
    """What Helm renders for Deckhouse with every optional API: the template, and an object of it."""

    def of(self, *kinds: str) -> Iterator[tuple[str, Object]]:
        """Name and object of some kinds."""
        return ((o["metadata"]["name"], o) for _, o in self.objects if o["kind"] in kinds)

    def pods(self) -> Iterator[tuple[str, Object]]:
        """Every workload's name and its pods' spec."""
        for name, o in self.of("Deployment", "DaemonSet", "StatefulSet", "Job", "CronJob"):
            spec = o["spec"]["jobTemplate"]["spec"] if o["kind"] == "CronJob" else o["spec"]
            yield f"{o['kind']} {name}", spec["template"]["spec"]

    def containers(self) -> Iterator[tuple[str, Object]]:
        """Every container, with where it is."""
        for where, spec in self.pods():
            yield from ((f"{where}/{c['name']}", c) for c in [*spec.get("initContainers", ()), *spec["containers"]])

    def file(self, path: str, text: str | None) -> Module:
        """With another text in a file, or without it."""
        rest = {name: old for name, old in self.files.items() if name != path}
        return replace(self, files=rest if text is None else rest | {path: text})

    def edited(self, path: str, old: str, new: str) -> Module:
        """With a part of a file replaced, which must be there."""
        assert old in self.files[path], (path, old)
        return self.file(path, self.files[path].replace(old, new))

    def changed(self, kind: str, name: str, change: Callable[[Object], object]) -> Module:
        """With one object changed."""
        made, hit = [], 0
        for template, item in self.objects:
            if (item["kind"], item["metadata"]["name"]) == (kind, name):
                item, hit = copy.deepcopy(item), hit + 1  # noqa: PLW2901 - the changed one stands in its place
                change(item)
            made.append((template, item))
        assert hit == 1, (kind, name, hit)
        return replace(self, objects=tuple(made))

    def without(self, kind: str, name: str) -> Module:
        """Without an object."""
        kept = tuple(one for one in self.objects if (one[1]["kind"], one[1]["metadata"]["name"]) != (kind, name))
        assert len(kept) < len(self.objects), (kind, name)
        return replace(self, objects=kept)

    def moved(self, kind: str, name: str, template: str) -> Module:
        """With an object in another template."""
        return replace(
            self,
            objects=tuple(
                (template if (o["kind"], o["metadata"]["name"]) == (kind, name) else where, o)
                for where, o in self.objects
            ),
        )


def load() -> Module:
    """The repository's module."""
    root = harness.ROOT
    paths = [p for part in PARTS for p in ([root / part] if (root / part).is_file() else (root / part).rglob("*"))]
    files = {str(p.relative_to(root)): p.read_text() for p in paths if p.is_file() and p.suffix not in {".tgz", ".png"}}
    apis = [
        f"{crd['spec']['group']}/{crd['spec']['versions'][0]['name']}/{crd['spec']['names']['kind']}"
        for path in (root / "tests" / "templates" / "apis").glob("*.yaml")
        for crd in yaml.safe_load_all(path.read_text())
    ]
    values = root / "tests" / "templates" / "deckhouse.yaml"
    text = harness.render(harness.programs()["helm"], apis=apis, values=[values], release_namespace="d8-system")
    found = SOURCE.split(text)[1:]
    pairs = zip(found[::2], found[1::2], strict=True)
    objects = [(where, o) for where, body in pairs for o in yaml.safe_load_all(body) if o]
    return Module(files, tuple(objects))
