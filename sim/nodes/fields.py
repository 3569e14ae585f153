"""What DCGM's fields show of a simulated card, in health and with faults. Pure.

What wavers does so by a counter of scrapes, each card in its own place of the wave: a temperature by two
degrees, between 34 and 43. Only a fault takes a value across a threshold of health.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sim.hardware import Card
    from sim.nodes.faults import Signs

HW_SLOWDOWN, HW_THERMAL, GPU_IDLE = 0x08, 0x40, 0x01
"""Bits of DCGM_CLOCKS_EVENT_REASON_* (dcgm_fields.h)."""
WAVE: Final = 8
"""Steps from the bottom of the wave to its top; as many lead down again."""
VOLTA: Final = (7, 0)
"""Compute capability from which DCGM has profiling fields."""

Number = Callable[[int, int], float]
"""What a field shows of card `index` at scrape `count`."""


@dataclass(frozen=True, slots=True)
class Shown:
    """One card of a text."""

    index: int
    card: Card
    labels: str
    signs: Signs


@dataclass(frozen=True, slots=True)
class Field:
    """How one field is filled; `value` gives a word that stands, or what makes a number at each scrape."""

    value: Callable[[Shown], str | tuple[str, Number]]
    has: Callable[[Shown], bool] = lambda _: True
    """Whether a card has the field."""


def _wave(index: int, count: int) -> int:
    """0 … WAVE … 0 and again; neighbours are not in step."""
    place = (count + 3 * index) % (2 * WAVE)
    return min(place, 2 * WAVE - place)


def _wavers(low: float, high: float, form: str = "%d") -> Callable[[Shown], tuple[str, Number]]:
    def number(index: int, count: int) -> float:
        return low + (high - low) * _wave(index, count) / WAVE

    return lambda _: (form, number)


def _grows(step: int) -> Callable[[Shown], tuple[str, Number]]:
    """A counter that rises at every scrape."""

    def number(index: int, count: int) -> float:
        return step * (1000 + 10 * index + count)

    return lambda _: ("%d", number)


def _stands(value: Callable[[Shown], int | str]) -> Callable[[Shown], str]:
    return lambda shown: str(value(shown))


def _temperature(shown: Shown) -> str | tuple[str, Number]:
    if shown.signs.celsius is not None:
        return str(shown.signs.celsius)
    return "%d", lambda index, count: 34 + index % 8 + _wave(index, count) // 4


def _memory(shown: Shown) -> int:
    return shown.card.memory_mib or 0


def _reserved(shown: Shown) -> int:
    return _memory(shown) // 128


ZERO: Final = Field(_stands(lambda _: 0))


def _profiled(shown: Shown) -> bool:
    major, _, minor = shown.card.compute_capability.partition(".")
    return major.isdigit() and (int(major), int(minor or 0)) >= VOLTA


def _linked(shown: Shown) -> bool:
    return bool(shown.card.nvlink_peers)


VALUES: Final = {
    "DEV_SM_CLOCK": Field(_wavers(345, 353)),
    "DEV_MEM_CLOCK": Field(_stands(lambda _: 2619)),
    "DEV_CLOCKS_EVENT_REASONS": Field(_stands(lambda s: HW_SLOWDOWN | HW_THERMAL if s.signs.slow else GPU_IDLE)),
    "DEV_GPU_TEMP": Field(_temperature),
    "DEV_MEMORY_TEMP": Field(_wavers(40, 42)),
    "DEV_POWER_USAGE": Field(_wavers(68.214, 71.906, "%.6f")),
    "DEV_POWER_MGMT_LIMIT": Field(_stands(lambda _: "700.000000")),
    "DEV_TOTAL_ENERGY_CONSUMPTION": Field(_grows(1_048_570)),
    "DEV_GPU_UTIL": ZERO,
    "DEV_MEM_COPY_UTIL": ZERO,
    "DEV_ENC_UTIL": ZERO,
    "DEV_DEC_UTIL": ZERO,
    "DEV_FB_USED": ZERO,
    "DEV_FB_FREE": Field(_stands(lambda s: _memory(s) - _reserved(s))),
    "DEV_FB_RESERVED": Field(_stands(_reserved)),
    "DEV_XID_ERRORS": Field(_stands(lambda s: s.signs.xid)),
    "DEV_ECC_SBE_VOL_TOTAL": ZERO,
    "DEV_ECC_DBE_VOL_TOTAL": Field(_stands(lambda s: s.signs.ecc)),
    "DEV_ECC_SBE_AGG_TOTAL": ZERO,
    "DEV_ECC_DBE_AGG_TOTAL": Field(_stands(lambda s: s.signs.ecc)),
    "DEV_ROW_REMAP_FAILURE": Field(_stands(lambda s: int(s.signs.remap))),
    "DEV_ROW_REMAP_PENDING": ZERO,
    "DEV_UNCORRECTABLE_REMAPPED_ROWS": ZERO,
    "DEV_CORRECTABLE_REMAPPED_ROWS": ZERO,
    "DEV_RETIRED_SBE": ZERO,
    "DEV_RETIRED_DBE": ZERO,
    "DEV_RETIRED_PENDING": ZERO,
    "DEV_PCIE_REPLAY_COUNTER": ZERO,
    "DEV_PCIE_LINK_GEN": Field(_stands(lambda _: 4)),
    "DEV_PCIE_LINK_WIDTH": Field(_stands(lambda _: 16)),
    "DEV_NVLINK_BANDWIDTH_TOTAL": Field(_grows(4_194_304), _linked),
    "DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL": Field(_stands(lambda _: 0), _linked),
    "DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL": Field(_stands(lambda _: 0), _linked),
    "DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL": Field(_stands(lambda _: 0), _linked),
    "DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL": Field(_stands(lambda _: 0), _linked),
    "DEV_VGPU_LICENSE_STATUS": ZERO,
    "PROF_GR_ENGINE_ACTIVE": Field(_stands(lambda _: "0.000000"), _profiled),
    "PROF_PIPE_TENSOR_ACTIVE": Field(_stands(lambda _: "0.000000"), _profiled),
    "PROF_DRAM_ACTIVE": Field(_wavers(0.000012, 0.000031, "%.6f"), _profiled),
    "PROF_PCIE_TX_BYTES": Field(_wavers(1_204_000, 1_377_000), _profiled),
    "PROF_PCIE_RX_BYTES": Field(_wavers(705_000, 811_000), _profiled),
}
"""What is told of each field, by its name without `DCGM_FI_`. A field that is not here is left out, as the exporter
leaves out what a card does not have."""
