"""Parts of a GPUDriver's spec, from fields that a ClusterPolicy and an NVIDIADriver share. Pure.

`at` is what stands before the driver's fields: `driver.` in a ClusterPolicy, nothing in an NVIDIADriver.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from controllers.api import gpudriver_rules as rules
from controllers.gpu_operator.credentials import may_be_secret

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.gpu_operator.remarks import Fields

FLAVOURS: Final = {"": "Auto", "auto": "Auto", "open": "Open", "proprietary": "Proprietary"}
PROXIES: Final = {"HTTP_PROXY": "http", "HTTPS_PROXY": "https", "NO_PROXY": "no"}


def version_of(fields: Fields, at: str, mode: str) -> str | None:
    """The version; None where there is none that a GPUDriver takes."""
    version = fields.text(f"{at}version")
    if not re.fullmatch(rules.VERSION, version):
        reason = (
            "a GPUDriver's version is that of the driver alone, such as 580.178.04; its image's tag follows from it"
        )
        fields.remark("Refused", f"{at}version", f"{reason}. No GPUDriver is made", version)
        return None
    if mode == "Compiled" and "." not in version:
        reason = "a branch has precompiled images alone: set usePrecompiled, or a whole version. No GPUDriver is made"
        fields.remark("Refused", f"{at}version", reason, version)
        return None
    return version


def image_of(fields: Fields, at: str) -> dict[str, Any] | None:
    """Repository and name; None where no image can be made of them. An NVIDIADriver's `image` may be a whole path."""
    repository, name = fields.text(f"{at}repository"), fields.text(f"{at}image") or "driver"
    path = f"{repository}/{name}" if repository else name
    folder, _, last = path.rpartition("/")
    if not re.fullmatch(rules.IMAGE_NAME, last) or not re.fullmatch(rules.REPOSITORY, folder or rules.UPSTREAM):
        reason = "no repository and name of an image, without a tag: its tag follows from the version and the system"
        fields.remark("Refused", f"{at}image", f"{reason}. No GPUDriver is made", path)
        return None
    made: dict[str, Any] = {"repository": folder or rules.UPSTREAM, "name": last}
    if policy := fields.text(f"{at}imagePullPolicy"):
        made["pullPolicy"] = policy
    if secrets := fields.words(f"{at}imagePullSecrets"):
        made["pullSecrets"] = secrets
        for secret in secrets:
            to_copy(fields, f"{at}imagePullSecrets", f"Secret {secret}")
    return made


def flavour_of(fields: Fields, at: str) -> str:
    """Open or proprietary modules."""
    found = fields.text(f"{at}kernelModuleType")
    if found in FLAVOURS:
        return FLAVOURS[found]
    fields.remark(
        "Refused", f"{at}kernelModuleType", "the modules are open or proprietary; Auto follows the cards", found
    )
    return "Auto"


def to_copy(fields: Fields, path: str, what: str) -> None:
    """Say that something is to be copied into the module's namespace."""
    reason = f"copy {what} from the operator's namespace into the module's: pods of the module read nothing elsewhere"
    fields.remark("ToDo", path, reason)


def build_of(fields: Fields, at: str, repositories: str) -> dict[str, Any]:
    """What the container needs to compile modules: the block `build`, where there is any."""
    made: dict[str, Any] = {}
    for key, path in (("repositories", repositories), ("certificates", f"{at}certConfig.name")):
        if found := fields.text(path):
            made[key] = {"configMap": found}
            to_copy(fields, path, f"ConfigMap {found}")
    if found := fields.text(f"{at}secretEnv"):
        made["secretEnv"] = found
        to_copy(fields, f"{at}secretEnv", f"Secret {found}")
    if proxy := _proxy(fields, f"{at}env"):
        made["proxy"] = proxy
    return {"build": made} if made else {}


def _proxy(fields: Fields, path: str) -> dict[str, str]:
    """Proxies among the environment, of which nothing else is taken over."""
    found: dict[str, str] = {}
    for variable in fields.rows(path):
        name, value = str(variable.get("name")), variable.get("value")
        key = PROXIES.get(name.upper())
        if key and isinstance(value, str) and may_be_secret(name, value):
            reason = (
                f"its URL has a user or a password, which is not copied: put {name} into a Secret of the module's "
                "namespace, name that in spec.build.secretEnv, and set spec.build.useClusterProxy to false"
            )
            fields.remark("ToDo", path, reason, name)
        elif key and isinstance(value, str) and value:
            found[key] = value
        else:
            reason = "a GPUDriver gives its container no environment but proxies and a Secret (spec.build.secretEnv)"
            fields.remark("NoCounterpart", path, reason, name)
    return found


def rdma_of(fields: Fields, at: str) -> dict[str, Any]:
    """The block `rdma`, where it is enabled."""
    enabled = fields.flag(f"{at}rdma.enabled", usual=False)
    hosts = fields.flag(f"{at}rdma.useHostMofed", usual=False)
    return {"rdma": {"enabled": True} | ({"hostMofed": True} if hosts else {})} if enabled else {}


def beside_of(fields: Fields, at: str) -> dict[str, Any]:
    """`gds` or `gdrcopy`: one more module beside the driver, from an image of its own."""
    if not fields.flag(f"{at}.enabled", usual=False):
        return {}
    parts = [fields.text(f"{at}.{word}") for word in ("repository", "image")]
    version = fields.text(f"{at}.version")
    image = "/".join(part for part in parts if part)
    if not version or not re.fullmatch(rules.SIDECAR_IMAGE, image) or not re.fullmatch(rules.SIDECAR_VERSION, version):
        reason = "its image is `<repository>/<image>` and its version the tag without the system; it is left out"
        fields.remark("Refused", at, reason, f"{image}:{version}")
        return {}
    return {at: {"enabled": True, "image": image, "version": version}}


def licence_of(fields: Fields, at: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The block `licensing` of a vGPU guest."""
    path = f"{at}licensingConfig.secretName"
    secret = fields.text(path)
    if spec["type"] == "VGPUGuest" and spec["image"]["repository"] == rules.UPSTREAM:
        fields.remark(
            "ToDo", f"{at}repository", f"a vGPU guest's driver is not in {rules.UPSTREAM}: name your own repository"
        )
    if not secret or spec["type"] != "VGPUGuest":
        return {}
    to_copy(fields, path, f"Secret {secret}")
    return {"licensing": {"secretName": secret}}


def resources_of(fields: Fields, path: str) -> dict[str, dict[str, str]]:
    """Requests and limits, of what a GPUDriver can be given."""
    made: dict[str, dict[str, str]] = {}
    for part in ("requests", "limits"):
        for name, value in fields.group(f"{path}.{part}").items():
            if name in rules.RESOURCES and re.fullmatch(rules.QUANTITY, str(value)):
                made.setdefault(part, {})[name] = str(value)
            else:
                reason = f"the driver's container can be given {', '.join(rules.RESOURCES)}"
                fields.remark("NoCounterpart", f"{path}.{part}.{name}", reason, value)
    return made
