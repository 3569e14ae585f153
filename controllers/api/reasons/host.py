"""Reasons of the conditions that speak of a node's driver, CUDA and container toolkit."""

from __future__ import annotations

from typing import Final

from controllers.api.names import MANAGER_BOOTSTRAP
from controllers.api.reasons.row import NOTHING, Row

OWNER: Final = MANAGER_BOOTSTRAP
ROWS: Final = (
    Row(
        "DriverMissing DriverOutdated CudaOutdated ToolkitMissing",
        "Unknown",
        "NoReport",
        "the agent's NodeFeature is not there: nobody tells of driver and toolkit",
        "`kubectl -n d8-gpu-operator describe pods -l app=gpu-nodeagent-discover --field-selector "
        "spec.nodeName=<node>`",
    ),
    Row(
        "DriverMissing",
        "False",
        "DriverReady",
        "the driver is loaded and its check passes",
        NOTHING,
    ),
    Row(
        "DriverMissing",
        "False",
        "DriverNotChecked",
        "the settings switch the driver's validator off",
        "`bootstrap.driverValidator.enabled: true`",
    ),
    Row(
        "DriverMissing",
        "True",
        "DriverNotFound",
        "no driver is loaded on the host",
        "install the cards' driver on the host, or see the log of the container that is to load it; on the node "
        "`modprobe nvidia; dmesg | grep NVRM`. The module brings drivers where a GPUDriver asks for one",
    ),
    Row(
        "DriverMissing InfraDegraded",
        "True",
        "CheckFailed",
        "a validator failed and gave no word that a condition takes",
        "do as its message says; update `gpu-nodeagent` to the module's version",
    ),
    Row(
        "DriverMissing ToolkitMissing MonitoringMissing",
        "Unknown",
        "Waiting",
        "its turn has not come: a component before it is not ready",
        "look at the component that the message names",
    ),
    Row(
        "DriverOutdated",
        "False",
        "DriverNewEnough",
        "the driver is as new as the cards need",
        NOTHING,
    ),
    Row(
        "DriverOutdated",
        "False",
        "NoDriverMinimum",
        "no least version is known for the node's cards",
        NOTHING,
    ),
    Row(
        "DriverOutdated",
        "True",
        "DriverTooOld",
        "the driver is older than the cards' generation, or a component, needs",
        "install a newer driver on the host and reboot it",
    ),
    Row(
        "DriverOutdated",
        "Unknown",
        "DriverVersionUnknown",
        "the report names no version that can be compared",
        "on the node `cat /sys/module/nvidia/version`",
    ),
    Row(
        "CudaOutdated",
        "False",
        "CudaNewEnough",
        "the driver serves as new a CUDA as the cards need",
        NOTHING,
    ),
    Row(
        "CudaOutdated",
        "False",
        "NoCudaMinimum",
        "no least version is known for the node's cards",
        NOTHING,
    ),
    Row(
        "CudaOutdated",
        "True",
        "CudaTooOld",
        "the driver serves only an older CUDA",
        "install a newer driver on the host and reboot it",
    ),
    Row(
        "CudaOutdated",
        "Unknown",
        "CudaVersionUnknown",
        "the report names none: the validator, which asks NVML for it, has not spoken since the node started",
        "wait; `bootstrap.validator` must be on; on the node `nvidia-smi`",
    ),
    Row(
        "ToolkitMissing",
        "False",
        "ToolkitReady",
        "the container toolkit is ready",
        NOTHING,
    ),
    Row(
        "ToolkitMissing",
        "False",
        "ToolkitNotChecked",
        "the administrator brings the toolkit, and the agent finds it",
        NOTHING,
    ),
    Row(
        "ToolkitMissing",
        "True",
        "ToolkitNotFound",
        "`bootstrap.toolkit.enabled` is false, and no toolkit is on the host",
        "install `nvidia-container-toolkit` on the host, or enable the component",
    ),
)
