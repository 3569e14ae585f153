"""Who the cards are: what pynvml reads equals the catalogue's facts, on every shape."""

import pynvml
import pytest

from sim.hardware.shape import card_uuid
from sim.nvml import Config
from tests.sim.nvml.conftest import CATALOGUE

CARDS = """
out = {"driver": n.nvmlSystemGetDriverVersion(), "cuda": n.nvmlSystemGetCudaDriverVersion_v2(), "cards": []}
for i in range(n.nvmlDeviceGetCount()):
    h = n.nvmlDeviceGetHandleByIndex(i)
    out["cards"].append({
        "minor": n.nvmlDeviceGetMinorNumber(h), "name": n.nvmlDeviceGetName(h),
        "uuid": n.nvmlDeviceGetUUID(h), "pci": fields(n.nvmlDeviceGetPciInfo(h)),
        "memory": n.nvmlDeviceGetMemoryInfo(h).total >> 20,
        "memory2": fields(n.nvmlDeviceGetMemoryInfo(h, n.nvmlMemory_v2)),
        "compute": n.nvmlDeviceGetCudaComputeCapability(h), "mig": ask(n.nvmlDeviceGetMigMode, h)})
"""


@pytest.mark.parametrize("name", CATALOGUE.shapes)
def test_cards_are_those_of_the_shape(told, name):
    shape = CATALOGUE.shape(name)
    if shape.software is None:
        assert told(Config.of(shape), "out = ask(n.nvmlInit)", init=False) == {"error": 9}
        return
    out = told(Config.of(shape, "gpu-7"), CARDS)
    software = shape.software
    major, minor = map(int, software.cuda.split("."))
    assert (out["driver"], out["cuda"]) == (software.driver, major * 1000 + minor * 10)
    assert len(out["cards"]) == len(shape.cards)
    for index, (card, seen) in enumerate(zip(shape.cards, out["cards"], strict=True)):
        domain, bus, _ = card.address.split(":")
        ids = int(card.device + card.vendor, 16)
        subsystem = int(card.subsystem_device + card.subsystem_vendor, 16)
        assert (seen["minor"], seen["name"]) == (index, card.product)
        assert seen["uuid"] == card_uuid("gpu-7", card.address)
        assert seen["pci"] == {
            "busIdLegacy": card.address.upper(), "busId": f"0000{card.address}".upper(), "domain": int(domain, 16),
            "bus": int(bus, 16), "device": 0, "pciDeviceId": ids, "pciSubSystemId": subsystem,
        }  # fmt: skip
        assert seen["memory"] == seen["memory2"]["total"] >> 20 == card.memory_mib
        assert sum(seen["memory2"][key] for key in ("reserved", "free", "used")) == seen["memory2"]["total"]
        assert ".".join(map(str, seen["compute"])) == card.compute_capability
        assert seen["mig"] == ([0, 0] if card.mig_profiles else {"error": pynvml.NVML_ERROR_NOT_SUPPORTED})


def test_handles_by_index_and_by_uuid_are_one(told, h100):
    out = told(
        h100,
        """
        h = n.nvmlDeviceGetHandleByIndex(2)
        same = n.nvmlDeviceGetHandleByUUID(n.nvmlDeviceGetUUID(h))
        out = [n.addressof(same.contents) == n.addressof(h.contents), ask(n.nvmlDeviceGetHandleByIndex, 8),
               ask(n.nvmlDeviceGetHandleByUUID, "GPU-nobody")]
        """,
    )
    assert out == [True, {"error": 2}, {"error": 6}]


def test_texts_that_do_not_fit_are_not_cut(told, h100):
    out = told(
        h100,
        """
        h, short = n.nvmlDeviceGetHandleByIndex(0), n.create_string_buffer(8)
        get = n._nvmlGetFunctionPointer
        out = [get("nvmlDeviceGetName")(h, short, n.c_uint(8)), get("nvmlSystemGetDriverVersion")(short, n.c_uint(8)),
               get("nvmlDeviceGetName")(h, None, n.c_uint(8)), short.value.decode()]
        """,
    )
    assert out == [7, 7, 2, ""]


def test_initialisation_is_counted(told, h100):
    out = told(
        h100,
        """
        n._LoadNvmlLibrary()
        early = [ask(n.nvmlDeviceGetCount), ask(n.nvmlSystemGetDriverVersion), ask(n.nvmlShutdown),
                 n.nvmlErrorString(15)]
        n.nvmlInit()
        n.nvmlInitWithFlags(n.NVML_INIT_FLAG_NO_GPUS)
        h = n.nvmlDeviceGetHandleByIndex(0)
        n.nvmlShutdown()
        out = [early, n.nvmlDeviceGetMinorNumber(h), n.nvmlShutdown(), ask(n.nvmlDeviceGetMinorNumber, h),
               ask(n.nvmlShutdown)]
        """,
        init=False,
    )
    uninitialized = {"error": 1}
    assert out == [
        [uninitialized, uninitialized, uninitialized, "GPU is lost"],
        0,
        None,
        uninitialized,
        uninitialized,
    ]


def test_wild_pointers_are_wrong_arguments(told, h100):
    out = told(
        h100,
        """
        get = n._nvmlGetFunctionPointer
        wild = n.create_string_buffer(64)
        value = n.c_uint()
        h = n.nvmlDeviceGetHandleByIndex(0)
        out = [get("nvmlDeviceGetMinorNumber")(wild, n.byref(value)),
               get("nvmlDeviceGetMinorNumber")(None, n.byref(value)),
               get("nvmlDeviceGetMinorNumber")(h, None), get("nvmlDeviceGetMemoryInfo")(h, None),
               get("nvmlDeviceGetCount_v2")(None)]
        """,
    )
    assert out == [2] * 5


def test_what_nobody_calls_is_missing_and_not_pretended(told, h100):
    out = told(
        h100,
        """
        h = n.nvmlDeviceGetHandleByIndex(0)
        out = [ask(n.nvmlDeviceSetMigMode, h, 1), ask(n.nvmlDeviceSetPersistenceMode, h, 1),
               ask(n.nvmlDeviceGetTopologyCommonAncestor, h, h)]
        """,
    )
    assert out == [{"error": pynvml.NVML_ERROR_FUNCTION_NOT_FOUND}] * 3
