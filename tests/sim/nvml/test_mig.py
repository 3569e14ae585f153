"""MIG: what a card offers, what it holds, and the devices that clients see in its place."""

import pynvml
import pytest

from sim.hardware.shape import Card
from sim.nvml import Config
from sim.nvml.profiles import profiles
from tests.sim.nvml.conftest import CATALOGUE
from tools.errors import UserError

NOT_SUPPORTED, NOT_FOUND, ARGUMENT = {"error": 3}, {"error": 6}, {"error": 2}
FIRST = "0000:19:00.0"
OFFER = """
h = n.nvmlDeviceGetHandleByIndex(0)
out = {}
for index in range(n.NVML_GPU_INSTANCE_PROFILE_COUNT):
    new = ask(n.nvmlDeviceGetGpuInstanceProfileInfo, h, index)
    if not isinstance(new, dict):
        out[new.name] = [index, new.id, new.memorySizeMB, new.sliceCount, new.instanceCount]
"""


@pytest.mark.parametrize("name", ["h100-sxm-8", "a100-sxm-8", "a30-4"])
def test_the_offer_is_the_catalogues(told, name):
    shape = CATALOGUE.shape(name)
    known = {f"MIG {p.name}": p for p in profiles(shape.cards[0])}
    assert [p.name for p in known.values()] == list(shape.cards[0].mig_profiles)
    config = Config.of(shape)
    for enabled in (False, True):
        out = told(config.partitioned(shape.cards[0].address) if enabled else config, OFFER)
        assert set(out) == set(known)
        for title, (index, number, memory, slices, instances) in out.items():
            profile = known[title]
            assert (index, number, slices) == (profile.index, profile.id, profile.slices)
            assert (memory, instances) == (profile.has["memory_mib"], profile.instances)


def test_numbers_are_those_of_nvidia_smi():
    ids = {p.name: p.id for p in profiles(CATALOGUE.shape("h100-sxm-8").cards[0])}
    assert ids == {
        "1g.10gb": 19,
        "1g.10gb+me": 20,
        "1g.20gb": 15,
        "2g.20gb": 14,
        "3g.40gb": 9,
        "4g.40gb": 5,
        "7g.80gb": 0,
    }


def test_a_card_without_mig(told):
    out = told(
        Config.of(CATALOGUE.shape("t4-4")),
        """
        h = n.nvmlDeviceGetHandleByIndex(0)
        out = [ask(n.nvmlDeviceGetMigMode, h), ask(n.nvmlDeviceGetGpuInstanceProfileInfo, h, 0),
               ask(n.nvmlDeviceGetGpuInstanceProfileInfo, h, 99), n.nvmlDeviceGetMaxMigDeviceCount(h),
               ask(n.nvmlDeviceGetMigDeviceHandleByIndex, h, 0), ask(n.nvmlDeviceGetGpuInstanceId, h)]
        """,
    )
    assert out == [NOT_SUPPORTED, NOT_SUPPORTED, ARGUMENT, 0, NOT_SUPPORTED, NOT_SUPPORTED]


HELD = (("1g.10gb", 0), ("2g.20gb", 2), ("3g.40gb", 4))
DEVICES = """
h = n.nvmlDeviceGetHandleByIndex(0)
out = {"mode": n.nvmlDeviceGetMigMode(h), "most": n.nvmlDeviceGetMaxMigDeviceCount(h), "devices": []}
for i in range(out["most"]):
    m = ask(n.nvmlDeviceGetMigDeviceHandleByIndex, h, i)
    if isinstance(m, dict):
        out["devices"].append(m["error"])
        continue
    uuid = n.nvmlDeviceGetUUID(m)
    again = n.nvmlDeviceGetHandleByUUID(uuid)
    out["devices"].append([
        n.nvmlDeviceGetName(m), uuid[:4], n.nvmlDeviceGetGpuInstanceId(m), n.nvmlDeviceGetComputeInstanceId(m),
        n.addressof(again.contents) == n.addressof(m.contents), n.nvmlDeviceGetMemoryInfo(m).total >> 20,
        n.nvmlDeviceGetCudaComputeCapability(m), [ask(f, m) for f in (n.nvmlDeviceGetMinorNumber,
        n.nvmlDeviceGetMigMode, n.nvmlDeviceGetPciInfo)]])
out["links"] = ask(n.nvmlDeviceGetNvLinkState, h, 0)
"""


