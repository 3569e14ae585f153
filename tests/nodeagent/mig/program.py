"""`nvidia-mig-parted` and `nvidia-smi` as programs: the card state machine over a JSON file, and what NVML then tells.

They take the flags that the real ones take and the manager gives, and complain of any other. Every change reaches the
file and the driver library's configuration before the next, so that a kill leaves what a kill leaves.
"""

from __future__ import annotations

import argparse
import json
import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controllers.domain.catalogue import geometry, model
from sim.hardware import load
from sim.nvml import Config
from tests.nodeagent.mig.machine import Failure, Machine, seats, state
from tests.tools.placement import place

if TYPE_CHECKING:
    from controllers.domain.mig import CardLayout

ROOT = Path(__file__).resolve().parents[3]
VARIABLE = "FAKE_CARDS"
PARTED, SMI = "nvidia-mig-parted", "nvidia-smi"


class Cards:
    """The file, and the driver's configuration beside it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def driver(self) -> Path:
        """What the fake driver library reads."""
        return self.path.with_suffix(".conf")

    def make(self, shape: str, node: str, *, needs_reset: bool) -> None:
        """A machine whose cards are not divided."""
        cards = seats(load().shape(shape), 99)
        self.save(state(cards, needs_reset) | {"shape": shape, "node": node})

    def read(self) -> dict[str, Any]:
        """The state."""
        found: dict[str, Any] = json.loads(self.path.read_text())
        return found

    def save(self, found: dict[str, Any]) -> None:
        """Put the state, and what the driver tells of it, in place."""
        fresh = self.path.with_suffix(".new")
        fresh.write_text(json.dumps(found))
        fresh.replace(self.path)
        config = Config.of(load().shape(found["shape"]), found["node"])
        for address, card in found["cards"].items():
            if card["mode"]:
                known = model(card["vendor"], card["device"])
                cut = geometry(known.geometry or "") if known else None
                assert cut is not None
                wanted = [name for name, count in card["instances"].items() for _ in range(count)]
                config = config.partitioned(address, *(place(cut, wanted) or ()))
        config.write(self.driver)

    def change(self, **values: Any) -> None:
        """From outside: faults, what is in use."""
        self.save(self.read() | values)

    def layout(self, address: str) -> CardLayout:
        """How a card is divided."""
        return Machine(self.read(), lambda: None).layout(address)


def install(folder: Path) -> dict[str, Path]:
    """Put both programs into a folder, by name."""
    lines = (
        f"#!{sys.executable}",
        "import sys",
        f"sys.path.insert(0, {str(ROOT)!r})",
        "from tests.nodeagent.mig.program import main",
        "sys.exit(main(sys.argv))",
    )
    found = {}
    for name in (PARTED, SMI):
        found[name] = path = folder / name
        path.write_text("\n".join(lines))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return found


def parted(arguments: list[str], machine: Machine) -> None:
    """`nvidia-mig-parted apply|assert`; without --skip-reset the real one resets every GPU of the node."""
    parser = argparse.ArgumentParser(prog=PARTED)
    parser.add_argument("command", choices=("apply", "assert"))
    parser.add_argument("-f", "--config-file", required=True, choices=("-",))
    parser.add_argument("-s", "--skip-reset", action="store_true")
    parser.add_argument("-m", "--mode-only", action="store_true")
    args = parser.parse_args(arguments)
    document = sys.stdin.read()
    if args.command == "assert":
        return machine.check(document)
    if not args.skip_reset:
        raise Failure("every GPU of the node would be reset")
    return machine.apply(document, mode_only=args.mode_only)


def smi(arguments: list[str], machine: Machine) -> None:
    """`nvidia-smi --gpu-reset -i ADDRESS`, `nvidia-smi -mig 0|1 -i ADDRESS`."""
    match arguments:
        case ["--gpu-reset", "-i", address]:
            machine.reset(address)
        case ["-mig", ("0" | "1") as mode, "-i", address]:
            machine.mode(address, enabled=mode == "1")
        case _:
            raise Failure(f"what is {arguments}?")


def main(argv: list[str]) -> int:
    """Either program, by its name."""
    cards = Cards(Path(os.environ[VARIABLE]))
    found = cards.read()
    machine = Machine(found, lambda: cards.save(found))
    run = parted if Path(argv[0]).name == PARTED else smi
    try:
        run(argv[1:], machine)
    except Failure as failure:
        sys.stderr.write(f"{failure}\n")
        return 1
    finally:
        cards.save(found)
    sys.stdout.write("MIG configuration applied successfully\n")
    return 0
