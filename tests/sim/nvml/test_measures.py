"""What is measured, repaired and linked, against the facts of real cards in products.toml."""

import pytest

from sim.nvml import Config
from tests.sim.nvml.conftest import CATALOGUE

HEALTH = """
h = n.nvmlDeviceGetHandleByIndex(0)
out = {
    "temperature": [n.nvmlDeviceGetTemperature(h, n.NVML_TEMPERATURE_GPU), n.nvmlDeviceGetTemperatureV(h, 0)],
    "thresholds": [ask(n.nvmlDeviceGetTemperatureThreshold, h, i) for i in (0, 1, 2)],
    "power": [ask(f, h) for f in (n.nvmlDeviceGetPowerUsage, n.nvmlDeviceGetPowerManagementLimit,
        n.nvmlDeviceGetPowerManagementDefaultLimit, n.nvmlDeviceGetEnforcedPowerLimit,
        n.nvmlDeviceGetPowerManagementMode)],
    "utilization": fields(n.nvmlDeviceGetUtilizationRates(h)),
    "clocks": [n.nvmlDeviceGetClockInfo(h, n.NVML_CLOCK_SM), n.nvmlDeviceGetMaxClockInfo(h, n.NVML_CLOCK_SM),
        n.nvmlDeviceGetClockInfo(h, n.NVML_CLOCK_MEM), ask(n.nvmlDeviceGetClockInfo, h, n.NVML_CLOCK_VIDEO)],
    "reasons": [n.nvmlDeviceGetCurrentClocksThrottleReasons(h), n.nvmlDeviceGetCurrentClocksEventReasons(h),
        n.nvmlDeviceGetSupportedClocksThrottleReasons(h), n.nvmlDeviceGetSupportedClocksEventReasons(h)],
    "ecc": [n.nvmlDeviceGetEccMode(h), n.nvmlDeviceGetTotalEccErrors(h, 0, 0), n.nvmlDeviceGetTotalEccErrors(h, 1, 1),
        n.nvmlDeviceGetMemoryErrorCounter(h, 1, 0, n.NVML_MEMORY_LOCATION_DRAM),
        n.nvmlDeviceGetMemoryErrorCounter(h, 1, 0, n.NVML_MEMORY_LOCATION_SRAM),
        fields(n.nvmlDeviceGetDetailedEccErrors(h, 1, 0))],
    "rows": [ask(n.nvmlDeviceGetRemappedRows, h), ask(lambda: fields(n.nvmlDeviceGetRowRemapperHistogram(h)))],
    "pages": [ask(n.nvmlDeviceGetRetiredPages, h, 0), ask(n.nvmlDeviceGetRetiredPages, h, 1),
        ask(n.nvmlDeviceGetRetiredPages_v2, h, 1), ask(n.nvmlDeviceGetRetiredPagesPendingStatus, h)],
    "modes": [n.nvmlDeviceGetPersistenceMode(h), n.nvmlDeviceGetComputeMode(h), n.nvmlDeviceGetDisplayMode(h),
        n.nvmlDeviceGetDisplayActive(h), n.nvmlDeviceGetPerformanceState(h), n.nvmlDeviceGetPowerState(h),
        n.nvmlDeviceGetVirtualizationMode(h)],
    "processes": [f(h) for f in (n.nvmlDeviceGetComputeRunningProcesses, n.nvmlDeviceGetGraphicsRunningProcesses,
        n.nvmlDeviceGetMPSComputeRunningProcesses)] + [ask(n.nvmlSystemGetProcessName, 1)],
    "bar1": n.nvmlDeviceGetBAR1MemoryInfo(h).bar1Total >> 20,
    "board": [ask(n.nvmlDeviceGetBoardPartNumber, h), ask(n.nvmlDeviceGetVbiosVersion, h), n.nvmlDeviceGetBoardId(h),
        n.nvmlDeviceGetMultiGpuBoard(h), ask(n.nvmlDeviceGetModuleId, h), ask(n.nvmlDeviceGetFanSpeed, h),
        n.nvmlDeviceGetGspFirmwareVersion(h), ask(n.nvmlDeviceGetNumaNodeId, h)],
    "fields": [[v.nvmlReturn, v.value.uiVal] for v in n.nvmlDeviceGetFieldValues(
        h, [n.NVML_FI_DEV_ECC_CURRENT, n.NVML_FI_DEV_NVLINK_LINK_COUNT, n.NVML_FI_DEV_REMAPPED_FAILURE,
            n.NVML_FI_DEV_REMAPPED_COR, n.NVML_FI_DEV_REMAPPED_UNC, n.NVML_FI_DEV_REMAPPED_PENDING,
            n.NVML_FI_DEV_ECC_DBE_VOL_TOTAL, n.NVML_FI_DEV_ECC_SBE_VOL_TOTAL, n.NVML_FI_DEV_POWER_INSTANT, 9999])],
}
"""
NOT_SUPPORTED = {"error": 3}


