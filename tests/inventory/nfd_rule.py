"""The program that evaluates NodeFeatureRules with Go's templates, for tests: one question, one answer."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any, Self

import orjson

from controllers.inventory.rule import node_feature_rule
from tests.kit.waiting import PATIENCE
from tools import programs

if TYPE_CHECKING:
    from types import TracebackType

Json = dict[str, Any]


class NfdRule:
    """`nfd-rule` as a child."""

    def __enter__(self) -> Self:
        program = programs.ensure(["nfd-rule"])["nfd-rule"]
        self._child = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        assert self._child.stdin is not None
        self._child.stdin.close()
        assert self._child.wait(PATIENCE) == 0
        assert self._child.stdout is not None
        self._child.stdout.close()

    def ask(self, *specs: Json, rules: list[Json] | None = None) -> tuple[dict[str, str], list[str]]:
        """The labels that rules (ours, where not given) give for the specs of a node's NodeFeatures; and errors."""
        wanted = node_feature_rule.manifest()["spec"]["rules"] if rules is None else rules
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(orjson.dumps({"rules": wanted, "specs": specs}) + b"\n")
        self._child.stdin.flush()
        answer = orjson.loads(self._child.stdout.readline())
        return answer["labels"], answer["errors"]


def spec(
    cards: list[dict[str, str]] | None = None,
    *,
    modules: tuple[str, ...] | None = None,
    kernel: dict[str, str] | None = None,
    os: dict[str, str] | None = None,
) -> Json:
    """A NodeFeature's spec with what the rule looks at; what is None is not reported at all."""
    features: Json = {"flags": {}, "attributes": {}, "instances": {}}
    if cards is not None:
        features["instances"]["pci.device"] = {"elements": [{"attributes": one} for one in cards]}
    if modules is not None:
        features["flags"]["kernel.loadedmodule"] = {"elements": {name: {} for name in modules}}
    if kernel is not None:
        features["attributes"]["kernel.version"] = {"elements": kernel}
    if os is not None:
        features["attributes"]["system.osrelease"] = {"elements": os}
    return {"features": features}