def test_devices_of_a_partitioned_card(told, h100):
    out = told(h100.partitioned(FIRST, *HELD), DEVICES)
    assert (out["mode"], out["most"]) == ([1, 1], 7)
    assert out["devices"][3:] == [pynvml.NVML_ERROR_NOT_FOUND] * 4
    facts = {"1g.10gb": 9984, "2g.20gb": 20096, "3g.40gb": 40448}
    for number, ((name, _), device) in enumerate(zip(HELD, out["devices"], strict=False), start=1):
        assert device[:6] == [f"NVIDIA H100 80GB HBM3 MIG {name}", "MIG-", number, 0, True, facts[name]]
        assert device[6:] == [[9, 0], [NOT_SUPPORTED] * 3]
    assert out["links"] == NOT_SUPPORTED


INSTANCES = """
h, out = n.nvmlDeviceGetHandleByIndex(0), []
for i in range(3):
    m = n.nvmlDeviceGetMigDeviceHandleByIndex(h, i)
    parent, attributes = n.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(m), n.nvmlDeviceGetAttributes(m)
    instance = n.nvmlDeviceGetGpuInstanceById(parent, n.nvmlDeviceGetGpuInstanceId(m))
    compute = n.nvmlGpuInstanceGetComputeInstanceById(instance, n.nvmlDeviceGetComputeInstanceId(m))
    info, c = n.nvmlGpuInstanceGetInfo(instance), n.nvmlComputeInstanceGetInfo(compute)
    profiles = [ask(n.nvmlDeviceGetGpuInstanceProfileInfo, parent, k, 1) for k in range(10)]
    offers = [ask(n.nvmlGpuInstanceGetComputeInstanceProfileInfo, instance, k, 0, 1) for k in range(3)]
    out.append({
        "mig": [n.nvmlDeviceIsMigDeviceHandle(m).value, n.nvmlDeviceIsMigDeviceHandle(parent).value],
        "parent": n.nvmlDeviceGetIndex(parent),
        "attributes": [attributes.multiprocessorCount, attributes.memorySizeMB, attributes.gpuInstanceSliceCount,
                       attributes.computeInstanceSliceCount],
        "instance": [info.id, info.profileId, info.placement.start, info.placement.size],
        "profiles": [p.sliceCount for p in profiles if not isinstance(p, dict) and p.id == info.profileId],
        "compute": [c.id, c.profileId, c.placement.start, c.placement.size, n.nvmlDeviceGetIndex(c.device),
                    n.nvmlGpuInstanceGetInfo(c.gpuInstance).id],
        "offers": [o if isinstance(o, dict) else [o.sliceCount, o.instanceCount, o.multiprocessorCount]
                   for o in offers],
    })
instance = n.nvmlDeviceGetGpuInstanceById(h, 1)
out.append([ask(n.nvmlDeviceGetGpuInstanceById, h, 99), ask(n.nvmlGpuInstanceGetComputeInstanceById, instance, 6),
            ask(n.nvmlDeviceGetGpuInstanceById, n.nvmlDeviceGetHandleByIndex(1), 1),
            ask(n.nvmlDeviceGetDeviceHandleFromMigDeviceHandle, h), ask(n.nvmlDeviceGetAttributes, h),
            ask(n.nvmlGpuInstanceGetInfo, h)])
"""


