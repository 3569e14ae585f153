"""Why no driver can come onto a node: reasons of condition Blocked of a GPUDriver, and of `driverWork` of its nodes."""

from __future__ import annotations

from typing import Final

from controllers.api.names import MANAGER_DRIVER
from controllers.api.reasons.row import NOTHING, Row

OWNER: Final = MANAGER_DRIVER
_NODES: Final = "`kubectl gpu driver <driver>` names the nodes"
_LEAVE_OUT: Final = "leave such nodes out with `spec.target`"


def _row(reasons: str, meaning: str, cure: str) -> Row:
    return Row("Blocked", "True", reasons, meaning, cure)


IMAGES: Final = (
    _row(
        "NoImageForSystem",
        "no image is published for the nodes' system in the mode that is asked for",
        "set `spec.mode` to `Auto` or `Host` for them, or name an image of yours in `spec.image.overrides`; "
        "[which images there are](driver.md#images)",
    ),
    _row(
        "NoImageForKernel",
        "no precompiled image is published for the nodes' kernel",
        "set `spec.mode` to `Compiled` or `Auto`, boot a kernel that has one, or name an image of yours in "
        "`spec.image.overrides`; [which images there are](driver.md#images)",
    ),
    _row(
        "NoImageForBranch",
        "no precompiled image of the branch is published for the nodes' system",
        "set `spec.version` to a branch that there is, or `spec.mode` to `Compiled`; "
        "[which images there are](driver.md#images)",
    ),
    _row(
        "NoImageForType",
        "a vGPU guest's driver is in no public registry",
        "build the image, and set `spec.image.repository` to where it is, or name it in `spec.image.overrides`",
    ),
    _row(
        "VersionIsBranch",
        "`spec.version` is a branch, and the nodes need an image that compiles, whose tag has a whole version",
        "set `spec.version` to a whole version such as `580.178.04`",
    ),
    _row(
        "ImageMissing",
        "the registry does not have the image: its pull on the node says so",
        "set another `spec.version`, mirror the image, or name one in `spec.image.overrides`",
    ),
    _row(
        "PullFailed",
        "the image could not be pulled: the registry does not answer, or refuses",
        "`kubectl -n d8-gpu-operator describe pods -l gpu.deckhouse.io/driver=<driver>`; look at "
        "`spec.image.pullSecrets`, the registry and the nodes' way to it; it is tried again by itself",
    ),
    _row(
        "TooManyKernels",
        "the nodes have more kernels than the module keeps DaemonSets for: 64 of one driver",
        "give the nodes one kernel, or split the driver in two with `spec.target`, or set `spec.mode` to `Compiled`",
    ),
)
DRIVER: Final = (
    _row(
        "ConfigMapMissing",
        "a ConfigMap that the driver names is not there, and the nodes have no driver",
        "make it in namespace `d8-gpu-operator`, or take its name out of `spec.build`",
    ),
    _row(
        "RevisionBad",
        "the nodes have no driver; the revision that is wanted failed on their kind, and none before it was good",
        "name another `spec.version`, or correct what `Halted` names and run `kubectl gpu driver resume <driver>`",
    ),
)
CARDS: Final = (
    _row(
        "MixedFlavours",
        "cards of one node need different kernel modules, open and proprietary, and a node has one driver",
        "move cards so that a node has one kind, or leave the node to its host's driver: "
        "`kubectl label node <node> gpu.deckhouse.io/driver-opt-out=true`",
    ),
    _row(
        "FlavourNotServed",
        "the flavour that is asked for, or that GPUDirect Storage needs, does not serve a card of the node",
        f"set `spec.flavour` to `Auto`, or {_LEAVE_OUT}",
    ),
    _row(
        "CardDropped",
        "the version no longer serves a card of the node: its last branch is older",
        f"for nodes with such cards make a GPUDriver of that branch, and {_LEAVE_OUT} here",
    ),
    _row(
        "CardTooNew",
        "the version is older than a card of the node",
        "raise `spec.version` to the one that the message names",
    ),
)
NODE: Final = (
    _row(
        "HostDriver",
        "the host has a driver of its own, and the mode does not leave it",
        "remove the driver's packages from the host and reboot, or set `spec.mode` to `Auto` or `Host`; the module "
        "removes no packages",
    ),
    _row(
        "ManagedElsewhere",
        "another operator manages the node's driver: nothing is installed beside it",
        f"end one of the two ([coexistence.md](coexistence.md)), or {_LEAVE_OUT}",
    ),
    _row(
        "ModulesUnsigned",
        "the kernel takes signed modules alone (Secure Boot or lockdown), and what a node compiles is not signed",
        "set `spec.mode` to `Precompiled` where an image has the kernel's signed modules, switch Secure Boot off in "
        "the firmware, or name an image with signed modules in `spec.image.overrides`",
    ),
    _row(
        "HeadersMissing",
        "no package repository that the driver's container reaches has the running kernel's headers, so nothing can be "
        "compiled",
        "give a repository that has `linux-headers-<kernel>` (`kernel-devel`) in `spec.build.repositories`, or boot a "
        "kernel whose headers there are; headers that are installed on the node do not help the container",
    ),
    _row(
        "RepositoryUnreachable",
        "the package repositories do not answer from the node",
        "look at `spec.build.repositories`, `spec.build.proxy`, `spec.build.certificates` and the nodes' network; it "
        "is tried again by itself",
    ),
    _row(
        "DiskFull",
        "the node has too little space for the image and what it builds",
        "on the node `crictl rmi --prune`, or a larger disk; it is tried again by itself",
    ),
    _row(
        "NouveauLoaded",
        "the kernel's own driver holds the cards and could not be unloaded",
        "on the node blacklist nouveau, rebuild the initramfs, reboot",
    ),
    _row(
        "DevicesHeld",
        "processes hold a driver's devices open; nothing of it is ended by the module",
        "end the pods or processes that the message names; it is tried again by itself",
    ),
    _row(
        "RebootRequired",
        "a kernel module can be neither used nor unloaded",
        "reboot the node: `kubectl drain <node>` first if it has pods; the work goes on by itself after that",
    ),
    _row(
        "MofedMissing",
        "RDMA is asked for, and MOFED is not loaded on the node",
        "install MOFED on the host and set `spec.rdma.hostMofed: true`, or run its container, or set "
        "`spec.rdma.enabled: false`",
    ),
    _row(
        "SecretMissing",
        "a Secret that the driver names is not there, or lacks a key: its pod cannot start",
        "make the Secret in namespace `d8-gpu-operator`: `spec.image.pullSecrets`, `spec.build.secretEnv`, "
        "`spec.licensing.secretName`",
    ),
    _row(
        "PreflightFailed PreflightTimeout",
        "the pod that looks at the node before anything starts there could not do so",
        "`kubectl -n d8-gpu-operator get pods -o wide -l gpu.deckhouse.io/driver=<driver>`, and the pod's log and "
        "Events; it is tried again by itself",
    ),
)
ROWS: Final = (
    *IMAGES,
    *DRIVER,
    *CARDS,
    *NODE,
    Row("Blocked", "False", "AsExpected", f"no node is kept from the driver; {_NODES}", NOTHING),
)
