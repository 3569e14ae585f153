"""NodeState: the inputs of the checks and condition functions of one node. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controllers.api import names, validation
from controllers.api.components import HOLDING_GPU_OPEN
from controllers.bootstrap.preparation.validations import enabled_roles, validation_of
from controllers.domain import node_operation
from controllers.domain.catalogue import for_card, strictest
from controllers.domain.driver import node_work

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from controllers.api.component import Component
    from controllers.api.gpudevice import Pci
    from controllers.api.validation import Validation
    from controllers.bootstrap.health.node import NodeHealth
    from controllers.bootstrap.records import Card
    from controllers.bootstrap.views import ObservedNode
    from controllers.domain.catalogue import Requirement
    from controllers.domain.driver.node_work import NodeWork
    from controllers.domain.node_operation import Suspension

FACT_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class NodeState:
    """One node at one moment, as the checks and the conditions read it."""

    observed: ObservedNode
    health: NodeHealth
    managed: bool
    """Whether the module is to prepare it."""
    cards: int
    """Those for which it is prepared."""
    phases: Sequence[Component]
    """Components that are to run, in order."""
    blocking: Component | None
    """The component that is waited for."""
    overdue: bool
    """Whether it is waited for longer than the deadline."""
    deadline: float
    """`bootstrap.phaseDeadline` in seconds."""
    needs: Requirement
    """The least versions that its cards and the components ask for."""
    enabled: bool = True
    """Whether the module is."""
    suspended: Suspension = node_operation.NONE
    """How MIG work on the cards suspends its preparation."""
    aside: int = 0
    """Cards for which it is not prepared, beside those that are counted."""
    driver: NodeWork = node_work.NONE
    """What gpu-driver-controller does to it."""

    @property
    def name(self) -> str:
        """The node."""
        return self.observed.name

    @property
    def closed(self) -> frozenset[str]:
        """Components whose gates are closed for now, whatever is ready."""
        return self.suspended.closed | closed_for_driver(self.driver)

    def fact(self, feature: str, key: str) -> str | None:
        """A value of the node agent's report; None where it has none."""
        report = self.observed.report
        attributes = getattr(report.spec.features.attributes, feature) if report else None
        return (attributes.elements.get(key) or "")[:FACT_MAX] or None if attributes else None

    @property
    def cuda(self) -> str | None:
        """The newest CUDA that the driver serves: as discover says, else as NVML told the validator of this driver."""
        if (found := self.fact("driver", "cuda_version")) is not None:
            return found
        told = validation_of(self.observed, validation.CONTAINER)
        same = told is not None and told.version != "" and told.version == self.fact("driver", "version")
        return told.cuda_version[:FACT_MAX] or None if told is not None and same else None

    def runs(self, component: str) -> bool:
        """Whether the module runs a component."""
        return any(phase.name == component for phase in self.phases)

    def validation(self, role: str) -> Validation | None:
        """What a validator found since the node last started, while the settings want it."""
        return validation_of(self.observed, role) if role in self.roles else None

    @property
    def roles(self) -> tuple[str, ...]:
        """The validators that the settings want."""
        return enabled_roles(self.phases)


def closed_for_driver(work: NodeWork) -> frozenset[str]:
    """Components that may not run while the driver under them is changed: those that hold it open."""
    return HOLDING_GPU_OPEN if work.is_closed else frozenset()


def needs(cards: Iterable[Card]) -> Requirement:
    """The least versions that cards and the components ask for."""
    known = ((pci, _compute(card)) for card in cards if (pci := _pci(card)))
    return strictest(for_card(pci.vendor, pci.device, compute) for pci, compute in known)


def report_name(name: str) -> str:
    """The NodeFeature of the agent's report of a node, for messages."""
    return f"NodeFeature {names.NAMESPACE}/{names.agent_feature(name)}"


def _pci(card: Card) -> Pci | None:
    return card.status.hardware.pci if card.status.hardware else None


def _compute(card: Card) -> tuple[int, int] | None:
    found = card.status.hardware.compute_capability if card.status.hardware else None
    return (found.major, found.minor) if found else None