def test_a_mig_devices_profile_is_found_by_its_instances(told, h100):
    """As go-nvlib does it for nvidia-ctk."""
    *held, wrong = told(h100.partitioned(FIRST, *HELD), INSTANCES)
    assert [one["mig"] for one in held] == [[1, 0]] * 3
    assert [one["parent"] for one in held] == [0] * 3
    assert [one["attributes"] for one in held] == [[16, 9984, 1, 1], [32, 20096, 2, 2], [60, 40448, 3, 3]]
    assert [one["instance"] for one in held] == [[1, 19, 0, 1], [2, 14, 2, 2], [3, 9, 4, 4]]
    assert [one["profiles"] for one in held] == [[1], [2], [3]]
    assert [one["compute"] for one in held] == [[0, 0, 0, 1, 0, 1], [0, 1, 0, 2, 0, 2], [0, 2, 0, 3, 0, 3]]
    assert [one["offers"] for one in held] == [
        [[1, 1, 16], NOT_SUPPORTED, NOT_SUPPORTED],
        [[1, 2, 16], [2, 1, 32], NOT_SUPPORTED],
        [[1, 3, 20], [2, 1, 40], [3, 1, 60]],
    ]
    assert wrong == [NOT_FOUND, NOT_FOUND, NOT_SUPPORTED, ARGUMENT, NOT_SUPPORTED, ARGUMENT]


def test_a_part_of_an_instance_has_a_name_of_its_own(told, h100):
    lines = (
        "mig_mode enabled", "gpu_instance id=1 profile=9 start=0",
        "compute_instance gpu_instance=1 id=0 profile=0 uuid=MIG-a",
        "compute_instance gpu_instance=1 id=1 profile=1 uuid=MIG-b",
    )  # fmt: skip
    out = told(
        h100.card(FIRST, *lines),
        """
        h = n.nvmlDeviceGetHandleByIndex(0)
        out = [n.nvmlDeviceGetName(n.nvmlDeviceGetMigDeviceHandleByIndex(h, i)) for i in (0, 1)]
        """,
    )
    assert out == ["NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb", "NVIDIA H100 80GB HBM3 MIG 2c.3g.40gb"]


def test_an_instance_that_goes_takes_its_device_along(told, h100):
    fewer = h100.partitioned(FIRST, ("1g.10gb", 0)).text()
    out = told(
        h100.partitioned(FIRST, *HELD),
        f"""
        h = n.nvmlDeviceGetHandleByIndex(0)
        devices = [n.nvmlDeviceGetMigDeviceHandleByIndex(h, i) for i in (0, 1)]
        instance = n.nvmlDeviceGetGpuInstanceById(h, 2)
        replace({fewer!r})
        out = [ask(n.nvmlDeviceGetGpuInstanceId, d) for d in devices] + [ask(n.nvmlGpuInstanceGetInfo, instance)]
        """,
    )
    assert out == [1, ARGUMENT, ARGUMENT]


def test_a_pending_mode_waits(told, h100):
    out = told(h100.card(FIRST, "mig_pending enabled"), "out = everywhere(n.nvmlDeviceGetMigMode)[:2]")
    assert out == [[0, 1], [0, 0]]


def test_a_card_that_nobody_knows_how_to_cut():
    card = Card(address=FIRST, vendor="10de", device="ffff", subsystem_vendor="10de", subsystem_device="0000",
                mig_profiles=("1g.10gb",), **{"class": "0302"})  # fmt: skip
    with pytest.raises(UserError, match="10de:ffff is cut into 1g"):
        profiles(card)


def test_an_ordinary_container_is_told_less(told, h100):
    config = h100.partitioned(FIRST, ("1g.10gb", 0), ("3g.40gb", 4)).also("unprivileged")
    out = told(
        config,
        """
        split, whole = (n.nvmlDeviceGetHandleByIndex(i) for i in (0, 1))
        mig = n.nvmlDeviceGetMigDeviceHandleByIndex(split, 0)
        number = lambda answer: answer if isinstance(answer, dict) else answer.total >> 20
        out = {
            "split": number(ask(n.nvmlDeviceGetMemoryInfo, split)),
            "split_v2": number(ask(n.nvmlDeviceGetMemoryInfo, split, n.nvmlMemory_v2)),
            "whole": number(ask(n.nvmlDeviceGetMemoryInfo, whole)),
            "mig": number(ask(n.nvmlDeviceGetMemoryInfo, mig)) > 0,
            "by_id": ask(n.nvmlDeviceGetGpuInstanceById, split, 1),
            "profile": ask(n.nvmlDeviceGetGpuInstanceProfileInfo, split, 0, 2).id,
        }
        """,
    )
    refused = {"error": 4}
    assert out == {
        "split": refused, "split_v2": refused, "whole": 81559, "mig": True, "by_id": refused,
        "profile": 19,
    }  # fmt: skip
