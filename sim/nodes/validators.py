"""What `nodeagent validate` says of a simulated node: the real program's judgement of facts made up here. Pure.

Keys, words and sentences are therefore its own. The facts are what it would see from its pods: role `driver` has
the host's folders without `/dev`, and cannot ask NVML; role `container` has what NVIDIA's runtime put there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from controllers.api.validation import CONTAINER, DRIVER
from nodeagent.host.facts.records import CudaAnswer, Driver
from nodeagent.validate.checks import cardfacts, cuda, devices, marks, report
from nodeagent.validate.checks.facts import LIBRARIES, MODULE, NVIDIA, Facts, Library, Node, Specification, Taken
from sim.nodes import bus, nvml

if TYPE_CHECKING:
    from sim.hardware import Software
    from sim.nodes.machine import Machine

FRONTEND, UVM = 195, 511
"""Major numbers of the driver's devices: the first is registered, the second is given when it is loaded."""
OTHER: Final = "535.54.03"
"""Version of the libraries that do not fit the module (fault driver-check-failed)."""
OPEN_SINCE: Final = 560
"""Major version of the driver from which the open module is the usual one."""
NOT_ASKED: Final = "libnvidia-ml.so.1 finds no device node of the driver here"
NO_FABRIC: Final = CudaAnswer("cuInit", cuda.NOT_READY, "CUDA_ERROR_SYSTEM_NOT_READY")
NO_FIT: Final = CudaAnswer("cuInit", 803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH")
SPECIFICATION: Final = "/var/run/cdi/gpu-control-plane.yaml"


def attributes(role: str, node: str, boot_id: str, machine: Machine) -> dict[str, str]:
    """What the role owns of `gpu.validation`."""
    seen = facts(role, node, boot_id, machine)
    return report.attributes(role, seen, report.evaluate(role, seen))


def cards(role: str, node: str, boot_id: str, machine: Machine) -> list[dict[str, str]]:
    """What the role tells of each card, in `gpu.nvml`; of role `driver` nothing."""
    return cardfacts.elements(cardfacts.step({}, facts(role, node, boot_id, machine))) if role == CONTAINER else []


def facts(role: str, node: str, boot_id: str, machine: Machine) -> Facts:
    """What the role sees of the node."""
    software = machine.software
    if software is None or not machine.driver:
        return Facts(bus=bus.bus(machine), libraries={}, nodes=None if role == DRIVER else {}, boot_id=boot_id)
    here = [card.address for card in machine.cards if card.vendor == NVIDIA]
    started = {address: Taken(minor) for minor, address in enumerate(here) if address not in machine.faults.not_started}
    loaded = Facts(
        bus=bus.bus(machine),
        module=Driver(software.driver, source="procfs"),
        form=_form(software, machine),
        taken=started,
        majors={MODULE: FRONTEND, devices.UVM: UVM},
        firmware=True,
        boot_id=boot_id,
    )
    return _on_host(loaded, software, machine) if role == DRIVER else _in_container(loaded, software, node, machine)


def _form(software: Software, machine: Machine) -> str:
    if machine.modules is not None:
        return machine.modules.flavour
    return "open" if int(software.driver.partition(".")[0]) >= OPEN_SINCE else "proprietary"


def _on_host(loaded: Facts, software: Software, machine: Machine) -> Facts:
    version = OTHER if DRIVER in machine.faults.failed_checks else software.driver
    return replace(loaded, libraries=_libraries(version), nodes=None, unavailable_reason=NOT_ASKED)


def _in_container(loaded: Facts, software: Software, node: str, machine: Machine) -> Facts:
    started = loaded.taken or {}
    minors = [taken.minor for taken in started.values() if taken.minor is not None]
    if CONTAINER in machine.faults.failed_checks or not machine.toolkit:
        handler = MODULE if machine.toolkit else ""
        return replace(
            loaded, libraries={}, nodes={}, unavailable_reason="no library libnvidia-ml.so.1 here", handler=handler
        )
    nodes = {devices.CONTROL: Node(FRONTEND, devices.CONTROL_MINOR), devices.UVM: Node(UVM, 0)}
    answers = {card.address: nvml.answer(node, card, machine) for card in machine.cards if card.address in started}
    tried = marks.wanted(answers, loaded.held, loaded.boot_id, Driver(software.driver))
    down = machine.faults.fabric and nvml.has_switches(machine.devices)
    cuda_says = _cuda(machine, down=down)
    return replace(
        loaded,
        cuda=dict.fromkeys(tried, cuda_says),
        tried=tuple(tried),
        cuda_marks=",".join(sorted(one.mark for one in tried.values())) if cuda_says.works else "",
        fabric_due=cuda_says is NO_FABRIC,
        libraries=_libraries(software.driver),
        nodes=nodes | {f"nvidia{minor}": Node(FRONTEND, minor) for minor in minors},
        driver=Driver(software.driver, software.cuda, answers),
        specification=Specification((SPECIFICATION,), (), frozenset(minors), frozenset({software.driver})),
        by_cdi=True,
        handler=MODULE,
    )


def _cuda(machine: Machine, *, down: bool) -> CudaAnswer:
    if down or "cuda802" in machine.befalls:
        return NO_FABRIC
    return NO_FIT if "cuda803" in machine.befalls else CudaAnswer()


def _libraries(version: str) -> dict[str, Library]:
    return {name: Library((version,), version) for name in LIBRARIES}
