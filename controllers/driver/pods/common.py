"""What a driver's pods and check pods have in common: their labels, and how they come onto any node. Pure."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.components.daemonset import ON_EVERY_NODE, module_labels

if TYPE_CHECKING:
    from controllers.api.gpudriver import GPUDriver
    from controllers.components.podspec import Json
    from controllers.domain.driver.choice import Former
    from controllers.driver.pods.inputs import Inputs

HASH_LENGTH: Final = 10


def driver_label(name: str) -> str:
    """The value of label `gpu.deckhouse.io/driver` for a GPUDriver: its name, cut where that is too long."""
    if len(name) <= names.LABEL_VALUE_MAX:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:HASH_LENGTH]
    return f"{name[: names.LABEL_VALUE_MAX - HASH_LENGTH - 1]}-{digest}"


def labels(given: Inputs, component: str) -> dict[str, str]:
    """Labels of what is built for a variant, but for the variant's own."""
    return module_labels(
        component,
        **{
            names.LABEL_APP: f"gpu-{component}",
            names.LABEL_DRIVER: driver_label(given.driver.metadata.name),
            names.LABEL_REVISION: given.choice.variant.revision,
        },
    )


def common(driver: GPUDriver, former: Former | None = None) -> Json:
    """The part of the pod's spec that is the same; `former`: of a look for a driver that is no longer wanted."""
    # By name, since those of a ServiceAccount count only for pods that name none. One that is not there is passed over.
    named = former.pull_secrets if former is not None else driver.spec.image.pull_secrets
    secrets = [{"name": name} for name in dict.fromkeys((*named, names.REGISTRY_SECRET))]
    made: Json = ON_EVERY_NODE | {"hostPID": True, "automountServiceAccountToken": False}
    return made | {"imagePullSecrets": secrets}
