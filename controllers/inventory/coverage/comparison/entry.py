"""What to paste into the card catalogue for a model that it does not know. Pure.

The entry is read by the catalogue as it stands; what nobody reported is marked to be filled in.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from controllers.domain.catalogue import VENDORS

if TYPE_CHECKING:
    from collections.abc import Sequence

FOLDER = "controllers/domain/catalogue/"
MIB = 1024
# A key of the file's [sources] that fits a person who has the card: nvidia-smi, or the public list of ids.
SOURCES = {"10de": "smi"}
OTHER_SOURCE = "ids"


def file(vendor: str) -> str:
    """The file in which a vendor's models are; that of the vendors for one that is not known."""
    return f"{FOLDER}{VENDORS[vendor].name}.toml" if vendor in VENDORS else f"{FOLDER}vendors.toml"


def of_model(
    vendor: str,
    device: str,
    *,
    product: str | None,
    memory_mib: int | None,
    compute: str | None,
    profiles: Sequence[str],
) -> str:
    """A family of one card, for the vendor's file; a person moves the card to its chip's family if there is one."""
    card = [f"id = {_text(device)}", f"product = {_text(product or 'FILL IN')}"]
    card += [f"gib = {-(-memory_mib // MIB)}"] if memory_mib else []
    lines = ["[[families]]", 'chip = "FILL IN" # or move the card to the family of its chip']
    lines += [f"compute = {_text(compute)}"] if compute and re.fullmatch(r"\d+\.\d+", compute) else []
    lines += [f"source = [{_text(SOURCES.get(vendor, OTHER_SOURCE))}]", "cards = [", f"  {{ {', '.join(card)} }},", "]"]
    if product is None:
        lines.append("# product: as the driver spells it; no driver has named this card yet.")
    if memory_mib:
        lines.append(f"# gib: to be checked: the nominal size; the driver counts {memory_mib} MiB.")
    else:
        lines.append("# gib: the nominal memory, which no driver has told yet.")
    if vendor == "10de" and compute is None:
        lines.append('# compute = "major.minor": the compute capability, which no driver has told yet.')
    return "\n".join([*lines, *_mig(profiles)])


def _mig(profiles: Sequence[str]) -> list[str]:
    """What is to be done by hand so that the card can be divided."""
    if not profiles:
        return []
    lines, line = [], "# MIG: the driver offers"
    for number, profile in enumerate(profiles):
        word = f" {profile}{',' if number + 1 < len(profiles) else '.'}"
        if len(line) + len(word) > 80:  # noqa: PLR2004 - the width of a terminal
            lines.append(line)
            line = "#  "
        line += word
    return [
        *lines,
        line,
        "#   To be filled in before the card is divided: a section in mig.toml with",
        "#   the placements (nvidia-smi mig -lgip and -lgipp), the name of that section",
        "#   as the card's geometry, and mig_needs_reset on the family.",
    ]


def of_vendor(vendor: str, class_: str, module: str) -> str:
    """A vendor, for the file of vendors."""
    return "\n".join(
        [
            f"[vendor-{vendor}] # FILL IN the maker's name; its cards go into <name>.toml",
            f"id = {_text(vendor)}",
            f"classes = [{_text(class_)}] # PCI classes of its cards",
            f"modules = [{_text(module or 'FILL IN')}] # the driver's, the indispensable one first",
            "integrated = [] # device ids of displays that are part of a processor",
        ]
    )


def _text(text: str) -> str:
    """A TOML string."""
    # JSON's escapes are TOML's, but for what is beyond 16 bits; and TOML wants DEL escaped, which JSON does not.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
