"""Definitions of the first stage are unchanged for users but for what was added: what was valid is valid, by its name.

An object that somebody stored, and a manifest that somebody keeps, go on to be accepted and to mean the same. Where a
definition is narrower all the same, the place and the reason stand here.
"""

from __future__ import annotations

import copy
import json
from typing import Any, Final

import pytest

from tests.api.first_stage import FACTS, NAMES, ROOT, read

THEN: Final = json.loads(FACTS.read_text("utf-8"))
AT_MOST: Final = ("maximum", "maxLength", "maxItems", "maxProperties")
AT_LEAST: Final = ("minimum", "minLength", "minItems", "minProperties")
ONE_CARD: Final = "64 is what a spec could ask for of one card from the first; only processes of the module write it"
NARROWER: Final = {
    "gpudevice .status.reservations[].slots: maximum is 64, and was None": ONE_CARD,
    "gpudevice .status.published.slots: maximum is 64, and was None": ONE_CARD,
    "gpudevice .status.allocations[].slots: maximum is 64, and was None": ONE_CARD,
    "gpupool the object: rule: ImmutableField: spec.resource.unit follows spec.allocation.mode": (
        "its one difference is about mode MPS, which the first stage did not have"
    ),
    "gpupool the object: rule: InvalidMIGProfile: mode MIG needs spec.allocation.migProfile": (
        "beside a migProfile, a migLayout will do, which is new"
    ),
    "gpupool the object: rule: InvalidMIGProfile: spec.allocation.migProfile fills a card": (
        "it is about a migLayout beside a migProfile, and a migLayout is new"
    ),
}
"""What is narrower today, or a rule in other words, by how it begins; and why nobody meets it."""


def definition(name: str) -> dict[str, Any]:
    return read((ROOT / "crds" / f"{name}.yaml").read_text("utf-8"))


def is_as_wide(key: str, before: Any, after: Any) -> bool:
    """Whether a keyword, other than of a list, allows all that it allowed."""
    if key not in (*AT_MOST, *AT_LEAST):
        return before == after
    if before is None or after is None:
        return after is None
    return after >= before if key in AT_MOST else after <= before


def narrowed(before: dict[str, Any], after: dict[str, Any] | None) -> list[str]:
    """What a property allows no more."""
    if after is None:
        return ["it is gone"]
    plain = sorted({*before, *after} - {"required", "enum", "rules"})
    changed = [key for key in plain if not is_as_wide(key, before.get(key), after.get(key))]
    required, rules = after.get("required", ()), after.get("rules", {})
    taken = after.get("enum", before.get("enum", ()))
    return [
        *(f"{key} is {after.get(key)}, and was {before.get(key)}" for key in changed),
        *(f"{key} is wanted" for key in required if key not in before.get("required", ())),
        *(f"{value} is taken no more" for value in before.get("enum", ()) if value not in taken),
        *([f"of all values only {', '.join(taken)} are taken"] if taken and "enum" not in before else []),
        *(f"rule: {message}" for rule, message in rules.items() if rule not in before.get("rules", {})),
    ]


def changes(name: str, told: dict[str, Any]) -> list[str]:
    """What of a definition is narrower than in the first stage, or gone."""
    then = THEN[name]
    found = [f"{key} is {told[key]}" for key in ("names", "scope", "served") if told[key] != then[key]]
    found += [f"column {each['name']} is not as it was" for each in then["columns"] if each not in told["columns"]]
    for path, before in then["properties"].items():
        found += [f"{path or 'the object'}: {each}" for each in narrowed(before, told["properties"].get(path))]
    return [f"{name} {each}" for each in found]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_narrower_but_for_what_is_listed_with_its_reason(name: str) -> None:
    listed = [each for each in NARROWER if each.startswith(f"{name} ")]

    found = changes(name, definition(name))

    assert [each for each in found if not each.startswith(tuple(listed))] == []
    assert [each for each in listed if not any(one.startswith(each) for one in found)] == [], "no reason is needed"


@pytest.mark.parametrize(
    ("path", "change", "told"),
    [
        (".spec.nodeSelector.matchLabels", None, "it is gone"),
        (".spec.resource.name", {"type": "integer"}, "type is integer, and was string"),
        (".spec.allocation.mode", {"default": "MIG"}, "default is MIG, and was Exclusive"),
        (".spec.allocation.mode", {"enum": ["Exclusive", "MIG", "Other"]}, "TimeSlice is taken no more"),
        (".spec.resource.name", {"enum": ["a"]}, "of all values only a are taken"),
        (".spec.resource.name", {"maxLength": 9}, "maxLength is 9, and was None"),
        (".spec.allocation.timeSlice.maxSlicesPerDevice", {"maximum": 8}, "maximum is 8, and was 64"),
        (".spec.allocation.timeSlice.maxSlicesPerDevice", {"minimum": 2}, "minimum is 2, and was 1"),
        (".spec.allocation", {"required": ["mode"]}, "mode is wanted"),
        (".spec.access", {"rules": {"false": "nobody may"}}, "rule: nobody may"),
    ],
)
def test_what_is_narrower_is_named(path: str, change: dict[str, Any] | None, told: str) -> None:
    changed = copy.deepcopy(THEN["gpupool"])
    if change is None:
        del changed["properties"][path]
    else:
        changed["properties"][path] |= change

    assert changes("gpupool", changed) == [f"gpupool {path}: {told}"]


@pytest.mark.parametrize(
    ("path", "change"),
    [
        (".spec.allocation.mode", {"enum": ["Exclusive", "MIG", "TimeSlice", "MPS"]}),
        (".spec.allocation.timeSlice.maxSlicesPerDevice", {"minimum": 0, "maximum": 128}),
        (".spec.access.dexGroups", {"maxItems": None}),
        (".spec.scheduling.taints[]", {"required": ["key"]}),
        (".spec.added", {"type": "string", "enum": ["a"]}),
    ],
)
def test_what_is_wider_or_new_is_nobodys_loss(path: str, change: dict[str, Any]) -> None:
    changed = copy.deepcopy(THEN["gpupool"])
    changed["properties"][path] = changed["properties"].get(path, {}) | change

    assert changes("gpupool", changed) == []


def test_a_column_that_is_gone_is_named() -> None:
    changed = copy.deepcopy(THEN["gpupool"])
    changed["columns"] = [each for each in changed["columns"] if each["name"] != "Total"]

    assert changes("gpupool", changed) == ["gpupool column Total is not as it was"]
