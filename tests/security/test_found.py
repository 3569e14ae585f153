"""The command of docs/security.md that lists pods which went past the webhook, run by jq on pods of each kind."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from controllers.api import names
from tests.tools.lacking import lacking

PAGE = Path(__file__).resolve().parents[2] / "docs" / "security.md"
KUBECTL = "kubectl get pods -A -o json | jq -r "


def pod(
    name: str, *asks: dict[str, str], by: str | None = None, cards: str = "", phase: str = "Running"
) -> dict[str, Any]:
    meta: dict[str, Any] = {"namespace": "team", "name": name}
    if by is not None:
        meta |= {"labels": {names.LABEL_POOL: by}, "annotations": {names.DEVICES: cards}}
    containers = [{"name": "c", "resources": {"limits": limits} if limits else {}} for limits in asks]
    return {"metadata": meta, "spec": {"containers": containers}, "status": {"phase": phase}}


A, B = ({names.resource_name(pool): "1"} for pool in "ab")
PODS = [
    pod("plain", {}, {"cpu": "1"}),
    pod("admitted", A, {}, by="a", cards="n-0000:01:00.0"),
    pod("both", {names.resource_name("a"): "2"}, by="a", cards="n-0000:01:00.0,n-0000:02:00.0"),
    pod("zero", {names.resource_name("a"): "0"}),
    pod("over", A, phase="Succeeded"),
    pod("sneak", A),
    pod("thousands", {names.resource_name("a"): "2k"}),
    pod("other", A, B, by="a", cards="n-0000:01:00.0"),
    pod("more", A, {names.resource_name("a"): "4"}, by="a", cards="n-0000:01:00.0"),
]


def test_pods_that_went_past_the_webhook_are_listed() -> None:
    if why := lacking("jq"):
        pytest.skip(why)
    text = PAGE.read_text(encoding="utf-8")
    program = text[text.index(KUBECTL) + len(KUBECTL) :].split("\n```", 1)[0].strip().strip("'")
    made = subprocess.run(
        ["jq", "-r", program], input=json.dumps({"items": PODS}), capture_output=True, text=True, check=True
    )
    assert made.stdout.splitlines() == [
        "team/sneak asks for 1 of a; admitted to no pool, cards chosen: 0",
        "team/thousands asks for 1000 of a; admitted to no pool, cards chosen: 0",
        "team/other asks for 1 of a, 1 of b; admitted to a, cards chosen: 1",
        "team/more asks for 1 of a, 4 of a; admitted to a, cards chosen: 1",
    ]
