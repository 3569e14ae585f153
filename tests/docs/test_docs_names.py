"""What the pages name exists: verbs of make, programs, files, labels, annotations, reasons, settings, metrics."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from controllers.api import gangs, names
from controllers.api.reasons import words as reasons_of_conditions
from controllers.domain.catalogue import canonical_profile
from controllers.domain.request import pool_of, profile_of
from tests.docs.site import IDS, PAGES, ROOT, text
from tools.docs.markdown import blocks

CODE = ("controllers", "webhook", "nodeagent", "kubectl_gpu", "sim", "tools", "reliability")
TEXTS = ("templates", "crds", "openapi", "monitoring", "values.yaml", "charts")
CAMEL = re.compile(r"[A-Z][a-z0-9]+(?:[A-Z][A-Za-z0-9]*)+|GPU[A-Z][A-Za-z]+|[A-Z]{2,}[a-z]\w+")
KUBERNETES = {
    # Kinds, fields' values and reasons that are Kubernetes' own, or another product's.
    *(
        "ClusterRoleBinding",
        "ClusterRole",
        "CronJob",
        "CustomResourceDefinition",
        "DaemonSet",
        "FailedCreate",
        "ReplicaSet",
    ),
    *(
        "NoExecute",
        "NoSchedule",
        "NoneOnDryRun",
        "NodeRestriction",
        "OnDelete",
        "PodResources",
        "ResourceQuota",
        "RuntimeClass",
    ),
    *(
        "StatefulSet",
        "UnexpectedAdmissionError",
        "ValidatingAdmissionPolicy",
        "ValidatingWebhookConfiguration",
        "ImagePullBackOff",
    ),
    *(
        "ServiceAccount",
        "PreferNoSchedule",
        "ConfigMap",
        "NodeFeature",
        "NodeFeatureRule",
        "TokenRequest",
        "RoleBinding",
    ),
}
HISTORY = re.compile(r"docs/dev/adr/0|CHANGELOG")
"""Decisions and changes speak of what was, and of what was turned down."""


def spans(page: Path) -> list[str]:
    """What stands between backticks in the prose, and each line of a block that is no output."""
    found = re.findall(r"`([^`\n]+)`", text(page))
    for block in blocks(text(page)):
        if block.language in {"shell", "sh", "console", ""}:
            found += [line for line in block.text.splitlines() if block.language != "console" or line.startswith("$ ")]
    return found


@cache
def sources() -> str:
    """Our programs without their docstrings."""
    paths = (path for package in CODE for path in sorted((ROOT / package).rglob("*.py")))
    return re.sub(r'"""(?:.*?)"""', "", "\n".join(path.read_text("utf-8") for path in paths), flags=re.DOTALL)


@cache
def literals() -> frozenset[str]:
    """Every string of our programs; what is put in at run time stands in braces."""
    return frozenset(re.findall(r'"([^"\n]+)"', sources()))


@cache
def vocabulary() -> frozenset[str]:
    """Words in CamelCase that our programs or the chart say."""
    found = {word for literal in literals() for word in CAMEL.findall(literal)}
    for name in TEXTS:
        paths = [ROOT / name] if (ROOT / name).is_file() else (ROOT / name).rglob("*.*")
        found |= {
            word for path in paths if path.is_file() for word in CAMEL.findall(path.read_text("utf-8", "replace"))
        }
    found |= set(re.findall(r"^class (\w+)", sources(), re.MULTILINE))
    return frozenset(found | KUBERNETES | set(reasons_of_conditions()))


def described(schema: Any, at: str = "") -> Iterator[str]:
    """The path of each field of a schema, and of each part of it that may stand alone."""
    for name, child in (schema.get("properties") or {}).items():
        yield (here := f"{at}{name}")
        yield from described(child, f"{here}.")
    if isinstance(schema.get("items"), dict):
        yield from described(schema["items"], at)


@cache
def fields() -> frozenset[str]:
    read = [yaml.safe_load(path.read_text("utf-8")) for path in sorted((ROOT / "crds").glob("gpu*.yaml"))]
    found = {one for crd in read for one in described(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])}
    settings, values = (
        set(described(yaml.safe_load((ROOT / "openapi" / name).read_text("utf-8"))))
        for name in ("config-values.yaml", "values.yaml")
    )
    tops = {one.partition(".")[0] for one in settings}
    values = {one for one in values if one.partition(".")[0] in tops}
    return frozenset(found | settings | values | {f"spec.settings.{one}" for one in settings})


def is_module(name: str) -> bool:
    """Whether it is a module of ours, or a name in one: packages are called as groups of settings are."""
    return any((ROOT / path).exists() for path in (name.replace(".", "/"), f"{name.replace('.', '/')}.py"))


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_verb_of_make_exists(page: Path) -> None:
    verbs = set(re.findall(r"^([a-z0-9-]+):.*##", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = {verb for span in spans(page) for verb in re.findall(r"(?:^|[$;&(] ?|sudo )make ([a-z][a-z0-9-]*)", span)}

    assert named - verbs == set()


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_program_exists(page: Path) -> None:
    named = {module for span in spans(page) for module in re.findall(r"python3? -m ([a-z_][a-z_.]*[a-z_])", span)}
    paths = {module: ROOT / module.replace(".", "/") for module in named}

    assert {
        m for m, path in paths.items() if not (path / "__main__.py").exists() and not path.with_suffix(".py").exists()
    } == set()


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_file_exists(page: Path) -> None:
    if HISTORY.match(str(page.relative_to(ROOT))):
        return
    roots = "|".join([*CODE, "tests", "docs", "templates", "crds", "openapi", "images", "monitoring"])
    named = {
        found.rstrip(".,/")
        for span in spans(page)
        for found in re.findall(rf"(?:^|[\s(])((?:{roots})/[\w./*-]*)", span)
        if "<" not in span
    }

    assert {path for path in named if not list(ROOT.glob(path))} == set()


def pools() -> set[str]:
    """Pools that a page makes, and those of which a page only tells, by `gpu.deckhouse.io/<pool>: <number>`."""
    found = set()
    for page in PAGES:
        for block in blocks(text(page)):
            if block.language == "yaml":
                found |= set(re.findall(r"kind: GPUPool\s+metadata:\s*\{?\s*name: ([a-z0-9-]+)", block.text))
        found |= set(re.findall(r"GPUPool '?([a-z0-9-]+)'?", text(page)))
    return found


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_label_annotation_and_resource_exists(page: Path) -> None:
    constants = {**vars(names), **vars(gangs)}
    ours = {value for value in constants.values() if isinstance(value, str) and value.startswith(names.PREFIX)}
    ours |= {literal for literal in literals() if re.fullmatch(r"gpu\.deckhouse\.io/[a-z0-9.-]+", literal)}
    known = {one.removeprefix(names.PREFIX) for one in ours} | pools() | {names.VERSION, "access-level"}
    # Labels that our NodeFeatureRule gives (docs/inventory.md lists them) and those of one component or pool.
    labels = re.compile(r"(deploy|pool|device|driver|kernel|os)(\.|$)")
    named = {name.rstrip(".-") for name in re.findall(r"(?<![\w.-])gpu\.deckhouse\.io/([a-z][\w.-]*)", text(page))}

    # The resource of a profile, which a pool of a mixed MIG layout has.
    named = {pool_of(name) if canonical_profile(profile_of(name) or "") else name for name in named}

    assert {name for name in named if name not in known and not labels.match(name)} == set()


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_reason_condition_and_event_exists(page: Path) -> None:
    if HISTORY.match(str(page.relative_to(ROOT))):
        return
    quoted = re.findall(r"`([^`\n]+)`", text(page))
    named = {word for span in quoted if re.fullmatch(r"[\w/, ]+", span) for word in CAMEL.findall(span)}

    assert named - vocabulary() == set()


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_setting_and_field_exists(page: Path) -> None:
    tops = {one for one in fields() if "." not in one} - {"metadata"}
    named = set()
    for span in re.findall(r"`([^`\n]+)`", text(page)):
        for found in re.findall(r"^([a-z][A-Za-z]*(?:(?:\[\])?\.[a-zA-Z]+)+)(?=$|:| )", span):
            if (plain := found.replace("[]", "")).split(".")[0] in tops:
                named.add(plain)

    pods = re.compile(
        r"(driver)\.(access|name|variant)|(spec|status)\.(nodeName|affinity|containers|template|phase|nodeInfo|allocatable|taints|enabled|settings|maintenance)"
    )
    parts = {one.partition(".")[2] for one in fields()}
    # Attributes of reports and kinds of files, whose names begin as those of settings do.
    others = {"driver.access", "driver.name", "driver.source", "driver.variant"}
    left = named - fields() - parts - others
    assert {one for one in left if not pods.match(one) and not is_module(one)} == set()


@cache
def metrics() -> tuple[frozenset[str], tuple[str, ...]]:
    """Names of metrics in our programs and rules, and the beginnings of those that are put together."""
    rules = " ".join(path.read_text("utf-8") for path in (ROOT / "monitoring").rglob("*.*") if path.is_file())
    found = set(re.findall(r"\b(?:gpu|gpupool)_[a-z_]+", " ".join(literals()) + rules))
    return frozenset(found), tuple(one for one in found if one.endswith("_"))


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_metric_exists(page: Path) -> None:
    if HISTORY.match(str(page.relative_to(ROOT))):
        return
    known, beginnings = metrics()
    named = set()
    for span in spans(page):
        for head, choice, tail in re.findall(r"\b((?:gpu|gpupool)_[a-z_]+)(?:\{([a-z,]+)\})?([a-z_]*)", span):
            chosen = choice.split(",") if head.endswith("_") and choice else [""]
            named |= {f"{head}{one}{tail if len(chosen) > 1 else ''}" for one in chosen}
    families = {one for one in named if one.endswith("_") or f"{one}_" in " ".join(known)}
    modules = {"gpu_control_plane", "gpu_operator"}

    assert {one for one in named - families - known - modules if not one.startswith(beginnings)} == set()


@pytest.mark.parametrize(
    ("check", "words"),
    [
        (test_every_verb_of_make_exists, "Run `make coffee`."),
        (test_every_program_exists, "Run `python -m sim.coffee`."),
        (test_every_file_exists, "See `controllers/coffee.py`."),
        (test_every_label_annotation_and_resource_exists, "Set `gpu.deckhouse.io/coffee=true`."),
        (test_every_reason_condition_and_event_exists, "It says `CoffeeMissing`."),
        (test_every_setting_and_field_exists, "Set `admission.coffee`."),
        (test_every_metric_exists, "Watch `gpu_coffee_total`."),
    ],
)
def test_what_does_not_exist_is_told(check: Any, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = ROOT / "docs" / "written.md"
    monkeypatch.setattr(f"{__name__}.text", lambda path: words if path == page else "")
    with pytest.raises(AssertionError):
        check(page)


def test_the_pages_are_found() -> None:
    assert {"README.md", "docs/pools.md", "docs/README.ru.md", "docs/dev/adr/README.md"} <= set(IDS)
    assert list(itertools.chain.from_iterable(spans(page) for page in PAGES))
