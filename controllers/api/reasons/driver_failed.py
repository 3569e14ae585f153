"""How a driver failed on a node: reasons of conditions Failed and Halted of a GPUDriver, and of `driverWork`."""

from __future__ import annotations

from typing import Final

from controllers.api.names import MANAGER_DRIVER
from controllers.api.reasons.row import NOTHING, Row

OWNER: Final = MANAGER_DRIVER
_LOG: Final = "`kubectl -n d8-gpu-operator logs -l gpu.deckhouse.io/driver=<driver> -c nvidia-driver-ctr --tail=100`"
_AGAIN: Final = "put another version into `spec.version`, or the former one back"


def _of_revision(reasons: str, meaning: str, cure: str) -> Row:
    return Row("Failed Halted", "True", reasons, meaning, cure)


def _of_node(reasons: str, meaning: str, cure: str) -> Row:
    return Row("Failed", "True", reasons, meaning, cure)


REVISION: Final = (
    _of_revision(
        "ModuleLoad UnknownSymbol",
        "the kernel refuses the driver's module, or lacks what it needs",
        f"on the node `dmesg | grep -i -e nvidia -e NVRM`; {_AGAIN}",
    ),
    _of_revision(
        "BuildFailed",
        "the modules could not be compiled on the node: the version does not know its kernel, or its compiler is "
        "another one",
        f"{_LOG}; {_AGAIN}, or boot an older kernel",
    ),
    _of_revision(
        "OtherVersion",
        "the driver that is loaded is not the one that was asked for",
        "look at the image in `spec.image.overrides`: it has another version in it; or reboot the node, if the former "
        "driver is still loaded",
    ),
    _of_revision(
        "ValidationTimeout",
        "the driver is loaded, and the node's checks did not pass in time",
        "`kubectl gpu explain node <node>` says which check, and what to do about it",
    ),
    _of_revision(
        "CardsLost",
        "cards that the node had with its former driver are gone with this one",
        f"on the node `dmesg | grep -e NVRM -e Xid`, `lspci -d 10de:`; {_AGAIN}",
    ),
    _of_revision(
        "CudaFailed",
        "the driver is loaded, and CUDA does not work with it; the message has the validator's word and CUDA's number, "
        "such as 803",
        f"on the node `dmesg | grep -e NVRM -e Xid`; {_AGAIN}",
    ),
    _of_revision(
        "FabricMismatch",
        "NVLink's fabric does not come up with the driver (CUDA answers 802): the fabric manager is of another version",
        "on the node `systemctl status nvidia-fabricmanager`: one of the host's must be of the driver's version; "
        f"`dmesg | grep -i nvswitch`; {_AGAIN}",
    ),
    _of_revision(
        "MonitoringSilent",
        "the node's DCGM exporter has given no values for 5 minutes since the driver was changed",
        "`kubectl -n d8-gpu-operator logs -l gpu.deckhouse.io/component=dcgm --tail=100`: whether DCGM knows the "
        f"driver; {_AGAIN}",
    ),
    _of_revision(
        "Xid CardFaulted",
        "a card has become faulty since the driver was changed, and was not before",
        f"`kubectl gpu explain card <card>` says how; if the card would have failed in any case, return it, and "
        f"`kubectl gpu driver resume <driver>`; else {_AGAIN}",
    ),
    _of_revision(
        "NodeRestarts",
        "the node started anew three times while the driver was installed there: the driver brings it down",
        f"the node's console, and `/sys/fs/pstore`; {_AGAIN}",
    ),
    _of_revision(
        "DriverPodFailed",
        "the driver's container ends again and again and does not say why",
        f"{_LOG}; {_AGAIN}",
    ),
)
NODE: Final = (
    _of_node(
        "InstallTimeout",
        "the driver was not installed in time: 10 minutes precompiled, 30 minutes compiled",
        f"{_LOG}; a slow registry or package repository; it is tried again by itself",
    ),
    _of_node(
        "OldDriverStuck",
        "the driver that was there could not be unloaded",
        "end what the message names, or reboot the node",
    ),
    _of_node(
        "DriverLocked",
        "another driver container on the node holds its lock",
        "end the pod or the process that the message names; the lock goes with it. Leave the file "
        "`/run/nvidia/nvidia-driver.pid` where it is: without it two drivers would be loaded at once",
    ),
    _of_node(
        "HostDriver",
        "the host has a driver of its own, which it did not have when the node was looked at; it is not unloaded",
        "remove the driver's packages from the host and reboot, or leave the node to it: set `spec.mode` to `Auto` or "
        "`Host`",
    ),
    _of_node(
        "DevicesHeld",
        "processes hold a driver's devices open; nothing of it is ended by the module",
        "end the pods or processes that the message names; it is tried again by itself",
    ),
    _of_node(
        "RebootRequired",
        "a kernel module can be neither used nor unloaded",
        "reboot the node: `kubectl drain <node>` first if it has pods; the work goes on by itself after that",
    ),
    _of_node(
        "DiskFull",
        "the node has too little space for the image and what it builds",
        "on the node `crictl rmi --prune`, or a larger disk; it is tried again by itself",
    ),
    _of_node(
        "RepositoryUnreachable",
        "the package repositories do not answer from the node",
        "look at `spec.build.repositories`, `spec.build.proxy`, `spec.build.certificates` and the nodes' network; it "
        "is tried again by itself",
    ),
    _of_node(
        "HeadersMissing",
        "no package repository that the driver's container reaches has the running kernel's headers",
        "give a repository that has `linux-headers-<kernel>` (`kernel-devel`) in `spec.build.repositories`; headers "
        "that are installed on the node do not help the container",
    ),
    _of_node(
        "NouveauLoaded",
        "the kernel's own driver holds the cards and could not be unloaded",
        "on the node blacklist nouveau, rebuild the initramfs, reboot",
    ),
    _of_node(
        "PullFailed",
        "the image could not be pulled, though it was when the node was looked at",
        "`kubectl -n d8-gpu-operator describe pods -l gpu.deckhouse.io/driver=<driver>`; the registry, and the "
        "node's disk; it is tried again by itself",
    ),
    _of_node(
        "SecretMissing",
        "a Secret that the driver names is not there, or lacks a key: its pod cannot start",
        "make the Secret in namespace `d8-gpu-operator`: `spec.image.pullSecrets`, `spec.build.secretEnv`, "
        "`spec.licensing.secretName`",
    ),
    _of_node(
        "MofedMissing",
        "RDMA is asked for, and MOFED is not loaded on the node",
        "install MOFED on the host and set `spec.rdma.hostMofed: true`, or run its container",
    ),
)
ROWS: Final = (
    *REVISION,
    *NODE,
    Row("Failed", "False", "AsExpected", "no node failed with the driver", NOTHING),
    Row("Halted", "False", "AsExpected", "nothing speaks against the revision that is wanted", NOTHING),
)
