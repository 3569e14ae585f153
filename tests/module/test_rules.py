"""The module obeys those rules of Deckhouse's linter that a short test can express; each rule finds its offender."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import yaml

from tests.module import module as dmt
from tests.module import rules_container, rules_files, rules_rbac, rules_templates
from tests.module.module import Module
from tests.module.offenders import OFFENDERS
from tests.templates import harness
from tools.vendored.__main__ import packages

pytestmark = pytest.mark.cluster
RULES = (*rules_container.RULES, *rules_rbac.RULES, *rules_templates.RULES, *rules_files.RULES)


@pytest.fixture(scope="module")
def module() -> Module:
    """The repository's."""
    return dmt.load()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_module_obeys(module: Module, rule: Callable[[Module], Iterator[str]]) -> None:
    assert list(rule(module)) == []


@pytest.mark.parametrize(
    ("rule", "offend"), OFFENDERS, ids=[f"{rule.__name__}-{at}" for at, (rule, _) in enumerate(OFFENDERS)]
)
def test_an_offender_is_found(
    module: Module, rule: Callable[[Module], Iterator[str]], offend: Callable[[Module], Module]
) -> None:
    assert list(rule(offend(module))) != []


def test_every_rule_has_an_offender() -> None:
    assert {rule for rule, _ in OFFENDERS} == set(RULES)


def test_nobody_is_given_every_pool(module: Module) -> None:
    verbs = {verb for _, role in module.of("Role", "ClusterRole") for rule in role["rules"] for verb in rule["verbs"]}
    # It opens a pool past its spec.access; whoever runs a pool grants it by name (docs/admission.md).
    assert "use" not in verbs


def test_open_source_is_listed_in_the_versions_that_the_images_have() -> None:
    listed = {item["id"]: item["version"] for item in yaml.safe_load((harness.ROOT / "oss.yaml").read_text())}
    locks = [path.read_text() for path in (harness.ROOT / "images").glob("*/requirements.lock")]
    pinned = dict(line.split()[0].split("==") for text in locks for line in text.splitlines() if "==" in line)
    pinned |= {name: package["version"] for name, package in packages().items()}
    assert {name: pinned.get(name) for name in listed if name != "python"} == {
        name: version for name, version in listed.items() if name != "python"
    }
    dockerfile = (harness.ROOT / "images" / "control-plane" / "Dockerfile").read_text()
    assert f"python:{listed['python']}-" in dockerfile
