"""A variant's DaemonSet and ConfigMap. Pure.

Both are whole objects but for name and namespace, with the hash of what they are (`controllers.runtime.drift`); their
name is `choice.variant.object_name`.

A variant's DaemonSet is built from the spec by which its revision was computed. That of an earlier revision cannot be
built again once the spec has changed, and is left as it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.components.daemonset import build_daemonset
from controllers.driver.pods import agent, containers, host, mounted
from controllers.driver.pods.common import common, labels
from controllers.driver.pods.inputs import NO_FILES, Files, Inputs
from controllers.runtime.drift import spec_hash

if TYPE_CHECKING:
    from controllers.api.gpudriver import GPUDriver, Proxy
    from controllers.components.podspec import Json
    from controllers.domain.driver.choice import Install

COMPONENT: Final = "driver"
GRACE_SECONDS: Final = 120
"""How long NVIDIA's program may take to stop the driver's daemons and to unload its modules."""


def daemonset(
    driver: GPUDriver,
    choice: Install,
    agent_image: str,
    *,
    files: Files = NO_FILES,
    cluster_proxy: Proxy | None = None,
    reboot_sentinel: bool = False,
) -> Json:
    """The DaemonSet that brings the variant onto the nodes with its label.

    It has no owner: a driver under pods does not go with the object that asked for it.
    """
    given = Inputs(driver, choice, agent_image, files, cluster_proxy, reboot_sentinel)
    mark = {names.DRIVER_VARIANT: choice.variant.value}
    # Another version of the module has another image of our own, and the cluster may get other proxies: it is no other
    # DaemonSet for that, and follows.
    known_by = _pod(replace(given, agent_image="", cluster_proxy=None)) | {"nodeSelector": mark}
    return build_daemonset(
        f"gpu-{COMPONENT}",
        labels(given, COMPONENT) | mark,
        _pod(given) | {"nodeSelector": mark},
        on_delete=True,
        selector={names.LABEL_COMPONENT: COMPONENT} | mark,
        revisions=1,
        hashed_pod=known_by,
    )


def configmap(driver: GPUDriver, choice: Install, *, files: Files = NO_FILES) -> Json | None:
    """The ConfigMap that the variant's pods and its check pods mount; None where they need none.

    It has the parameters of modules, and a copy of the package repositories and certificates that the driver names.
    """
    given = Inputs(driver, choice, "", files)
    data = mounted.data(given)
    if not data:
        return None
    marked = labels(given, COMPONENT) | {names.DRIVER_VARIANT: choice.variant.value}
    return {"metadata": {"labels": marked, "annotations": {names.SPEC_HASH: spec_hash(data)}}, "data": data}


def _pod(given: Inputs) -> Json:
    hosts = (*agent.volumes(given), *(one["name"] for one in host.DRIVER))
    return common(given.driver) | {
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "initContainers": [agent.prepare(given)],
        "containers": [containers.driver(given), *containers.extra_containers(given)],
        "volumes": [
            *host.volumes(*hosts, host_mofed=given.driver.spec.rdma.host_mofed),
            *mounted.volumes(given),
        ],
    }
