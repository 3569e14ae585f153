"""What a comparison ends in: findings, for people to read and for programs by `to_json`. Pure."""

from __future__ import annotations

from typing import Literal

from controllers.api.record import record


@record
class Issue:
    """One thing that is not as expected."""

    reason: str
    """CamelCase word that programs may compare."""
    about: str
    """What it is about: a label's key, a card's address, an object."""
    found: str
    expected: str
    todo: str
    """What a person does about it."""
    note: bool = False
    """Worth knowing, but nothing fails for it unless asked to be strict."""


@record
class NodeResult:
    """One node."""

    name: str
    labels: int = 0
    """Labels that it has as expected."""
    cards: int = 0
    """Cards on record that its report names."""
    findings: tuple[Issue, ...] = ()


@record
class ModelResult:
    """A model of card of which the catalogue does not say the same as its cards."""

    problem: Literal["Unknown", "Contradicts", "Incomplete"]
    """Not in the catalogue; in it and different; in it without all of its MIG geometry."""
    vendor: str
    """PCI vendor, such as 10de."""
    device: str
    """PCI device."""
    count: int
    """Cards of this model."""
    nodes: tuple[str, ...]
    products: tuple[str, ...] = ()
    """Product as the driver spells it; several where drivers differ, none without a driver."""
    memory_mib: tuple[int, ...] = ()
    """Memory as the driver counts it."""
    compute: tuple[str, ...] = ()
    """Compute capability, such as 9.0."""
    mig_profiles: tuple[str, ...] = ()
    """MIG profiles that the driver offers."""
    differences: tuple[str, ...] = ()
    """What cards say and the catalogue does not, in sentences."""
    file: str = ""
    """The catalogue's file in which it belongs."""
    entry: str = ""
    """TOML to paste there; empty where there is an entry already."""


@record
class Result:
    """The whole cluster, or the nodes that were asked for."""

    ok: bool
    """Whether all is as expected: what the exit status says."""
    findings: tuple[Issue, ...] = ()
    """About the cluster as a whole."""
    nodes: tuple[NodeResult, ...] = ()
    models: tuple[ModelResult, ...] = ()
    """Models of which the catalogue does not say the same as their cards; they fail a strict check only."""


def failing(findings: tuple[Issue, ...], *, strict: bool) -> bool:
    """Whether one of these makes the check fail."""
    return any(strict or not finding.note for finding in findings)
