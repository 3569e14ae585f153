"""From the settings to the DaemonSets, ConfigMaps and RuntimeClasses that are to be there. Pure.

The components use the driver that is there: on the host, or in a container whose root is mounted there.
What reaches into the host does so with the mounts that it needs; only what configures the container
runtime is privileged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.api.components import COMPONENTS
from controllers.components import images
from controllers.components.agent import Agent
from controllers.components.builder import Inputs, builder
from controllers.components.daemonset import ON_EVERY_NODE, build_daemonset, module_labels
from controllers.components.overrides import customised
from controllers.components.podspec import DRIVER_ROOT
from controllers.domain.agents import reaching
from controllers.runtime.drift import spec_hash

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controllers.api.component import Component
    from controllers.api.settings import BootstrapSettings
    from controllers.components.podspec import Json
    from controllers.domain.agents import Variables


def object_name(component: str) -> str:
    """The name of a component's DaemonSet, and of its ConfigMap if it has one."""
    return f"gpu-{component}"


NAMES: Final = tuple(object_name(component.name) for component in COMPONENTS)
"""Names of the DaemonSets and ConfigMaps of all components, wanted or not."""


def daemonsets(
    settings: BootstrapSettings,
    agent_image: str = images.AGENT_IMAGE,
    agent_env: Variables = (),
    resources: Sequence[str] = (),
    driver_root: str = "",
) -> dict[str, Json]:
    """The DaemonSets that are to run, by name: whole objects but for what names them.

    `agent_env` is for those of the module's own program, which talks to the API server; `resources` are those whose
    pods the exporter is to name; `driver_root` is the host's folder for the root of a driver's container, if not the
    usual one.
    """
    agent = Agent(agent_image, agent_env, driver_root or DRIVER_ROOT)
    return {
        object_name(component.name): _daemonset(component, settings, agent, resources)
        for component in COMPONENTS
        if settings.enabled(component.name)
    }


def _daemonset(component: Component, settings: BootstrapSettings, agent: Agent, resources: Sequence[str]) -> Json:
    chosen, built = settings.component(component.name), builder(component)
    image = images.reference(chosen, component.image or agent.image)
    pod = built.pod(Inputs(image, settings, agent, resources))
    if not component.image:
        pod = reaching(pod, agent.env)
    common: Json = ON_EVERY_NODE | {
        "nodeSelector": {names.deploy_label(component.name): "true"},
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 30,
    }
    name, pod = object_name(component.name), customised(pod, chosen)
    return build_daemonset(name, module_labels(component.name), common | pod, annotations=built.annotations)


def configmaps(settings: BootstrapSettings) -> dict[str, Json]:
    """The ConfigMaps that the components' pods mount, by name; a pod waits for the one that it names."""
    made = {}
    for component in COMPONENTS:
        if settings.enabled(component.name) and (data := dict(builder(component).config)):
            meta = {"labels": labels(component.name), "annotations": {names.SPEC_HASH: spec_hash(data)}}
            made[object_name(component.name)] = {"metadata": meta, "data": data}
    return made


def labels(component: str) -> dict[str, str]:
    """Labels of a component's DaemonSet, ConfigMap and pods."""
    return module_labels(component) | {names.LABEL_APP: object_name(component)}


def runtime_classes() -> dict[str, Json]:
    """The RuntimeClasses under which containers see cards: the API server refuses pods that name an absent one."""
    meta = {"labels": {names.LABEL_HERITAGE: "deckhouse", names.LABEL_MODULE: names.MODULE}}
    return {handler: {"metadata": meta, "handler": handler} for handler in names.RUNTIME_CLASSES}
