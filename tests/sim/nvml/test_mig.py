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

def placements(profile):
    count = n.c_uint()
    n.nvmlDeviceGetGpuInstancePossiblePlacements(h, profile, None, n.byref(count))
    room = (n.c_nvmlGpuInstancePlacement_t * count.value)()
    n.nvmlDeviceGetGpuInstancePossiblePlacements(h, profile, room, n.byref(count))
    return [[p.start, p.size] for p in room]

out = {}
for index in range(n.NVML_GPU_INSTANCE_PROFILE_COUNT):
    new, old = (ask(n.nvmlDeviceGetGpuInstanceProfileInfo, h, index, version) for version in (2, 1))
    if not isinstance(new, dict):
        same = all(getattr(new, name) == getattr(old, name) for name, *_ in old._fields_)
        by_id = n.nvmlDeviceGetGpuInstanceProfileInfoByIdV(h, new.id)
        out[new.name] = [index, new.id, new.memorySizeMB, new.sliceCount, new.instanceCount, same,
                         by_id.name == new.name, ask(placements, new.id),
                         ask(n.nvmlDeviceGetGpuInstanceRemainingCapacity, h, new.id)]
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
        for title, (index, number, memory, slices, instances, same, by_id, places, left) in out.items():
            profile = known[title]
            assert (index, number, slices, same, by_id) == (profile.index, profile.id, profile.slices, True, True)
            assert (memory, instances) == (profile.has["memory_mib"], profile.instances)
            # What is offered is told without MIG mode; what is free, only in it.
            assert places == ([[s, profile.size] for s in profile.starts] if enabled else NOT_SUPPORTED)
            assert left == (profile.instances if enabled else NOT_SUPPORTED)


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


def test_the_third_form_of_an_offer(told, h100):
    out = told(
        h100,
        """
        info = n.c_nvmlGpuInstanceProfileInfo_v2_t()
        h, get = n.nvmlDeviceGetHandleByIndex(0), n._nvmlGetFunctionPointer("nvmlDeviceGetGpuInstanceProfileInfoV")
        out = []
        for info.version in (0x03000098, 0x04000098, 0):
            out.append(get(h, 2, n.byref(info)))
        info.version = 0x03000098
        get(h, 2, n.byref(info))
        # Without isP2pSupported all fields are one place further to the front.
        out += [info.id, info.isP2pSupported, info.sliceCount, bytes(info)[48:59].decode()]
        """,
    )
    assert out == [0, 25, 25, 9, 3, 2, "MIG 3g.40gb"]


def test_a_card_without_mig(told):
    out = told(
        Config.of(CATALOGUE.shape("t4-4")),
        """
        h = n.nvmlDeviceGetHandleByIndex(0)
        out = [ask(n.nvmlDeviceGetMigMode, h), ask(n.nvmlDeviceGetGpuInstanceProfileInfo, h, 0),
               ask(n.nvmlDeviceGetGpuInstanceProfileInfo, h, 99), n.nvmlDeviceGetMaxMigDeviceCount(h),
               ask(n.nvmlDeviceGetMigDeviceHandleByIndex, h, 0), n.nvmlDeviceIsMigDeviceHandle(h).value,
               ask(n.nvmlDeviceGetGpuInstanceId, h), ask(n.nvmlDeviceGetAttributes, h)]
        """,
    )
    assert out == [NOT_SUPPORTED, NOT_SUPPORTED, ARGUMENT, 0, NOT_SUPPORTED, 0, NOT_SUPPORTED, NOT_SUPPORTED]


