"""The components' DaemonSets, each pod built whole by one function; what the settings change is laid over it. Pure."""

from controllers.bootstrap.operands.build import daemonsets, labels, object_name, runtime_classes, spec_hash
from controllers.bootstrap.operands.images import AGENT_IMAGE, IMAGES
from controllers.bootstrap.operands.monitoring import DCGM_PORT, EXPORTER_PORT

__all__ = [
    "AGENT_IMAGE",
    "DCGM_PORT",
    "EXPORTER_PORT",
    "IMAGES",
    "daemonsets",
    "labels",
    "object_name",
    "runtime_classes",
    "spec_hash",
]
