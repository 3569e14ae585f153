"""Who the cards are: what pynvml reads equals the catalogue's facts, on every shape."""

import pynvml
import pytest

from sim.hardware.shape import card_uuid
from sim.nvml import Config
from tests.sim.nvml.conftest import CATALOGUE

CARDS = """
out = {"driver": n.nvmlSystemGetDriverVersion(), "nvml": n.nvmlSystemGetNVMLVersion(),
       "cuda": [n.nvmlSystemGetCudaDriverVersion(), n.nvmlSystemGetCudaDriverVersion_v2()], "cards": []}
for i in range(n.nvmlDeviceGetCount()):
    h = n.nvmlDeviceGetHandleByIndex(i)
    ext = n.nvmlPciInfoExt_v1_t()
    ext.version = n.nvmlPciInfoExt_v1
    n.nvmlDeviceGetPciInfoExt(h, n.byref(ext))
    out["cards"].append({
        "index": n.nvmlDeviceGetIndex(h), "minor": n.nvmlDeviceGetMinorNumber(h), "name": n.nvmlDeviceGetName(h),
        "uuid": n.nvmlDeviceGetUUID(h), "pci": fields(n.nvmlDeviceGetPciInfo(h)), "ext": fields(ext),
        "memory": n.nvmlDeviceGetMemoryInfo(h).total >> 20,
        "memory2": fields(n.nvmlDeviceGetMemoryInfo(h, n.nvmlMemory_v2)),
        "compute": n.nvmlDeviceGetCudaComputeCapability(h), "architecture": n.nvmlDeviceGetArchitecture(h),
        "mig": ask(n.nvmlDeviceGetMigMode, h), "brand": n.nvmlDeviceGetBrand(h), "serial": n.nvmlDeviceGetSerial(h)})
"""
ARCHITECTURE = {"7.5": 6, "8.0": 7, "8.9": 8, "9.0": 9}


@pytest.mark.parametrize("name", CATALOGUE.shapes)
def test_cards_are_those_of_the_shape(told, name):
    shape = CATALOGUE.shape(name)
    if shape.software is None:
        assert told(Config.of(shape), "out = ask(n.nvmlInit)", init=False) == {"error": 9}
        return
    out = told(Config.of(shape, "gpu-7"), CARDS)
    software = shape.software
    major, minor = map(int, software.cuda.split("."))
    assert (out["driver"], out["nvml"]) == (software.driver, f"{major}.{software.driver}")
    assert out["cuda"] == [major * 1000 + minor * 10] * 2
    assert len(out["cards"]) == len(shape.cards)
    for index, (card, seen) in enumerate(zip(shape.cards, out["cards"], strict=True)):
        domain, bus, _ = card.address.split(":")
        ids = int(card.device + card.vendor, 16)
        subsystem = int(card.subsystem_device + card.subsystem_vendor, 16)
        assert (seen["index"], seen["minor"], seen["name"]) == (index, index, card.product)
        assert seen["uuid"] == card_uuid("gpu-7", card.address)
        assert seen["pci"] == {
            "busIdLegacy": card.address.upper(), "busId": f"0000{card.address}".upper(), "domain": int(domain, 16),
            "bus": int(bus, 16), "device": 0, "pciDeviceId": ids, "pciSubSystemId": subsystem,
        }  # fmt: skip
        assert (seen["ext"]["baseClass"], seen["ext"]["subClass"]) == (3, 2)
        assert (seen["ext"]["busId"], seen["ext"]["pciDeviceId"]) == (seen["pci"]["busId"], ids)
        assert seen["memory"] == seen["memory2"]["total"] >> 20 == card.memory_mib
        assert sum(seen["memory2"][key] for key in ("reserved", "free", "used")) == seen["memory2"]["total"]
        assert ".".join(map(str, seen["compute"])) == card.compute_capability
        assert seen["architecture"] == ARCHITECTURE[card.compute_capability]
        assert seen["mig"] == ([0, 0] if card.mig_profiles else {"error": pynvml.NVML_ERROR_NOT_SUPPORTED})
        assert (seen["brand"], len(seen["serial"])) == (pynvml.NVML_BRAND_NVIDIA, 13)


def test_handles_by_every_name_are_one(told, h100):
    out = told(
        h100,
        """
        h = n.nvmlDeviceGetHandleByIndex(2)
        names = [n.nvmlDeviceGetUUID(h), n.nvmlDeviceGetSerial(h)]
        same = [n.nvmlDeviceGetHandleByUUID(names[0]), n.nvmlDeviceGetHandleBySerial(names[1])]
        same += [n.nvmlDeviceGetHandleByPciBusId(text)
                 for text in ("0000:4C:00.0", "00000000:4c:00.0", "0000:4c:00", "0:4c:0.0")]
        out = [n.addressof(s.contents) == n.addressof(h.contents) for s in same]
        out += [ask(n.nvmlDeviceGetHandleByIndex, 8), ask(n.nvmlDeviceGetHandleByUUID, "GPU-nobody"),
                ask(n.nvmlDeviceGetHandleBySerial, "0"), ask(n.nvmlDeviceGetHandleByPciBusId, "0000:4c:01.0"),
                ask(n.nvmlDeviceGetHandleByPciBusId, "4c"), ask(n.nvmlDeviceGetHandleByPciBusId, "0x0:4c:0.0")]
        """,
    )
    argument, not_found = {"error": 2}, {"error": 6}
    assert out == [True] * 6 + [argument, not_found, not_found, not_found, argument, argument]


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


def test_old_functions_answer_in_their_old_forms(told, h100):
    out = told(
        h100,
        """
        h, count, old = n.nvmlDeviceGetHandleByIndex(0), n.c_uint(), n.nvmlPciInfo_v2_t()
        by_index = n.c_nvmlDevice_t()
        get = n._nvmlGetFunctionPointer
        out = [get("nvmlInit")(), get("nvmlInit_v2")(), get("nvmlDeviceGetCount")(n.byref(count)), count.value,
               get("nvmlDeviceGetHandleByIndex")(0, n.byref(by_index)),
               n.addressof(h.contents) == n.addressof(by_index.contents)]
        for name in ("nvmlDeviceGetPciInfo", "nvmlDeviceGetPciInfo_v2"):
            old = n.nvmlPciInfo_v2_t()
            out.append([get(name)(h, n.byref(old)), old.busId, old.pciDeviceId])
        """,
    )
    old = [0, "0000:19:00.0", 0x233010DE]
    assert out == [0, 0, 0, 8, 0, True, old, old]


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
               get("nvmlDeviceGetCount_v2")(None), get("nvmlEventSetFree")(wild),
               get("nvmlGpuInstanceGetInfo")(h, n.byref(n.c_nvmlGpuInstanceInfo_t()))]
        """,
    )
    assert out == [2] * 7


def test_setters_are_missing_and_not_pretended(told, h100):
    out = told(
        h100,
        """
        h = n.nvmlDeviceGetHandleByIndex(0)
        out = [ask(n.nvmlDeviceSetMigMode, h, 1), ask(n.nvmlDeviceSetPersistenceMode, h, 1),
               ask(n.nvmlDeviceGetAccountingMode, h)]
        """,
    )
    assert out == [{"error": pynvml.NVML_ERROR_FUNCTION_NOT_FOUND}] * 3
