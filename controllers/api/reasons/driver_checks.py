"""Words of the validators for what the driver's own checks find."""

from __future__ import annotations

from typing import Final

from controllers.api.names import MANAGER_BOOTSTRAP
from controllers.api.reasons.row import Row

OWNER: Final = MANAGER_BOOTSTRAP
ROWS: Final = (
    Row(
        "DriverMissing InfraDegraded",
        "True",
        "NoCards",
        "no NVIDIA card is on the PCI bus",
        "on the node `lspci -d 10de:`; power, seating, BIOS",
    ),
    Row(
        "DriverMissing InfraDegraded",
        "True",
        "ModuleNotLoaded",
        "kernel module nvidia is not loaded",
        "`modprobe nvidia`; `dmesg` says why it refuses (kernel, Secure Boot, card)",
    ),
    Row(
        "DriverMissing",
        "True",
        "DriverHeld",
        "the driver's container was started anew while pods computed, and does nothing until the cards are free; those "
        "pods go on",
        "when the node's cards are free: `kubectl -n d8-gpu-operator annotate pod <pod> gpu.deckhouse.io/force=true`, "
        "then delete the pod `gpu-driver-…` of the node ([node-agent.md](node-agent.md#before-a-driver-comes))",
    ),
    Row(
        "DriverMissing",
        "True",
        "NouveauLoaded",
        "the kernel's own driver holds the cards",
        "blacklist nouveau, rebuild the initramfs, reboot",
    ),
    Row(
        "DriverMissing",
        "True",
        "FirmwareMissing",
        "the open module finds no firmware of its version",
        "install the driver's firmware package of the same version",
    ),
    Row(
        "DriverMissing InfraDegraded",
        "True",
        "NoCardBound CardNotBound",
        "the module is loaded and holds no card, or not this one",
        "`dmesg | grep NVRM`; unbind what holds it",
    ),
    Row(
        "DriverMissing",
        "True",
        "CardNotStarted",
        "the driver could not start the card",
        "`dmesg | grep -e NVRM -e Xid`; reset the card or the node",
    ),
    Row(
        "DriverMissing",
        "True",
        "CardExcluded",
        "the module's parameter `NVreg_ExcludedGpus` names the card",
        "take it out of the parameter to use the card",
    ),
    Row(
        "DriverMissing InfraDegraded",
        "True",
        "LibraryMissing",
        "the driver's libraries are not there: neither on the host nor in `/run/nvidia/driver`, or not all in the "
        "root that the message names",
        "on the host install its user-space packages; of a driver in a container see its log; in a container with "
        "cards see RuntimeClass and toolkit, and that `NVIDIA_DRIVER_CAPABILITIES` has `compute`",
    ),
    Row(
        "DriverMissing InfraDegraded",
        "True",
        "LibraryMismatch",
        "libraries and module are of different versions: half upgraded, or two drivers where the message names "
        "`/run/nvidia/driver`",
        "reboot the node, or unload and load the nvidia modules; of two drivers end one, and unmount that folder "
        "where its container is gone",
    ),
    Row(
        "DriverMissing InfraDegraded",
        "True",
        "DriverHangs",
        "NVML does not return",
        "`dmesg | grep -e NVRM -e Xid`; reboot",
    ),
    Row(
        "DriverMissing InfraDegraded",
        "True",
        "NVMLFailed",
        "NVML answers with an error",
        "`nvidia-smi` on the node",
    ),
    Row(
        "DriverMissing InfraDegraded",
        "True",
        "CardLost",
        "NVML does not answer for a card that the driver holds",
        "`dmesg | grep Xid` (79: fallen off the bus); reset the card or the node",
    ),
    Row(
        "DriverMissing",
        "True",
        "DeviceNumberMissing",
        "the loaded module has no device number",
        "unload and load the nvidia modules",
    ),
    Row(
        "DriverMissing InfraDegraded",
        "True",
        "DeviceStale",
        "device nodes are of a driver that was loaded before",
        "on the host remove them and `nvidia-modprobe -u -c=0`; in a container restart the pod",
    ),
    Row(
        "DriverMissing InfraDegraded",
        "True",
        "BusNotVisible HostFilesNotVisible",
        "the validator cannot see the host's files (beside cards that all fail)",
        "look at its mounts: `kubectl -n d8-gpu-operator get ds gpu-driver-validator -o yaml`",
    ),
    Row(
        "DriverMissing InfraDegraded",
        "True",
        "ModuleVersionUnknown AwaitingAnswer NVMLNotReached DeviceNotMade",
        "a check could not be made (beside cards that all fail, or in the report alone)",
        "wait; `nvidia-smi` on the node",
    ),
)
