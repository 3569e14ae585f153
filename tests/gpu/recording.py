"""What `make gpu` keeps of a machine, and how it becomes a test: put into tests/data/gpu, it is read by each run.

It holds what was read (the bus, the driver's words, the toolkit) and what was made of it. Uuids are in it, names of
hosts and people are not.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from controllers.api.system_facts import SystemFacts
from nodeagent.discover import once
from nodeagent.discover.scan import Facts
from nodeagent.host.driver_probe import decode
from nodeagent.host.facts.records import Bus, PciFunction, System, Toolkit

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.gpu.steps import Step


def write(path: Path, facts: Facts, steps: Iterable[Step]) -> None:
    """Keep a run."""
    made = {
        "functions": [asdict(function) for function in facts.bus.functions],
        "driver": asdict(facts.driver) if facts.driver is not None else None,
        "toolkit": asdict(facts.toolkit) if facts.toolkit is not None else None,
        "system": asdict(facts.system) if facts.system is not None else None,
        "boot_id": facts.boot_id,
        "steps": {step.name: {"result": step.result, "told": step.told, "kept": step.kept} for step in steps},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(made, indent=1, sort_keys=True) + "\n")


def features(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The report that was made on that machine, and the one that this code makes of what was read there."""
    kept = json.loads(path.read_text())
    driver = decode(json.dumps({"driver": kept["driver"]}).encode()) if kept["driver"] is not None else None
    bus = Bus(tuple(PciFunction(**{**one, "unreadable": tuple(one["unreadable"])}) for one in kept["functions"]))
    toolkit = Toolkit(**{**kept["toolkit"], "failed": tuple(kept["toolkit"]["failed"])}) if kept["toolkit"] else None
    # Recordings before the agent told of the system have none.
    told = kept.get("system")
    system = System(SystemFacts(**told["facts"]), tuple(told["failed"])) if told else None
    facts = Facts(bus, driver, toolkit, kept["boot_id"], system=system)
    return kept["steps"]["discover"]["kept"], once.features(facts)
