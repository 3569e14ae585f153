"""A variant's DaemonSet and ConfigMap, and the pod that looks at a node before anything is begun there. Pure.

All are whole objects but for name and namespace, with the hash of what they are (`controllers.runtime.drift`); the
DaemonSet and the ConfigMap have the name `choice.variant.object_name`.

A variant's DaemonSet is built from the spec by which its revision was computed. That of an earlier revision cannot be
built again once the spec has changed, and is left as it is.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.components.daemonset import ON_EVERY_NODE, module_labels
from controllers.components.podspec import env
from controllers.driver.pods import agent, containers, environment, host, mounted
from controllers.driver.pods.container_names import IMAGE
from controllers.driver.pods.inputs import NO_FILES, Files, Inputs, script
from controllers.driver.pods.sidecars import check_images
from controllers.runtime.drift import spec_hash

if TYPE_CHECKING:
    from controllers.api.gpudriver import GPUDriver, Proxy
    from controllers.components.podspec import Json
    from controllers.domain.driver.choice import Former, Install

COMPONENT: Final = "driver"
CHECK_COMPONENT: Final = "driver-check"
CHECK_SECONDS: Final = 900
"""How long a check pod may take, pulling the image included."""
GRACE_SECONDS: Final = 120
"""How long NVIDIA's program may take to stop the driver's daemons and to unload its modules."""
_ENDS: Final[Json] = {
    "restartPolicy": "Never",
    "activeDeadlineSeconds": CHECK_SECONDS,
    "terminationGracePeriodSeconds": 5,
}
"""Of a check pod."""
_HASH_LENGTH: Final = 10
_NODE_LENGTH: Final = 100


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
    spec = _daemonset_spec(given)
    # Another version of the module has another image of our own, and the cluster may get other proxies: it is no other
    # DaemonSet for that, and follows.
    digest = spec_hash(_daemonset_spec(replace(given, agent_image="", cluster_proxy=None)))
    return {
        "metadata": {"labels": spec["template"]["metadata"]["labels"], "annotations": {names.SPEC_HASH: digest}},
        "spec": spec,
    }


def _daemonset_spec(given: Inputs) -> Json:
    mark = {names.DRIVER_VARIANT: given.choice.variant.value}
    labels = _labels(given, COMPONENT) | mark
    return {
        "selector": {"matchLabels": {names.LABEL_COMPONENT: COMPONENT} | mark},
        "updateStrategy": {"type": "OnDelete"},
        "revisionHistoryLimit": 1,
        "template": {"metadata": {"labels": labels}, "spec": _pod(given) | {"nodeSelector": mark}},
    }


def configmap(driver: GPUDriver, choice: Install, *, files: Files = NO_FILES) -> Json | None:
    """The ConfigMap that the variant's pods and its check pods mount; None where they need none.

    It has the parameters of modules, and a copy of the package repositories and certificates that the driver names.
    """
    given = Inputs(driver, choice, "", files)
    data = mounted.data(given)
    if not data:
        return None
    labels = _labels(given, COMPONENT) | {names.DRIVER_VARIANT: choice.variant.value}
    return {"metadata": {"labels": labels, "annotations": {names.SPEC_HASH: spec_hash(data)}}, "data": data}


def check_name(node: str, choice: Install, *, clearing: bool = False) -> str:
    """Name of the check pod of a node for a variant; `clearing`: of the one that looks before a driver goes."""
    text = f"{node}/{choice.variant.value}/{choice.image}{'/clearing' if clearing else ''}"
    return _check_name(node, text)


def look_name(node: str) -> str:
    """Name of the pod that looks at a node before a person has it."""
    return _check_name(node, f"{node}//hand-over")


def _check_name(node: str, text: str) -> str:
    digest = hashlib.sha256(text.encode()).hexdigest()[:_HASH_LENGTH]
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
    labels = _labels(given, CHECK_COMPONENT) | {names.DRIVER_VARIANT: choice.variant.value}
    spec = _check(given) | {"nodeName": node}
    return {"metadata": {"labels": labels, "ownerReferences": [_owner(driver)]}, "spec": spec}


def look_pod(driver: GPUDriver, node: str, agent_image: str) -> Json:
    """The pod that looks at the node alone, whatever driver it has; it ends by itself and changes nothing."""
    labels = module_labels(
        CHECK_COMPONENT,
        **{names.LABEL_APP: f"gpu-{CHECK_COMPONENT}", names.LABEL_DRIVER: driver_label(driver.metadata.name)},
    )
    spec = _common(driver) | _ENDS | {"containers": [agent.look(agent_image)], "volumes": host.volumes("host", "sys")}
    return {"metadata": {"labels": labels, "ownerReferences": [_owner(driver)]}, "spec": spec | {"nodeName": node}}


def _owner(driver: GPUDriver) -> Json:
    return {
        "apiVersion": f"{names.GROUP}/{names.VERSION}",
        "kind": "GPUDriver",
        "name": driver.metadata.name,
        "uid": driver.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def driver_label(name: str) -> str:
    """The value of label `gpu.deckhouse.io/driver` for a GPUDriver: its name, cut where that is too long."""
    if len(name) <= names.LABEL_VALUE_MAX:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_HASH_LENGTH]
    return f"{name[: names.LABEL_VALUE_MAX - _HASH_LENGTH - 1]}-{digest}"


def _labels(given: Inputs, component: str) -> dict[str, str]:
    return module_labels(
        component,
        **{
            names.LABEL_APP: f"gpu-{component}",
            names.LABEL_DRIVER: driver_label(given.driver.metadata.name),
            names.LABEL_REVISION: given.choice.variant.revision,
        },
    )


def _common(driver: GPUDriver, former: Former | None = None) -> Json:
    # By name, since those of a ServiceAccount count only for pods that name none. One that is not there is passed over.
    named = former.pull_secrets if former is not None else driver.spec.image.pull_secrets
    secrets = [{"name": name} for name in dict.fromkeys((*named, names.REGISTRY_SECRET))]
    made: Json = ON_EVERY_NODE | {"hostPID": True, "automountServiceAccountToken": False}
    return made | {"imagePullSecrets": secrets}


def _pod(given: Inputs) -> Json:
    hosts = (*agent.volumes(given), *(one["name"] for one in host.DRIVER))
    return _common(given.driver) | {
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "initContainers": [agent.prepare(given)],
        "containers": [containers.driver(given), *containers.beside(given)],
        "volumes": [
            *host.volumes(*hosts, host_mofed=given.driver.spec.rdma.host_mofed),
            *mounted.volumes(given),
        ],
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
        _common(given.driver)
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
    return _common(given.driver, former) | _ENDS | {"containers": containers, "volumes": host.volumes("host", "sys")}


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
