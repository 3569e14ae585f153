"""From the settings to the DaemonSets, ConfigMaps and RuntimeClasses that are to be there. Pure.

The components use the driver that is there: on the host, or in a container whose root is mounted there.
What reaches into the host does so with the mounts that it needs; only what configures the container
runtime is privileged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.bootstrap.phases import EXPORTER, PHASES, setting
from controllers.components import images
from controllers.components.agent import Agent
from controllers.components.overrides import customised
from controllers.components.pods import collectors, dcgm_exporter, gfd, toolkit, validator
from controllers.components.podspec import DRIVER_ROOT
from controllers.domain.agents import reaching
from controllers.runtime.drift import spec_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from controllers.api.settings import BootstrapSettings
    from controllers.components.podspec import Json
    from controllers.domain.agents import Variables

PODS: Final[dict[str, Callable[[str, BootstrapSettings], Json]]] = {
    "gfd": gfd.pod,
    "dcgm": dcgm_exporter.dcgm,
    EXPORTER: dcgm_exporter.exporter,
    "validator": validator.container,
}
# That need to know what the node's agents are told.
TOLD: Final[dict[str, Callable[[str, BootstrapSettings, Agent], Json]]] = {
    "driver-validator": validator.driver,
    "toolkit": toolkit.pod,
}
# Of a pod that reads its configuration once: a new one starts it anew.
ANNOTATIONS: Final = {EXPORTER: {names.COLLECTORS_HASH: collectors.HASH}}


def object_name(component: str) -> str:
    """The name of a component's DaemonSet."""
    return f"gpu-{component}"


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
    made, agent = {}, Agent(agent_image, agent_env, driver_root or DRIVER_ROOT)
    for phase in PHASES:
        chosen, component = setting(phase, settings), phase.component
        if chosen.enabled:
            image = images.reference(chosen, images.default(component, agent_image))
            pod = TOLD[component](image, settings, agent) if component in TOLD else PODS[component](image, settings)
            if component not in images.IMAGES:
                pod = reaching(pod, agent_env)
            if component == EXPORTER:
                pod = dcgm_exporter.naming(pod, resources)
            made[object_name(component)] = _daemonset(component, customised(pod, chosen))
    return made


CONFIGMAPS: Final = (dcgm_exporter.COLLECTORS,)
"""Names of all ConfigMaps of components, wanted or not."""


def configmaps(settings: BootstrapSettings) -> dict[str, Json]:
    """The ConfigMaps that the components' pods mount, by name; a pod waits for the one that it names."""
    if not settings.dcgm_exporter.enabled:
        return {}
    data, component = {collectors.FILE: collectors.TEXT}, EXPORTER
    meta = {"labels": labels(component), "annotations": {names.SPEC_HASH: spec_hash(data)}}
    return {dcgm_exporter.COLLECTORS: {"metadata": meta, "data": data}}


def labels(component: str) -> dict[str, str]:
    """Labels of a component's DaemonSet, ConfigMap and pods."""
    return {
        names.LABEL_HERITAGE: "deckhouse",
        names.LABEL_MODULE: names.MODULE,
        names.LABEL_APP: object_name(component),
        names.LABEL_COMPONENT: component,
    }


def runtime_classes() -> dict[str, Json]:
    """The RuntimeClasses under which containers see cards: the API server refuses pods that name an absent one."""
    meta = {"labels": {names.LABEL_HERITAGE: "deckhouse", names.LABEL_MODULE: names.MODULE}}
    return {handler: {"metadata": meta, "handler": handler} for handler in names.RUNTIME_CLASSES}


def _daemonset(component: str, pod: Json) -> Json:
    """What all components have in common around a pod."""
    common = {
        "nodeSelector": {names.deploy_label(component): "true"},
        "priorityClassName": "system-node-critical",
        # A node that is not ready, cordoned or reserved for a pool is prepared all the same.
        "tolerations": [{"operator": "Exists"}],
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 30,
    }
    template: Json = {"labels": labels(component)}
    if annotations := ANNOTATIONS.get(component):
        template["annotations"] = dict(annotations)
    spec = {
        "selector": {"matchLabels": {names.LABEL_APP: object_name(component)}},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
        "revisionHistoryLimit": 2,
        "template": {"metadata": template, "spec": common | pod},
    }
    meta = {"labels": labels(component), "annotations": {names.SPEC_HASH: spec_hash(spec)}}
    return {"metadata": meta, "spec": spec}
