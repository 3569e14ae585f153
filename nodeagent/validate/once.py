"""`python -m nodeagent.validate ROLE --once`: one look at a node for a person, without a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
import yaml

from nodeagent.validate.checks import report

if TYPE_CHECKING:
    from nodeagent.validate.checks.check import Verdict
    from nodeagent.validate.checks.facts import Facts


def show(role: str, facts: Facts, found: Verdict, form: str) -> str:
    """What would be published, as `json` or `yaml`; for people each check with its sentence, as `text`."""
    told = report.attributes(role, facts, found)
    if form == "json":
        return orjson.dumps(told, option=orjson.OPT_INDENT_2).decode() + "\n"
    if form == "yaml":
        return yaml.safe_dump(told, sort_keys=False, width=200)
    lines = [f"{check.result:7}  {check.name:9}  {check.message}" for check in found.checks]
    cards = f"{len(found.passed)} of {len(facts.held)} cards pass"
    return "\n".join([*lines, "", f"{role}: {found.result}, {cards}"]) + "\n"