def test_a_sound_h100(told, h100):
    out = told(h100, HEALTH)
    assert out == {
        "temperature": [29, 29],
        "thresholds": [92, 89, NOT_SUPPORTED],
        "power": [68570, 700000, 700000, 700000, 1],
        "utilization": {"gpu": 0, "memory": 0},
        "clocks": [345, 1980, 2619, NOT_SUPPORTED],
        "reasons": [1, 1, 0x1FF, 0x1FF],
        "ecc": [[1, 1], 0, 0, 0, 0, {"l1Cache": 0, "l2Cache": 0, "deviceMemory": 0, "registerFile": 0}],
        "rows": [[0, 0, 0, 0], {"max": 2560, "high": 0, "partial": 0, "low": 0, "none": 0}],
        "pages": [NOT_SUPPORTED] * 4,
        "modes": [1, 0, 0, 0, 0, 0, 0],
        "processes": [[], [], [], {"error": 6}],
        "bar1": 131072,
        "board": [
            "692-2G520-0200-000",
            "96.00.99.00.01",
            0x1900,
            0,
            NOT_SUPPORTED,
            NOT_SUPPORTED,
            "580.105.08",
            NOT_SUPPORTED,
        ],
        "fields": [[0, 1], [0, 18], [0, 0], [0, 0], [0, 0], [0, 0], [0, 0], [0, 0], [0, 68570], [3, 0]],
    }


def test_a_sick_t4(told):
    t4 = Config.of(CATALOGUE.shape("t4-4"))
    sick = ("temperature 97", "throttle 40", "utilization_gpu 100", "ecc_correctable 3", "ecc_uncorrectable 2",
            "retired_pages 2", "retired_pending enabled", "used_mib 1000", "fan 55", "display enabled")  # fmt: skip
    out = told(t4.card("0000:3b:00.0", *sick), HEALTH)
    assert out["temperature"] == [97, 97]
    assert out["reasons"][:2] == [0x40, 0x40]
    assert out["utilization"] == {"gpu": 100, "memory": 0}
    assert out["ecc"] == [[1, 1], 3, 2, 2, 0, {"l1Cache": 0, "l2Cache": 0, "deviceMemory": 2, "registerFile": 0}]
    assert out["rows"] == [NOT_SUPPORTED, NOT_SUPPORTED]
    assert [len(pages) for pages in out["pages"][:3]] == [0, 2, 2]
    assert out["pages"][3] == 1
    assert out["modes"][2:4] == [1, 1]
    assert out["board"][5] == 55


def test_rows_that_were_remapped(told, h100):
    rows = ("remapped_correctable 1", "remapped_uncorrectable 2", "remap_pending enabled", "remap_failure enabled")
    out = told(h100.card("0000:19:00.0", *rows), "out = everywhere(n.nvmlDeviceGetRemappedRows)[:2]")
    assert out == [[1, 2, 1, 1], [0, 0, 0, 0]]


