"""Parses DCGM exporter's Prometheus text to one sample for each card. Pure.

Only the fields that health needs are looked for, each by one search for its name, and a label set that was
read once in a text is not read again: 8 cards in 47 kB cost 0.3 ms. prometheus_client's parser, which makes an
object of every line, takes 20 times as long (0.4 core for 1,000 nodes each 15 s, more than the whole budget) and
gives up a text at its first bad line.

A series has the name that it has in the exporter's list, which an administrator may replace. A field is read under all
that DCGM called it: 4.6 renamed some and takes the old names as aliases (`dcgm_fields.h`, DCGM_DEPRECATED); before were
DCGM 3, and exporter 1.x (its `etc/1.x-compatibility-metrics.csv`).

Lines that are no samples (titles, `...`, HTML) are passed over. A line counts only with its line feed, as the format
demands: a cut `79` may read `7`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from controllers.domain.pci import canonical

BLANK: Final = 0x7FFFFFF0
"""DCGM's 32-bit blank; it, the seven values above and the 64-bit and float blanks mean "not known". No field
that is read here can grow so large, so everything from it on is absent (DCGM's `dcgm_structs.h`)."""

FIELDS: Final = {
    "temperature": ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS", "dcgm_gpu_temp"),
    "xid": ("DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_XID_ERROR", "dcgm_xid_errors"),
    "ecc_volatile": ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "dcgm_ecc_dbe_volatile_total"),
    "ecc_aggregate": ("DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", "dcgm_ecc_dbe_aggregate_total"),
    "remap_failed": ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_ROW_REMAP_FAILED"),
    "remap_pending": ("DCGM_FI_DEV_ROW_REMAP_PENDING",),
    "throttle": ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"),
}
"""What is read, and the names of its series: first the one that the module's own list asks for."""

MAX_SERIES: Final = 1024
"""Label sets that are read of one text: 16 cards with 7 instances each, eight times over."""
MAX_LINE: Final = 64 * 1024
"""Bytes of a line that are kept while its end is awaited."""

_NEEDLES: Final = [(f"\n{name}{{".encode(), field) for field, names in FIELDS.items() for name in names]
# A brace or a line feed inside quotes belongs to the value; possessive, so that no text can make it slow.
_REST: Final = re.compile(
    rb'((?:[^"}\n]++|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+")*+)\}[ \t]++([^\s#]++)[ \t]*+(?:[0-9.eE+-]++[ \t]*+)?\r?(?=\n)'
)
_LABEL: Final = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"')
_CARD: Final = re.compile(r"GPU-[0-9A-Za-z-]+")


@dataclass(frozen=True, slots=True)
class CardSample:
    """What one text says of one card; None where it says nothing."""

    uuid: str | None
    address: str | None
    """PCI address as sysfs spells it."""
    device: str | None = None
    """Name of the device file, such as nvidia0."""
    temperature: int | None = None
    """Degrees Celsius."""
    xids: tuple[int, ...] | None = None
    """The driver's last error, () where there was none; several only where MIG instances differ."""
    ecc_volatile: int | None = None
    """Double-bit memory errors since the driver was loaded."""
    ecc_aggregate: int | None = None
    """The same over the card's life."""
    remap_failed: bool | None = None
    remap_pending: bool | None = None
    throttle: int | None = None
    """Bits of DCGM_CLOCKS_EVENT_REASON_*."""


Labels = tuple[str | None, str | None, str | None, str]
"""UUID, address, device and MIG instance of a series."""


class DcgmParser:
    """Parses a text piece by piece, so that a large one stalls nobody; the pieces may end anywhere."""

    def __init__(self) -> None:
        self._tail = b""
        self._labels: dict[bytes, Labels | None] = {}
        self._values: dict[Labels, dict[str, int]] = {}

    def parse(self, piece: bytes) -> None:
        """Read what is whole, and keep the begun line."""
        end = piece.rfind(b"\n") + 1
        if not end:
            # What is too long for a sample is made a comment, which its end then closes.
            self._tail = self._tail + piece if len(self._tail) + len(piece) <= MAX_LINE else b"#"
            return
        text, self._tail = b"\n" + self._tail + piece[:end], piece[end:]
        for name, field in _NEEDLES:
            at = text.find(name)
            while at >= 0:
                after = at + len(name)
                if found := _REST.match(text, after):
                    self._take(field, found[1], found[2])
                    after = found.end()
                at = text.find(name, after)

    def _take(self, field: str, labels: bytes, value: bytes) -> None:
        if labels not in self._labels and len(self._labels) < MAX_SERIES:
            self._labels[labels] = _identity(labels)
        who = self._labels.get(labels)
        if who is not None and (number := _number(value)) is not None:
            # The same series again is a second scrape in the text, and the later one counts.
            self._values.setdefault(who, {})[field] = number

    def cards(self) -> tuple[CardSample, ...]:
        """The cards that were found, in the order of the text; instances of a card are one card."""
        found: dict[str, list[tuple[Labels, dict[str, int]]]] = {}
        for who, values in self._values.items():
            found.setdefault(who[0] or who[1] or "", []).append((who, values))
        return tuple(_sample(rows) for rows in found.values())


def parse(text: bytes) -> tuple[CardSample, ...]:
    """The cards of a whole text; none where it is another exporter's or no such text at all."""
    parser = DcgmParser()
    parser.parse(text)
    return parser.cards()


def _identity(labels: bytes) -> Labels | None:
    """Which card a series is of; None where it does not say. A pod's labels come last and must not hide ours."""
    pairs = dict(reversed(_LABEL.findall(labels.decode(errors="replace"))))
    uuid = next((pairs[key] for key in ("UUID", "uuid", "gpu_uuid") if _CARD.fullmatch(pairs.get(key, ""))), None)
    address = canonical(pairs.get("pci_bus_id", ""))
    if uuid is None and address is None:
        return None
    return uuid, address, pairs.get("device"), pairs.get("GPU_I_ID", "")


def _number(value: bytes) -> int | None:
    """A value that DCGM knows; None for its blanks, negative numbers, NaN and infinities."""
    try:
        number = float(value)
    except ValueError:
        return None
    return int(number) if 0 <= number < BLANK else None


def _sample(rows: list[tuple[Labels, dict[str, int]]]) -> CardSample:
    """One card out of its series: card-level values are repeated for each MIG instance."""

    def most(field: str) -> int | None:
        return max((values[field] for _, values in rows if field in values), default=None)

    def flag(field: str) -> bool | None:
        return None if (value := most(field)) is None else value > 0

    xids = [values["xid"] for _, values in rows if "xid" in values]
    first = [next((who[part] for who, _ in rows if who[part]), None) for part in range(3)]
    return CardSample(
        uuid=first[0],
        address=first[1],
        device=first[2],
        temperature=most("temperature"),
        xids=tuple(sorted({xid for xid in xids if xid})) if xids else None,
        ecc_volatile=most("ecc_volatile"),
        ecc_aggregate=most("ecc_aggregate"),
        remap_failed=flag("remap_failed"),
        remap_pending=flag("remap_pending"),
        throttle=most("throttle"),
    )