HELD = (("1g.10gb", 0), ("2g.20gb", 2), ("3g.40gb", 4))
DEVICES = """
h = n.nvmlDeviceGetHandleByIndex(0)
out = {"mode": n.nvmlDeviceGetMigMode(h), "most": n.nvmlDeviceGetMaxMigDeviceCount(h), "devices": []}
for i in range(out["most"]):
    m = ask(n.nvmlDeviceGetMigDeviceHandleByIndex, h, i)
    if isinstance(m, dict):
        out["devices"].append(m["error"])
        continue
    parent = n.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(m)
    uuid = n.nvmlDeviceGetUUID(m)
    again = n.nvmlDeviceGetHandleByUUID(uuid)
    out["devices"].append([
        n.nvmlDeviceGetName(m), uuid[:4], n.nvmlDeviceGetGpuInstanceId(m), n.nvmlDeviceGetComputeInstanceId(m),
        n.nvmlDeviceIsMigDeviceHandle(m).value, n.nvmlDeviceGetIndex(parent), n.addressof(again.contents) ==
        n.addressof(m.contents), n.nvmlDeviceGetMemoryInfo(m).total >> 20, fields(n.nvmlDeviceGetAttributes(m)),
        n.nvmlDeviceGetCudaComputeCapability(m), [ask(f, m) for f in (n.nvmlDeviceGetMinorNumber,
        n.nvmlDeviceGetUtilizationRates, n.nvmlDeviceGetMigMode, n.nvmlDeviceGetPciInfo)]])
out["parent"] = [ask(n.nvmlDeviceGetUtilizationRates, h), ask(n.nvmlDeviceGetNvLinkState, h, 0),
                 ask(n.nvmlDeviceGetDeviceHandleFromMigDeviceHandle, h),
                 n.nvmlDeviceGetP2PStatus(h, n.nvmlDeviceGetHandleByIndex(1), n.NVML_P2P_CAPS_INDEX_NVLINK)]
"""


def test_devices_of_a_partitioned_card(told, h100):
    out = told(h100.partitioned(FIRST, *HELD), DEVICES)
    assert (out["mode"], out["most"]) == ([1, 1], 7)
    assert out["devices"][3:] == [pynvml.NVML_ERROR_NOT_FOUND] * 4
    facts = {"1g.10gb": (9984, 16, 1), "2g.20gb": (20096, 32, 2), "3g.40gb": (40448, 60, 3)}
    for number, ((name, _), device) in enumerate(zip(HELD, out["devices"], strict=False), start=1):
        memory, sm, slices = facts[name]
        assert device[:8] == [f"NVIDIA H100 80GB HBM3 MIG {name}", "MIG-", number, 0, 1, 0, True, memory]
        attributes = device[8]
        assert (attributes["multiprocessorCount"], attributes["memorySizeMB"]) == (sm, memory)
        assert (attributes["gpuInstanceSliceCount"], attributes["computeInstanceSliceCount"]) == (slices, slices)
        assert device[9] == [9, 0]
        assert device[10] == [NOT_SUPPORTED] * 4
    assert out["parent"] == [NOT_SUPPORTED, NOT_SUPPORTED, ARGUMENT, 5]


INSTANCES = """
h = n.nvmlDeviceGetHandleByIndex(0)

def held(profile):
    count, room = n.c_uint(), (n.c_nvmlGpuInstance_t * 7)()
    n.nvmlDeviceGetGpuInstances(h, profile, room, n.byref(count))
    return room[:count.value]

out = []
for profile in (19, 14, 9, 5):
    for instance in held(profile):
        info = n.nvmlGpuInstanceGetInfo(instance)
        count, room = n.c_uint(), (n.c_nvmlComputeInstance_t * 7)()
        offers = [o if isinstance(o := ask(n.nvmlGpuInstanceGetComputeInstanceProfileInfo, instance, i, 0), dict)
                  else [o.name, o.sliceCount, o.instanceCount, o.multiprocessorCount] for i in range(3)]
        old = n.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, 0, 0, 1)
        inside = []
        for i in range(9):
            n.nvmlGpuInstanceGetComputeInstances(instance, i, room, n.byref(count))
            for compute in room[:count.value]:
                c = n.nvmlComputeInstanceGetInfo(compute)
                inside.append([c.id, c.profileId, c.placement.start, c.placement.size,
                    n.nvmlDeviceGetIndex(c.device), n.nvmlGpuInstanceGetInfo(c.gpuInstance).id])
        by_id = n.nvmlDeviceGetGpuInstanceById(h, info.id)
        out.append([info.id, info.profileId, info.placement.start, info.placement.size, offers, inside,
            n.nvmlGpuInstanceGetInfo(by_id).id, old.sliceCount,
            n.nvmlComputeInstanceGetInfo(n.nvmlGpuInstanceGetComputeInstanceById(instance, inside[0][0])).id,
            ask(n.nvmlGpuInstanceGetComputeInstanceById, instance, 6)])
out.append([ask(held, 77), ask(n.nvmlDeviceGetGpuInstanceById, h, 99),
            ask(n.nvmlDeviceGetGpuInstanceById, n.nvmlDeviceGetHandleByIndex(1), 1)])
"""


