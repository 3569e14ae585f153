"""What a component's module gives: how its pod is built from the settings, and what the pod reads. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from controllers.api.component import Component
    from controllers.api.settings import BootstrapSettings
    from controllers.components.agent import Agent
    from controllers.components.podspec import Json


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a pod is built from."""

    image: str
    """The component's own image."""
    settings: BootstrapSettings
    agent: Agent
    """The module's own program, in this pod or in a container beside the component's."""
    resources: Sequence[str] = ()
    """Extended resources of the pools that have cards."""


@dataclass(frozen=True, slots=True)
class Builder:
    """How a component's pod is built."""

    pod: Callable[[Inputs], Json]
    """The pod's spec, but for what all components have in common. Settings change its first container alone."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Of the pod: a change of one starts it anew."""
    config: Mapping[str, str] = field(default_factory=dict)
    """Files of the ConfigMap that the pod mounts, which has the DaemonSet's name; there is none without files."""


def builder(component: Component) -> Builder:
    """The builder that the component's module has as `BUILDER`; raises ImportError where there is no such module."""
    module = import_module(f"controllers.components.pods.{component.setting}")
    found: Builder = module.BUILDER
    return found
