"""Which image a container of the module runs. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api.image_reference import split_reference

if TYPE_CHECKING:
    from controllers.api.component_settings import ComponentSettings

AGENT_IMAGE: Final = "registry.local/gpu-control-plane/nodeagent:dev"
"""The module's own node agent: the chart's default. The controllers' flag --agent-image tells a cluster's own. Images
of others stand in the table of components (`controllers.api.components`)."""


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