LINKS = """
h = n.nvmlDeviceGetHandleByIndex(0)
out = [[ask(n.nvmlDeviceGetNvLinkState, h, i), ask(n.nvmlDeviceGetNvLinkRemoteDeviceType, h, i),
        ask(lambda: n.nvmlDeviceGetNvLinkRemotePciInfo(h, i).busId), ask(n.nvmlDeviceGetNvLinkVersion, h, i),
        ask(n.nvmlDeviceGetNvLinkCapability, h, i, n.NVML_NVLINK_CAP_VALID)] for i in range(37)]
out.append(everywhere(n.nvmlDeviceGetP2PStatus, n.nvmlDeviceGetHandleByIndex(7), n.NVML_P2P_CAPS_INDEX_NVLINK))
"""


def test_links_lead_to_the_switches(told, h100, shape):
    *links, reached = told(h100, LINKS)
    switches = [f"0000{d.address}".upper() for d in shape.devices if d.class_ == "0680"]
    assert links[:18] == [[1, 2, switches[i % 4], 6, 1] for i in range(18)]
    assert links[18:36] == [[NOT_SUPPORTED] * 5] * 18
    assert links[36] == [{"error": 2}] * 5
    assert reached == [0] * 8


def test_cards_without_links_and_a_link_that_is_down(told, h100):
    *links, reached = told(Config.of(CATALOGUE.shape("l40s-4")), LINKS.replace("(7)", "(3)"))
    assert links[:36] == [[NOT_SUPPORTED] * 5] * 36
    assert reached[:3] == [5] * 3
    pair = "\n".join(
        f"[card]\naddress {here}\nuuid {here}\nnvlink link=0 state={state} type=gpu address={there}"
        for here, there, state in (("0:1:0.0", "0:2:0.0", "up"), ("0:2:0.0", "0:1:0.0", "down"))
    )
    code = "out = [everywhere(n.nvmlDeviceGetNvLinkState, 0), everywhere(n.nvmlDeviceGetNvLinkRemotePciInfo, 0)[1]]"
    assert told(pair, code) == [[1, 0], NOT_SUPPORTED]


FABRIC = """
h, out = n.nvmlDeviceGetHandleByIndex(0), []
for made, call in ((n.c_nvmlGpuFabricInfo_t(), n.nvmlDeviceGetGpuFabricInfo),
                   (n.c_nvmlGpuFabricInfo_v2_t(), n.nvmlDeviceGetGpuFabricInfoV),
                   (n.c_nvmlGpuFabricInfo_v3_t(), n.nvmlDeviceGetGpuFabricInfoV)):
    out.append([ask(call, h, n.byref(made)), made.state, made.status, made.cliqueId])
"""


def test_the_fabric_of_cards_behind_switches(told, h100):
    assert told(h100, FABRIC) == [[0, 3, 0, 0]] * 3
    assert told(h100.card("0000:19:00.0", "fabric 2"), FABRIC) == [[0, 2, 0, 0]] * 3
    assert told(h100.card("0000:19:00.0", "fabric_status 999"), FABRIC) == [[0, 3, 999, 0]] * 3
    assert told(Config.of(CATALOGUE.shape("a100-sxm-8")), FABRIC) == [[NOT_SUPPORTED, 0, 0, 0]] * 3


def test_distances_follow_numa_nodes_and_host_bridges(told, h100):
    together = h100.card("0000:19:00.0", "root pci0000:18").card("0000:3b:00.0", "root pci0000:18")
    out = told(
        together,
        """
        h = n.nvmlDeviceGetHandleByIndex(0)
        level = lambda a, b: n.nvmlDeviceGetTopologyCommonAncestor(a, b)
        out = [everywhere(level, h), [len(n.nvmlDeviceGetTopologyNearestGpus(h, i)) for i in (0, 10, 30, 40, 50)],
               n.nvmlDeviceOnSameBoard(h, h), n.nvmlDeviceOnSameBoard(h, n.nvmlDeviceGetHandleByIndex(1))]
        """,
    )
    assert out == [[0, 30, 40, 40, 50, 50, 50, 50], [0, 0, 1, 2, 4], True, False]


@pytest.mark.parametrize("name", [name for name, shape in CATALOGUE.shapes.items() if shape.cards])
def test_every_shape_answers_all_of_it(told, name):
    assert set(told(Config.of(CATALOGUE.shape(name)), HEALTH)) >= {"ecc", "fields"}
