"""What is measured, repaired and linked, against the facts of real cards in products.toml."""

import pytest

from sim.nvml import Config
from tests.sim.nvml.conftest import CATALOGUE

HEALTH = """
h = n.nvmlDeviceGetHandleByIndex(0)
out = {
    "temperature": n.nvmlDeviceGetTemperature(h, n.NVML_TEMPERATURE_GPU), "power": ask(n.nvmlDeviceGetPowerUsage, h),
    "reasons": n.nvmlDeviceGetCurrentClocksEventReasons(h), "persistence": n.nvmlDeviceGetPersistenceMode(h),
    "ecc": [ask(n.nvmlDeviceGetTotalEccErrors, h, 0, 0), ask(n.nvmlDeviceGetTotalEccErrors, h, 1, 1)],
    "rows": ask(n.nvmlDeviceGetRemappedRows, h),
}
"""
NOT_SUPPORTED = {"error": 3}


def test_a_sound_h100(told, h100):
    assert told(h100, HEALTH) == {
        "temperature": 29, "power": 68570, "reasons": 1, "persistence": 1, "ecc": [0, 0], "rows": [0, 0, 0, 0]
    }  # fmt: skip


def test_a_sick_t4(told):
    t4 = Config.of(CATALOGUE.shape("t4-4"))
    sick = ("temperature 97", "throttle 40", "ecc_correctable 3", "ecc_uncorrectable 2", "persistence disabled")
    out = told(t4.card("0000:3b:00.0", *sick), HEALTH)
    assert (out["temperature"], out["reasons"], out["persistence"]) == (97, 0x40, 0)
    assert out["ecc"] == [3, 2]
    assert out["rows"] == NOT_SUPPORTED


def test_rows_that_were_remapped(told, h100):
    rows = ("remapped_correctable 1", "remapped_uncorrectable 2", "remap_pending enabled", "remap_failure enabled")
    out = told(h100.card("0000:19:00.0", *rows), "out = everywhere(n.nvmlDeviceGetRemappedRows)[:2]")
    assert out == [[1, 2, 1, 1], [0, 0, 0, 0]]


LINKS = """
h = n.nvmlDeviceGetHandleByIndex(0)
out = [[ask(n.nvmlDeviceGetNvLinkState, h, i), ask(n.nvmlDeviceGetNvLinkRemoteDeviceType, h, i),
        ask(lambda: n.nvmlDeviceGetNvLinkRemotePciInfo(h, i).busId)] for i in range(37)]
"""


def test_links_lead_to_the_switches(told, h100, shape):
    links = told(h100, LINKS)
    switches = [f"0000{d.address}".upper() for d in shape.devices if d.class_ == "0680"]
    assert links[:18] == [[1, 2, switches[i % 4]] for i in range(18)]
    assert links[18:36] == [[NOT_SUPPORTED] * 3] * 18
    assert links[36] == [{"error": 2}] * 3


def test_cards_without_links_and_a_link_that_is_down(told):
    assert told(Config.of(CATALOGUE.shape("l40s-4")), LINKS)[:36] == [[NOT_SUPPORTED] * 3] * 36
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


@pytest.mark.parametrize("name", [name for name, shape in CATALOGUE.shapes.items() if shape.cards])
def test_every_shape_answers_all_of_it(told, name):
    assert set(told(Config.of(CATALOGUE.shape(name)), HEALTH)) >= {"ecc", "rows"}
