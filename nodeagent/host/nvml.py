"""Reads the driver through NVML: `python -m nodeagent.host.nvml [--root DIR] [--version V]`.

A program of its own, started by `nodeagent.host.driver_probe` for one reading: it prints the driver
as one line of JSON (`{"driver": …}` or `{"error": …}`) and ends. A call into a broken driver may
never return; a thread that hangs there cannot be ended and keeps the module in use, a process can
be killed, and its end is what lets the module be unloaded or replaced. For the same reason
nothing is kept open between readings, and an alarm ends it when nobody else does.

Each value is a try of its own: one that the card does not have (NotSupported, a library too old to
know the function) stays unknown; one that fails otherwise is named in `failed`. A missing permission
is such a failure: the card has the value (the memory of a card in MIG mode is told to the privileged
only) and another reading may have told it.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import signal
import sys
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pynvml

from controllers.domain.pci import canonical
from nodeagent.host import library
from nodeagent.host.facts.nvlink import Links, peers
from nodeagent.host.facts.profiles import by_size, profile_in
from nodeagent.host.facts.records import COMPLETED, IN_PROGRESS, NOT_STARTED, Driver, DriverCard, MigDevice

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
MIB = 1024 * 1024
HAS_NOT = frozenset(
    {
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_INVALID_ARGUMENT,
        pynvml.NVML_ERROR_NOT_FOUND,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        pynvml.NVML_ERROR_DEPRECATED,
    }
)
_FABRIC = {
    pynvml.NVML_GPU_FABRIC_STATE_NOT_STARTED: NOT_STARTED,
    pynvml.NVML_GPU_FABRIC_STATE_IN_PROGRESS: IN_PROGRESS,
    pynvml.NVML_GPU_FABRIC_STATE_COMPLETED: COMPLETED,
}
ALARM = 300  # seconds


class Reader:
    """Asks for values and remembers which failed."""

    def __init__(self) -> None:
        self.failed: list[str] = []

    def get(self, field: str, call: Callable[..., T], *args: Any) -> T | None:
        """What a function answers; None where there is no such value, or it failed."""
        try:
            return call(*args)
        except pynvml.NVMLError as error:
            if error.value not in HAS_NOT:
                self._fail(field)
        except ValueError:  # a string that is no UTF-8
            self._fail(field)
        return None

    def _fail(self, field: str) -> None:
        if field not in self.failed:
            self.failed.append(field)


def read() -> Driver:
    """One reading, from initialisation to shutdown; raises NVMLError where the driver does not answer at all."""
    pynvml.nvmlInit()
    try:
        return _driver()
    finally:
        pynvml.nvmlShutdown()


def _driver() -> Driver:
    reader = Reader()
    handles: list[Any] = []
    silent = 0
    for index in range(pynvml.nvmlDeviceGetCount()):
        try:
            handles.append(pynvml.nvmlDeviceGetHandleByIndex(index))
        except pynvml.NVMLError:  # a card that is lost has no handle, and no address to tell it by
            silent += 1
    cards: dict[str, DriverCard] = {}
    links: dict[str, Links] = {}
    for handle in handles:
        if (address := _address(handle)) is None:
            silent += 1
            continue
        cards[address], links[address] = _card(handle, address)
    # A link to a card that does not answer may be missing from its neighbours for that reason alone.
    reach = peers(links, all_answer=not silent)
    cuda = reader.get("cuda_version", pynvml.nvmlSystemGetCudaDriverVersion_v2)
    return Driver(
        version=reader.get("version", pynvml.nvmlSystemGetDriverVersion) or "",
        cuda_version=f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else "",
        cards={address: reach.of(card) for address, card in cards.items()},
        failed=tuple(reader.failed),
    )


def _address(handle: Any) -> str | None:
    info = Reader().get("address", pynvml.nvmlDeviceGetPciInfo, handle)
    return None if info is None else canonical(text(info.busId))


def _card(handle: Any, address: str) -> tuple[DriverCard, Links]:
    reader = Reader()
    memory = reader.get("memory_mib", pynvml.nvmlDeviceGetMemoryInfo, handle)
    compute = reader.get("compute", pynvml.nvmlDeviceGetCudaComputeCapability, handle)
    capable, enabled = _mig_mode(reader, handle)
    devices = _mig_devices(reader, handle) if enabled else ()
    fabric, fabric_error = _fabric(handle)
    card = DriverCard(
        address,
        uuid=reader.get("uuid", pynvml.nvmlDeviceGetUUID, handle) or "",
        product=(reader.get("product", pynvml.nvmlDeviceGetName, handle) or "").strip(),
        memory_mib=memory.total // MIB or None if memory is not None else None,
        compute=compute,
        mig_capable=capable,
        mig_enabled=enabled,
        mig_profiles=_mig_profiles(reader, handle) if capable else (),
        mig_instances=by_profile(devices),
        mig_devices=devices,
        persistence=_persistence(reader, handle),
        fabric=fabric,
        fabric_error=fabric_error,
        failed=tuple(reader.failed),
    )
    if "mig_capable" in card.failed:  # what hangs on it is not known either
        card = _replace_failed(card, "mig_enabled", "mig_profiles", "mig_instances")
    return card, _links(handle)


def _mig_mode(reader: Reader, handle: Any) -> tuple[bool | None, bool | None]:
    """Whether the card can be split, and is; the mode in force, not the one that waits for a reset."""
    try:
        current, _ = pynvml.nvmlDeviceGetMigMode(handle)
    except pynvml.NVMLError as error:
        if error.value == pynvml.NVML_ERROR_NOT_SUPPORTED:
            return False, None
        if error.value not in HAS_NOT:
            reader.failed.append("mig_capable")
        return None, None
    return True, current == pynvml.NVML_DEVICE_MIG_ENABLE


def _mig_profiles(reader: Reader, handle: Any) -> tuple[str, ...]:
    """Every GPU instance profile of the card; needs no privileges, and no MIG mode."""
    found: set[str] = set()
    for number in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        info = reader.get("mig_profiles", pynvml.nvmlDeviceGetGpuInstanceProfileInfo, handle, number)
        if info is not None and (name := profile_in(text(info.name))):
            found.add(name)
    return tuple(sorted(found, key=by_size))


def _mig_devices(reader: Reader, handle: Any) -> tuple[MigDevice, ...]:
    """The MIG devices of a card.

    Listing GPU instances themselves needs privileges; a MIG device is seen by everybody, and
    is named after its profile: `NVIDIA H100 80GB HBM3 MIG 1g.10gb`.
    """
    found: list[MigDevice] = []
    for number in range(reader.get("mig_instances", pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
        device = reader.get("mig_instances", pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, number)
        if device is None:
            continue
        instance = reader.get("mig_instances", pynvml.nvmlDeviceGetGpuInstanceId, device)
        compute = reader.get("mig_instances", pynvml.nvmlDeviceGetComputeInstanceId, device)
        name = profile_in(reader.get("mig_instances", pynvml.nvmlDeviceGetName, device) or "")
        uuid = reader.get("mig_instances", pynvml.nvmlDeviceGetUUID, device) or ""
        if instance is not None and name:
            found.append(MigDevice(uuid, name, instance, compute if compute is not None else -1))
    return tuple(found)


def by_profile(devices: tuple[MigDevice, ...]) -> dict[str, int]:
    """How many GPU instances of each profile hold a MIG device."""
    names = list({device.gpu_instance: device.profile for device in devices}.values())
    return {name: names.count(name) for name in sorted(set(names), key=by_size)}


def _persistence(reader: Reader, handle: Any) -> bool | None:
    mode = reader.get("persistence", pynvml.nvmlDeviceGetPersistenceMode, handle)
    return None if mode is None else mode == pynvml.NVML_FEATURE_ENABLED


def _fabric(handle: Any) -> tuple[str, str]:
    """How far the card's registration with NVLink's fabric is, and the error of one that is over.

    Both empty where the machine has no such fabric, or its driver does not tell (A100 with NVSwitches).
    """
    for made, call in (
        (pynvml.c_nvmlGpuFabricInfo_v2_t(), pynvml.nvmlDeviceGetGpuFabricInfoV),
        (pynvml.c_nvmlGpuFabricInfo_t(), pynvml.nvmlDeviceGetGpuFabricInfo),
    ):
        if Reader().get("fabric", call, handle, ctypes.byref(made)) is None:
            continue
        state = _FABRIC.get(made.state, "")
        over = state == COMPLETED and made.status != pynvml.NVML_SUCCESS
        return state, str(pynvml.NVMLError(made.status)) if over else ""
    return "", ""


def _links(handle: Any) -> Links:
    """The ends of the card's NVLinks that are up."""
    reader = Reader()
    cards: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    switched = 0
    for number in range(pynvml.NVML_NVLINK_MAX_LINKS):
        up = reader.get("nvlink_peers", pynvml.nvmlDeviceGetNvLinkState, handle, number)
        if up != pynvml.NVML_FEATURE_ENABLED:
            continue
        kind = reader.get("nvlink_peers", pynvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, number)
        if kind == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
            switched += 1
            continue
        info = reader.get("nvlink_peers", pynvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, number)
        if info is not None and (address := canonical(text(info.busId))):
            (cards if kind == pynvml.NVML_NVLINK_DEVICE_TYPE_GPU else unknown)[address] += 1
    return Links(cards, unknown, switched, failed=bool(reader.failed))


def text(value: Any) -> str:
    """A string of a structure."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _replace_failed(card: DriverCard, *fields: str) -> DriverCard:
    return replace(card, failed=(*card.failed, *fields))


def main(argv: list[str] | None = None) -> int:
    """Print one reading."""
    signal.alarm(ALARM)
    parser = argparse.ArgumentParser(description="Print what NVIDIA's driver tells of its cards, as JSON.")
    parser.add_argument("--root", type=Path, action="append", default=[], help="folder of the host's files")
    parser.add_argument("--version", default="", help="version of the loaded kernel module")
    args = parser.parse_args(argv)
    try:
        library.load(args.root, args.version)
        answer: dict[str, Any] = {"driver": asdict(read())}
    except OSError as error:
        answer = {"error": f"no library: {error}"}
    except pynvml.NVMLError as error:
        answer = {"error": str(error)}
    print(json.dumps(answer))  # noqa: T201 - this is its output
    return 0


if __name__ == "__main__":
    sys.exit(main())
