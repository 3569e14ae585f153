"""The components' DaemonSets and ConfigMaps, each pod built by one function, and the settings laid over it. Pure."""

from controllers.bootstrap.operands.build import (
    CONFIGMAPS,
    configmaps,
    daemonsets,
    labels,
    object_name,
    runtime_classes,
)
from controllers.bootstrap.operands.images import AGENT_IMAGE, IMAGES
from controllers.bootstrap.operands.monitoring import DCGM_PORT, EXPORTER_PORT, named

__all__ = [
    "AGENT_IMAGE",
    "CONFIGMAPS",
    "DCGM_PORT",
    "EXPORTER_PORT",
    "IMAGES",
    "configmaps",
    "daemonsets",
    "labels",
    "named",
    "object_name",
    "runtime_classes",
]
