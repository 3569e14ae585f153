"""What `nodeagent discover` publishes of a simulated node: the real program's report of facts made up here. Pure.

The facts are those of the scan after which it is sure: that a card is gone it says here at once, and not at the third
scan that misses it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from controllers.api import names as api
from controllers.api.runtime_state import AWAITING_TURN, READY, REVERTED
from nodeagent.discover.feature import difference, report
from nodeagent.host.facts.records import System, Toolkit
from sim.nodes import bus, nvml

if TYPE_CHECKING:
    from nodeagent.discover.feature.report import NodeScan
    from nodeagent.host.facts.records import Driver
    from sim.nodes.machine import Machine

HANDLER = "nvidia"
ROOT = "/run/nvidia/driver"
"""Where the files of a driver are that a container brought."""


def features(node: str, boot_id: str, machine: Machine) -> dict[str, Any]:
    """The features by their form."""
    return report.alone(scan(node, machine), boot_id)


def scan(node: str, machine: Machine) -> NodeScan:
    """What one scan of the real program would find there."""
    system = System(machine.host.facts(machine.source))
    return report.observe(bus.bus(machine), _driver(node, machine), _toolkit(machine), system)


def manifest(node: str, features: dict[str, Any]) -> dict[str, Any]:
    """The whole object."""
    body = difference.body(node, features)
    meta = {**body["metadata"], "name": api.agent_feature(node), "namespace": api.NAMESPACE}
    return {**body, "metadata": meta}


def _driver(node: str, machine: Machine) -> Driver | None:
    """NVML's word, else that of /proc; None where it is not loaded."""
    if machine.software is None or not machine.driver:
        return None
    told = bus.by_procfs if machine.faults.no_nvml else nvml.driver
    return replace(told(node, machine, machine.software), root=ROOT if machine.modules is not None else "")


def _toolkit(machine: Machine) -> Toolkit:
    if machine.software is None or not machine.toolkit:
        return Toolkit(installed=False)
    faults = machine.faults
    words = (
        (faults.runtime_waits, AWAITING_TURN),
        (faults.runtime_reverted, REVERTED),
        (faults.runtime_restarted, READY),
    )
    state = next((word for is_so, word in words if is_so), "")
    told = {"runtime_kind": "containerd", "runtime_state": state} if state else {}
    return Toolkit(installed=True, version=machine.software.toolkit, runtime_handler=HANDLER, runtime=told)