def test_instances_of_a_partitioned_card(told, h100):
    *held, wrong = told(h100.partitioned(FIRST, *HELD), INSTANCES)
    one = ["MIG 1g.10gb", 1, 1, 16]
    assert held[0] == [1, 19, 0, 1, [one, NOT_SUPPORTED, NOT_SUPPORTED], [[0, 0, 0, 1, 0, 1]], 1, 1, 0, NOT_FOUND]
    two = [["MIG 1c.2g.20gb", 1, 2, 16], ["MIG 2g.20gb", 2, 1, 32], NOT_SUPPORTED]
    assert held[1] == [2, 14, 2, 2, two, [[0, 1, 0, 2, 0, 2]], 2, 1, 0, NOT_FOUND]
    three = [["MIG 1c.3g.40gb", 1, 3, 20], ["MIG 2c.3g.40gb", 2, 1, 40], ["MIG 3g.40gb", 3, 1, 60]]
    assert held[2] == [3, 9, 4, 4, three, [[0, 2, 0, 3, 0, 3]], 3, 1, 0, NOT_FOUND]
    assert wrong == [ARGUMENT, NOT_FOUND, NOT_SUPPORTED]


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
        out = [[n.nvmlDeviceGetName(m := n.nvmlDeviceGetMigDeviceHandleByIndex(h, i)),
                n.nvmlDeviceGetAttributes(m).multiprocessorCount] for i in (0, 1)]
        """,
    )
    assert out == [["NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb", 20], ["NVIDIA H100 80GB HBM3 MIG 2c.3g.40gb", 40]]


def test_what_is_left_beside_instances(told, h100):
    held = {name: left for name, (*_, left) in told(h100.partitioned(FIRST, *HELD), OFFER).items()}
    assert held == {
        "MIG 1g.10gb": 1, "MIG 1g.10gb+me": 1, "MIG 1g.20gb": 0, "MIG 2g.20gb": 0, "MIG 3g.40gb": 0, "MIG 4g.40gb": 0,
        "MIG 7g.80gb": 0,
    }  # fmt: skip


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
        room = (n.c_nvmlGpuInstance_t * 7)()
        number = lambda answer: answer if isinstance(answer, dict) else answer.total >> 20
        out = {
            "split": number(ask(n.nvmlDeviceGetMemoryInfo, split)),
            "split_v2": number(ask(n.nvmlDeviceGetMemoryInfo, split, n.nvmlMemory_v2)),
            "whole": number(ask(n.nvmlDeviceGetMemoryInfo, whole)),
            "mig": number(ask(n.nvmlDeviceGetMemoryInfo, mig)) > 0,
            "list": ask(n.nvmlDeviceGetGpuInstances, split, 19, room, n.byref(n.c_uint(7))),
            "by_id": ask(n.nvmlDeviceGetGpuInstanceById, split, 1),
            "profile": ask(n.nvmlDeviceGetGpuInstanceProfileInfo, split, 0, 2).id,
        }
        """,
    )
    refused = {"error": 4}
    assert out == {
        "split": refused, "split_v2": refused, "whole": 81559, "mig": True,
        "list": refused, "by_id": refused, "profile": 19,
    }  # fmt: skip
