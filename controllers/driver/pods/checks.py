"""The pods that look at a node: before a driver comes onto it or goes, and before a person has it. Pure.

All are whole objects but for name and namespace. They end by themselves and change nothing.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.components.daemonset import module_labels
from controllers.components.podspec import env
from controllers.driver.pods import agent, environment, host, mounted
from controllers.driver.pods.common import HASH_LENGTH, common, driver_label, labels
from controllers.driver.pods.container_names import IMAGE
from controllers.driver.pods.inputs import NO_FILES, Files, Inputs, script
from controllers.driver.pods.sidecars import check_images

if TYPE_CHECKING:
    from controllers.api.gpudriver import GPUDriver, Proxy
    from controllers.components.podspec import Json
    from controllers.domain.driver.choice import Former, Install

COMPONENT: Final = "driver-check"
SECONDS: Final = 900
"""How long a check pod may take, pulling the image included."""
_ENDS: Final[Json] = {
    "restartPolicy": "Never",
    "activeDeadlineSeconds": SECONDS,
    "terminationGracePeriodSeconds": 5,
}
_NODE_LENGTH: Final = 100


def check_name(node: str, choice: Install, *, clearing: bool = False) -> str:
    """Name of the check pod of a node for a variant; `clearing`: of the one that looks before a driver goes."""
    text = f"{node}/{choice.variant.value}/{choice.image}{'/clearing' if clearing else ''}"
    return _check_name(node, text)


def look_name(node: str) -> str:
    """Name of the pod that looks at a node before a person has it."""
    return _check_name(node, f"{node}//hand-over")


def _check_name(node: str, text: str) -> str:
    digest = hashlib.sha256(text.encode()).hexdigest()[:HASH_LENGTH]
    return f"gpu-driver-check-{node[:_NODE_LENGTH].rstrip('-.')}-{digest}"


def check_pod(
    driver: GPUDriver,
    node: str,
    choice: Install,
    agent_image: str,
    *,
    files: Files = NO_FILES,
    cluster_proxy: Proxy | None = None,
) -> Json:
    """The pod that pulls the driver's image on the node and looks at it; it ends by itself and changes nothing.

    Container `look` says what is there (`controllers.api.driver_look.Look`). Container `image` shows that the image and
    all Secrets can be had, and, where modules are compiled, that the kernel's headers can (`Prepared`, Refused).
    There is one more container for the image of each module beside the driver.
    """
    given = Inputs(driver, choice, agent_image, files, cluster_proxy)
    marked = labels(given, COMPONENT) | {names.DRIVER_VARIANT: choice.variant.value}
    spec = _check(given) | {"nodeName": node}
    return {"metadata": {"labels": marked, "ownerReferences": [_owner(driver)]}, "spec": spec}


def look_pod(driver: GPUDriver, node: str, agent_image: str) -> Json:
    """The pod that looks at the node alone, whatever driver it has; it ends by itself and changes nothing."""
    marked = module_labels(
        COMPONENT,
        **{names.LABEL_APP: f"gpu-{COMPONENT}", names.LABEL_DRIVER: driver_label(driver.metadata.name)},
    )
    spec = common(driver) | _ENDS | {"containers": [agent.look(agent_image)], "volumes": host.volumes("host", "sys")}
    return {"metadata": {"labels": marked, "ownerReferences": [_owner(driver)]}, "spec": spec | {"nodeName": node}}


def _owner(driver: GPUDriver) -> Json:
    return {
        "apiVersion": f"{names.GROUP}/{names.VERSION}",
        "kind": "GPUDriver",
        "name": driver.metadata.name,
        "uid": driver.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def _check(given: Inputs) -> Json:
    if given.choice.former is not None:
        return _check_former(given, given.choice.former)
    image: Json = (
        _pulled(given, IMAGE, given.choice.image)
        | {
            "command": ["bash", "-c", script("repository")] if given.compiled else ["true"],
            "env": [
                *env({names.VISIBLE_DEVICES: names.NO_DEVICES} | environment.proxies(given.proxy)),
                *_licence(given),
            ],
            "volumeMounts": [host.OS_RELEASE, *mounted.build_mounts(given)],
        }
        | environment.secret(given)
    )
    return (
        common(given.driver)
        | _ENDS
        | {
            "containers": [image, *_beside(given), agent.look(given.agent_image)],
            "volumes": [*host.volumes("host", "sys", "os-release"), *mounted.build_volumes(given)],
        }
    )


def _check_former(given: Inputs, former: Former) -> Json:
    """The look for a driver of a former revision: its images are asked for as its DaemonSet does.

    It was compiled on nodes of this kind before, so that headers and repositories are not asked about.
    """
    containers = [_pulled(given, IMAGE, given.choice.image), *_beside(given), agent.look(given.agent_image)]
    return common(given.driver, former) | _ENDS | {"containers": containers, "volumes": host.volumes("host", "sys")}


def _beside(given: Inputs) -> list[Json]:
    """One more container for the image of each module beside the driver."""
    images = check_images(given.driver.spec, given.choice)
    return [_pulled(given, name, image) for name, image in images.items() if name != IMAGE]


def _pulled(given: Inputs, name: str, image: str) -> Json:
    """A container that shows that its image can be had, and ends."""
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": given.driver.spec.image.pull_policy,
        "command": ["true"],
        "env": env({names.VISIBLE_DEVICES: names.NO_DEVICES}),
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}},
    }


def _licence(given: Inputs) -> list[Json]:
    """A Secret that is not there, or lacks a key, is seen here, and not by a driver that waits for ever."""
    name = given.driver.spec.licensing.secret_name
    keys = mounted.LICENCE if name else ()
    return [
        {"name": f"LICENCE_{number}", "valueFrom": {"secretKeyRef": {"name": name, "key": key}}}
        for number, key in enumerate(keys)
    ]
