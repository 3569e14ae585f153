"""Words of the validator in a container, for what it alone looks at."""

from __future__ import annotations

from typing import Final

from controllers.api.names import MANAGER_BOOTSTRAP
from controllers.api.reasons.row import Row

OWNER: Final = MANAGER_BOOTSTRAP
ROWS: Final = (
    Row(
        "InfraDegraded",
        "True",
        "FabricIncomplete",
        "NVLink's fabric is not ready for the cards: NVML answers, and CUDA ends with error 802",
        "on the node `systemctl status nvidia-fabricmanager`: it runs, and is of the driver's version; `dmesg | "
        "grep -i nvswitch`",
    ),
    Row(
        "InfraDegraded",
        "True",
        "CudaError802",
        "CUDA answers 802, `CUDA_ERROR_SYSTEM_NOT_READY`: NVLink's fabric is not ready, where NVML does not tell of"
        " it (A100)",
        "on the node `systemctl status nvidia-fabricmanager`: it runs, and is of the driver's version; `dmesg | "
        "grep -i nvswitch`; with confidential computing also `nvidia-smi conf-compute -srs 1`",
    ),
    Row(
        "InfraDegraded",
        "True",
        "CudaError803",
        "CUDA answers 803, `CUDA_ERROR_SYSTEM_DRIVER_MISMATCH`: its library is not of the loaded module's version",
        "restart the validator's pod where the driver was changed under it; else reboot the node",
    ),
    Row(
        "InfraDegraded",
        "True",
        "CardNotInCuda",
        "CUDA shows fewer cards than NVML answers for",
        "`dmesg | grep -e NVRM -e Xid`; reset the card",
    ),
    Row(
        "InfraDegraded",
        "True",
        "CudaCopyDiffers",
        "what was copied to the card's memory came back changed",
        "`nvidia-smi -q -d ECC`; take the card out of use and have it replaced",
    ),
    Row(
        "InfraDegraded",
        "True",
        "CudaFailed",
        "CUDA answers with another error, which the message names",
        "`dmesg | grep -e NVRM -e Xid`; reset the card or the node",
    ),
    Row(
        "InfraDegraded",
        "True",
        "CudaHangs",
        "a call of CUDA does not return",
        "`dmesg | grep -e NVRM -e Xid`; reset the card, or reboot",
    ),
    Row(
        "InfraDegraded",
        "True",
        "AwaitingFabric AwaitingCuda",
        "the fabric may still be coming up; CUDA is being tried (in the report alone)",
        "wait: three minutes, some seconds for each card",
    ),
    Row(
        "InfraDegraded",
        "True",
        "CudaNotTried",
        "CUDA was not tried: `--no-cuda`, or no memory for it (in the report alone)",
        "the memory limit of the validator's container (`bootstrap.validator.resources`): 1Gi",
    ),
    Row(
        "InfraDegraded",
        "True",
        "DevicesMissing DeviceMissing",
        "the container has no device nodes, or not of this card",
        "toolkit, RuntimeClass `nvidia`, `NVIDIA_VISIBLE_DEVICES`, CDI",
    ),
    Row(
        "InfraDegraded",
        "True",
        "ProcOfOldDriver",
        "the container's view of `/proc/driver/nvidia` is of another driver",
        "restart the pod",
    ),
    Row(
        "InfraDegraded",
        "True",
        "CDIAbsent CDIBroken CDIStale CDIIncomplete",
        "a remark about the host's CDI specification; in the report alone",
        "`kubectl -n d8-gpu-operator logs -l gpu.deckhouse.io/component=toolkit -c cdi` says why the module's is "
        "not renewed; one of your own: `nvidia-ctk cdi generate --device-name-strategy=uuid` "
        "([names](bootstrap.md#how-the-cards-get-their-names))",
    ),
)
