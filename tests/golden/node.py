"""A dump as the API objects of a node: the Node, the agent's NodeFeature, NFD's."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from controllers.api import names
from nodeagent.discover.feature import report
from nodeagent.host.facts.records import Bus, Driver, DriverCard, PciFunction
from tests.kit.objects import BOOT
from tests.kit.reports import feature, features

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.data.told import Card, Told


def node(told: Told, name: str, *, labelled: bool) -> dict[str, Any]:
    """The Node; `labelled`: as our NodeFeatureRule would label one with cards."""
    status = copy.deepcopy(dict(told.status)) if told.status is not None else {}
    info = {"bootID": BOOT, **status.get("nodeInfo", {})}
    conditions = status.get("conditions", [{"type": "Ready", "status": "True"}])
    labels = {**told.labels, **({names.LABEL_PRESENT: "true"} if labelled else {})}
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"conditions": conditions, "nodeInfo": info},
    }


def agent_report(told: Told, name: str) -> dict[str, Any] | None:
    """The agent's NodeFeature; None where the dump does not speak of single cards."""
    if told.cards is None:
        return None
    seen = _by_agent(told) if all(card.on_the_bus for card in told.cards) else _as_told(told)
    return feature(names.agent_feature(name), name, seen)


def reports(told: Told, name: str) -> list[dict[str, Any]]:
    """What others say of the node."""
    found = [copy.deepcopy(dict(one)) for one in told.reports]
    for number, one in enumerate(found):
        one["metadata"].setdefault("namespace", "default")
        one["metadata"]["labels"] = {names.NFD_NODE_NAME: name}  # as nfd-worker sets it
        if number == 0:  # NFD's worker names its report as the node
            one["metadata"]["name"] = name
    return found


def _by_agent(told: Told) -> dict[str, Any]:
    """The features that the agent makes of what sysfs and the driver tell."""
    cards = told.cards or ()
    driver = None
    if told.driver is not None:
        known = {card.address: _driver_card(card) for card in cards if card.by_driver}
        driver = Driver(told.driver, told.cuda, known)
    else:
        assert not any(card.by_driver for card in cards), f"{told.dump}: give the driver's version"
    seen = report.observe(Bus(tuple(_function(card) for card in cards)), driver, None)
    values = {address: one.values for address, one in seen.cards.items()}
    return report.features(values, seen.driver.values if seen.driver else None, seen.toolkit.values, BOOT)


def _as_told(told: Told) -> dict[str, Any]:
    """What is told of each card, without the bus: no agent writes this, and the inventory must bear it."""
    attributes = {names.FEATURE_AGENT: {"boot_id": BOOT}}
    if told.driver is not None:
        attributes[names.FEATURE_DRIVER] = {"version": told.driver}
    return features(attributes, {names.FEATURE_DEVICE: [_attributes(card) for card in told.cards or ()]})


def _attributes(card: Card) -> Mapping[str, str]:
    major, minor = card.compute or ("", "")
    found = {
        "address": card.address,
        "vendor": card.vendor,
        "device": card.device,
        "class": card.class_,
        "numa_node": "" if card.numa_node is None else str(card.numa_node),
        "uuid": card.uuid,
        "product": card.product,
        "memory_mib": str(card.memory_mib or ""),
        "compute_major": str(major),
        "compute_minor": str(minor),
        "mig_capable": "" if card.mig_capable is None else str(card.mig_capable).lower(),
        "mig_mode": "" if card.mig_enabled is None else "enabled" if card.mig_enabled else "disabled",
        "mig_instances": ",".join(f"{profile}={count}" for profile, count in card.mig_instances.items()),
    }
    return {key: value for key, value in found.items() if value}


def _function(card: Card) -> PciFunction:
    return PciFunction(
        address=card.address,
        vendor=card.vendor,
        device=card.device,
        class_=card.class_.ljust(6, "0"),
        subsystem_vendor=card.subsystem_vendor,
        subsystem_device=card.subsystem_device,
        numa_node=card.numa_node,
        driver=card.bound,
        virtual_functions=card.virtual_functions,
    )


def _driver_card(card: Card) -> DriverCard:
    return DriverCard(
        address=card.address,
        uuid=card.uuid,
        product=card.product,
        memory_mib=card.memory_mib,
        compute=card.compute,
        mig_capable=card.mig_capable,
        mig_enabled=card.mig_enabled,
        mig_instances=card.mig_instances,
        nvlink_peers=card.nvlink_peers,
    )
