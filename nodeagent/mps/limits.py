"""What a client of MPS may have of a card, as its control daemon is told. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.api.gpupool import EQUAL

if TYPE_CHECKING:
    from nodeagent.host.mpsfiles import WantedDaemon

MIB = {"Mi": 1, "Gi": 1024}
ANSWERED_MIB = {"M": 1, "G": 1024}
THREADS = "get_default_active_thread_percentage"
"""The question that every daemon answers."""
MEMORY = "get_default_device_pinned_mem_limit 0"


@dataclass(frozen=True, slots=True)
class Limits:
    """Defaults of a control daemon: a client can ask for less, and not for more."""

    threads: int
    """Percent of the card's threads."""
    memory_mib: int
    """MiB of the card's memory."""

    @property
    def commands(self) -> tuple[str, ...]:
        """What the control program is told. A daemon sees its own card alone, which so is number 0."""
        return (
            f"set_default_active_thread_percentage {self.threads}",
            f"set_default_device_pinned_mem_limit 0 {self.memory_mib}M",
        )

    def difference(self, threads: str, memory: str) -> str | None:
        """How a daemon's answers to `THREADS` and `MEMORY` differ, in words; None where they do not.

        A limit of a GiB and more is answered in whole GiB, without the rest (4000M: `3G`), a smaller one in MiB
        (`512M`), and no limit by an empty line, as driver 580 does.
        """
        threads, memory = threads.strip(), memory.strip()
        if not threads.replace(".", "", 1).isdigit() or round(float(threads)) != self.threads:
            return f"it has {threads or 'no'} percent of threads as its limit where {self.threads} were set"
        number, unit = memory[:-1], ANSWERED_MIB.get(memory[-1:])
        if unit is None or not number.isdigit() or int(number) != self.memory_mib // unit:
            return f"it has {memory or 'no'} memory as its limit where {self.memory_mib}M were set"
        return None


def limits(wanted: WantedDaemon, card_mib: int) -> Limits:
    """The limits of a card with so much memory; raises ValueError for a share that nobody could have."""
    threads = 100 // wanted.clients if wanted.threads == EQUAL else int(wanted.threads.removesuffix("%"))
    memory = card_mib // wanted.clients if wanted.memory == EQUAL else _mib(wanted.memory)
    if memory > card_mib:
        raise ValueError(f"a client may have {wanted.memory} of memory, and the card has {card_mib} MiB")
    return Limits(max(1, threads), memory)


def _mib(quantity: str) -> int:
    return int(quantity[:-2]) * MIB[quantity[-2:]]
