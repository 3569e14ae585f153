"""Which image a component runs. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api.component_settings import split_reference

if TYPE_CHECKING:
    from controllers.api.component_settings import ComponentSettings

# Versions that NVIDIA's GPU operator v26.7.0 ships together.
IMAGES: Final = {
    "toolkit": "nvcr.io/nvidia/k8s/container-toolkit:v1.20.0",
    "gfd": "nvcr.io/nvidia/k8s-device-plugin:v0.20.0",
    "dcgm": "nvcr.io/nvidia/cloud-native/dcgm:4.6.0-1-ubuntu24.04",
    "dcgm-exporter": "nvcr.io/nvidia/k8s/dcgm-exporter:4.6.0-4.8.3-distroless",
}
"""Defaults of the components that are not the module's own."""
AGENT_IMAGE: Final = "registry.local/gpu-control-plane/nodeagent:dev"
"""The chart's default; gpu-bootstrap-controller's flag --agent-image says what a cluster really uses."""


def default(component: str, agent_image: str) -> str:
    """The component's image where the settings say nothing: the two validators are the module's node agent."""
    return IMAGES.get(component, agent_image)


def reference(chosen: ComponentSettings, usual: str) -> str:
    """The image's reference from the settings and the usual one, which fills what the settings leave out."""
    path, version = split_reference(usual)
    if chosen.image is not None and split_reference(chosen.image)[1] is not None:
        return chosen.image
    folder, _, name = path.rpartition("/")
    name = chosen.image or name
    if chosen.repository is not None:
        folder = chosen.repository
    elif "/" in name:
        folder = ""
    path, version = f"{folder}/{name}".removeprefix("/"), chosen.version or version
    if version is None:
        return path
    return f"{path}@{version}" if version.startswith("sha256:") else f"{path}:{version}"
