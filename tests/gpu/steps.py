"""The steps of `make gpu`: each asks a part of the node agent about this machine, and says whether it came out well."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controllers.api import validation
from nodeagent.discover import once
from nodeagent.host.driver_probe import DriverProbe, Timing
from nodeagent.host.facts.cards import is_one
from nodeagent.validate.checks import cdi, report
from nodeagent.validate.checks.facts import NVIDIA
from nodeagent.validate.cuda_trials import Trials
from nodeagent.validate.scanner import NodeScanner
from tests.gpu import plugin

if TYPE_CHECKING:
    from nodeagent.deviceplugin.devices.records import Listed
    from nodeagent.discover.scan import Facts
    from nodeagent.host.paths import HostPaths

OK, FAILED, NOT_RUN = "ok", "failed", "not run"
CDI_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Step:
    """What came of one."""

    name: str
    result: str
    told: str
    kept: Any = None
    """What the recording has of it."""


@dataclass
class Machine:
    """This machine, as the steps find it."""

    places: HostPaths
    dev: Path
    own: Path
    facts: Facts
    timing: Timing = field(default_factory=Timing)

    @property
    def asker(self) -> DriverProbe:
        """Somebody new to ask the driver."""
        return DriverProbe(self.places.library_roots, self.timing)

    async def steps(self) -> list[Step]:
        """All of them, one after the other."""
        return [
            self.discover(),
            await self.validate(validation.DRIVER),
            await self.validate(validation.CONTAINER),
            await self.health(),
            await self.specification(),
            await self.device_plugin(),
        ]

    def discover(self) -> Step:
        """Every card of NVIDIA's on the bus is one that the driver tells of."""
        driver = self.facts.driver
        cards = [card.address for card in self.facts.bus.functions if card.vendor == NVIDIA and is_one(card)]
        silent = [address for address in cards if driver is None or address not in driver.cards]
        told = f"{len(cards)} cards, driver {driver.version if driver else 'silent'}"
        told += f"; the driver does not tell of {', '.join(silent)}" if silent else ""
        told += f"; {self.facts.why_incomplete}" if self.facts.why_incomplete else ""
        return Step("discover", FAILED if silent else OK, told, once.features(self.facts))

    async def validate(self, role: str) -> Step:
        """The validator's verdict; role container tries CUDA, as if this machine were a container with all cards."""
        own = (self.own,)
        asker = DriverProbe(self.places.library_roots if role == validation.DRIVER else lambda: own, self.timing)
        trying = Trials(own, self.timing, None) if role == validation.CONTAINER else None
        looker = NodeScanner(role, self.places, asker, self.own, trials=trying, fabric_grace=0)
        facts = await looker.scan()
        await looker.close()
        verdict = report.evaluate(role, facts)
        told = "; ".join(f"{check.name}: {check.message}" for check in verdict.checks if check.result != OK)
        kept = report.attributes(role, facts, verdict)
        said = told or f"{len(verdict.passed)} cards pass"
        return Step(f"validate {role}", OK if verdict.result == validation.OK else FAILED, said, kept)

    async def health(self) -> Step:
        """Every card tells its temperature."""
        status, output, errors = await _run(sys.executable, "-m", "tests.gpu.health")
        if status != 0:
            return Step("health", FAILED, errors.strip().splitlines()[-1] if errors.strip() else f"status {status}")
        found: dict[str, dict[str, Any]] = json.loads(output)
        silent = [uuid for uuid, values in found.items() if values["temperature"] is None]
        told = ", ".join(f"{values['temperature']} °C" for values in found.values())
        return Step("health", FAILED if silent or not found else OK, told or "no card", found)

    async def specification(self) -> Step:
        """NVIDIA's own program makes a CDI specification that names the cards by uuid."""
        name = "CDI"
        if shutil.which("nvidia-ctk") is None:
            return Step(name, NOT_RUN, "nvidia-ctk is not installed (NVIDIA's container toolkit)")
        flags = ("--mode=nvml", "--device-name-strategy=uuid", "--no-all-device")
        status, output, errors = await _run("nvidia-ctk", "--quiet", "cdi", "generate", *flags)
        if status != 0:
            return Step(name, FAILED, errors.strip()[-300:] or f"status {status}")
        missing = [one.id for one in self._listing() if one.id not in output]
        broken = cdi.read({"made": output}).broken
        told = f"does not name {', '.join(missing)}" if missing else "cannot be read" if broken else "names every card"
        return Step(name, FAILED if missing or broken else OK, told, output)

    async def device_plugin(self) -> Step:
        """A pod gets the device nodes of the card that a played kubelet chose for it."""
        if self.facts.driver is None or not self._listing():
            return Step("device plugin", NOT_RUN, "the driver tells of no card, and of no MIG device")
        asker = self.asker
        try:
            found = await plugin.admitted(self.places, self.dev, asker, self.facts.driver)
        finally:
            await asker.close()
        without = [id_ for id_, nodes in found.items() if not any(path[11:].isdigit() for path in nodes)]
        told = f"{len(found)} devices, each given to a pod"
        told += f"; no /dev/nvidiaN for {', '.join(without)}" if without else ""
        return Step("device plugin", FAILED if without else OK, told, found)

    def _listing(self) -> tuple[Listed, ...]:
        return plugin.listing(self.facts.driver) if self.facts.driver is not None else ()


async def _run(*command: str) -> tuple[int, str, str]:
    """Status, output and complaints of a program."""
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    try:
        async with asyncio.timeout(CDI_SECONDS):
            output, errors = await child.communicate()
    except TimeoutError:
        child.kill()
        return 124, "", f"{command[0]} did not end in {CDI_SECONDS} s"
    return child.returncode or 0, output.decode(errors="replace"), errors.decode(errors="replace")
