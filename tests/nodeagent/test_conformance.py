"""The facts that the simulation makes up are those that the real agent finds: `nodeagent`, run on each machine.

The machine is a sysfs and procfs tree and the fake driver library, both made from a shape. The simulated agent decides
with the real one's modules, of facts made from the same shape: what differs in the reports differs in the facts.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from controllers.api import names, system_facts, validation
from controllers.domain.mig import CardLayout
from nodeagent.host import procfs
from nodeagent.host.driver_probe import DriverProbe, Timing
from nodeagent.host.paths import HostPaths
from nodeagent.validate.checks import cardfacts, report
from nodeagent.validate.cuda_trials import Trials
from nodeagent.validate.scanner import NodeScanner
from sim.hardware import Shape, load, sysfs
from sim.nodes import discover, host, nvml, validators
from sim.nodes.faults import Faults
from sim.nodes.machine import Machine
from sim.nvml import Config, build, environment
from tests.kit.waiting import PATIENCE
from tests.nodeagent.validate.machine import Machine as Validated
from tests.nodeagent.validate.machine import machine
from tests.tools.lacking import lacking

if TYPE_CHECKING:
    from pathlib import Path

CATALOGUE = load()
WITH_CARDS = [name for name, shape in CATALOGUE.shapes.items() if shape.cards]
SWITCHED = [name for name in WITH_CARDS if nvml.has_switches(CATALOGUE.shape(name).devices)]
VOID = {names.VISIBLE_DEVICES: names.NO_DEVICES}
"""The environment of a container whose cards came by CDI."""
NODE, BOOT = "gpu-1", "0c57a7d8-8bd0-4a4c-9e55-0d6a0e9a1c11"


@pytest.fixture(scope="module")
def library() -> Path:
    """The fake driver library."""
    if why := lacking("cc"):
        pytest.skip(f"the fake driver library cannot be built: {why}")
    return build()


def real(folder: Path, shape: Shape, library: Path, *, nvml: bool = True, **machine: Any) -> dict[str, Any]:
    """What the real agent finds on a machine of that shape; `nvml`: whether it has the driver's library and devices."""
    lost, driver = machine.get("lost", ()), machine.get("driver", True)
    tree = sysfs.write(folder / "machine", shape, node=NODE, boot_id=BOOT, system=CATALOGUE.system, **machine)
    config = Config.of(shape, NODE)
    for address in lost:
        config = config.without(address)
    asked = driver and nvml
    variables = environment(library, config.write(folder / "driver.conf")) if asked else {}
    command = [sys.executable, "-m", "nodeagent.discover", "--once", "--output=json"]
    places = [f"--sys={tree.sys}", f"--proc={tree.proc}", f"--root={tree.root}"]
    done = subprocess.run(
        [*command, *places], env={**os.environ, **variables}, capture_output=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr.decode()
    found: dict[str, Any] = orjson.loads(done.stdout)
    told = found["attributes"].get(names.FEATURE_DRIVER, {"elements": {}})["elements"]
    # The number of a folder, which no simulated machine has.
    assert told.pop(validation.LOAD, "") == procfs.load(tree.sys)
    # The environment names the library here, which lies in no root: whose it is cannot be seen.
    assert system_facts.DRIVER_SOURCE not in found["attributes"][names.FEATURE_SYSTEM]["elements"]
    return found


def simulated(shape: Shape, faults: Faults | None = None) -> dict[str, Any]:
    """What the simulated agent of that node publishes."""
    faults = faults or Faults()
    cards = tuple(card for card in shape.cards if card.address not in faults.lost)
    made = Machine(shape, cards, shape.software, faults, host=host.of(CATALOGUE.system))
    found = discover.features(NODE, BOOT, made)
    source = found["attributes"][names.FEATURE_SYSTEM]["elements"].pop(system_facts.DRIVER_SOURCE, "")
    assert source == ("host" if shape.software is not None else "")
    return found


def compare(seen: dict[str, Any], told: dict[str, Any]) -> None:
    """Equal, attribute by attribute."""
    cards, others = (found["instances"][names.FEATURE_DEVICE]["elements"] for found in (seen, told))
    for card, other in zip(cards, others, strict=True):
        assert card == other
    assert seen == told


@pytest.mark.parametrize("name", CATALOGUE.shapes)
def test_with_driver_and_toolkit(tmp_path: Path, library: Path, name: str) -> None:
    shape = CATALOGUE.shape(name)
    compare(real(tmp_path, shape, library), simulated(shape))


@pytest.mark.parametrize("name", CATALOGUE.shapes)
def test_without_driver(tmp_path: Path, library: Path, name: str) -> None:
    shape = CATALOGUE.shape(name)
    compare(real(tmp_path, shape, library, driver=False), simulated(shape, Faults(driver=True)))


async def validated(at: Validated, monkeypatch: pytest.MonkeyPatch, library: Path) -> dict[str, str]:
    """What the real validator finds in a container on that machine, where it waits for nothing."""
    for name, value in environment(library, at.nvml).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(procfs, "load", lambda _: "")  # the number of a folder, which no simulated machine has
    own, timing = (at.own,), Timing(deadline=PATIENCE)
    looker = NodeScanner(
        validation.CONTAINER,
        HostPaths(at.sys, at.proc, at.root),
        DriverProbe(lambda: own, timing),
        at.own,
        VOID,
        Trials(own, timing, None),
        0,
    )
    facts = await looker.scan()
    await looker.close()
    return report.attributes(validation.CONTAINER, facts, report.evaluate(validation.CONTAINER, facts))


@pytest.mark.parametrize(("name", "fabric"), [*((name, False) for name in WITH_CARDS), *((n, True) for n in SWITCHED)])
async def test_the_check_of_a_container(
    tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch, name: str, fabric: bool
) -> None:
    """CUDA on every card, and NVLink's fabric; with `fabric` its manager is down."""
    shape = CATALOGUE.shape(name)
    at = Validated(tmp_path, shape, {})
    at.cdi(list(range(len(shape.cards))), at.version, "gpu-control-plane.yaml")
    if fabric:
        config = at.config.also("cuda cuInit 802")
        for address in (address for address, lines in at.config.cards.items() if "fabric 3" in lines):
            config = config.card(address, "fabric 2")
        config.write(at.nvml)
    seen = await validated(at, monkeypatch, library)
    machine = Machine(shape, shape.cards, shape.software, Faults(fabric=fabric))
    assert seen == validators.attributes(validation.CONTAINER, "node", seen["container.boot_id"], machine)


@pytest.mark.parametrize("name", WITH_CARDS)
def test_without_toolkit(tmp_path: Path, library: Path, name: str) -> None:
    shape = CATALOGUE.shape(name)
    compare(real(tmp_path, shape, library, toolkit=False), simulated(shape, Faults(toolkit=True)))


@pytest.mark.parametrize("name", WITH_CARDS)
def test_with_a_card_lost(tmp_path: Path, library: Path, name: str) -> None:
    """Its neighbours no longer name it among their NVLink peers."""
    shape = CATALOGUE.shape(name)
    lost = shape.cards[0].address
    seen = real(tmp_path, shape, library, lost=[lost])
    assert lost not in orjson.dumps(seen).decode()
    compare(seen, simulated(shape, Faults(lost=frozenset({lost}))))


@pytest.mark.parametrize("name", WITH_CARDS)
def test_without_nvml_as_the_chart_runs_it(tmp_path: Path, library: Path, name: str) -> None:
    shape = CATALOGUE.shape(name)
    seen = real(tmp_path, shape, library, nvml=False)
    assert "mig_capable" not in orjson.dumps(seen).decode()
    compare(seen, simulated(shape, Faults(no_nvml=True)))


@pytest.mark.parametrize("name", WITH_CARDS)
async def test_what_the_container_is_told_of_its_cards(
    tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    at = machine(tmp_path, shape=name, node=NODE)
    for key, value in environment(library, at.nvml).items():
        monkeypatch.setenv(key, value)
    dividable = [card.address for card in at.shape.cards if "7g.40gb" in card.mig_profiles]
    held = {address: CardLayout(enabled=True, instances={"7g.40gb": 1}) for address in dividable[:1]}
    for address in held:
        at.config.partitioned(address, ("7g.40gb", 0)).write(at.nvml)
    asker = DriverProbe(lambda: (at.own,), Timing(deadline=PATIENCE))
    try:
        facts = await NodeScanner(validation.CONTAINER, HostPaths(at.sys, at.proc, at.root), asker, at.own, {}).scan()
    finally:
        await asker.close()
    found = cardfacts.elements(cardfacts.step({}, facts))
    assert {card.pop(validation.LOAD) for card in found} == {procfs.load(at.sys)}
    simulated_machine = Machine(at.shape, at.shape.cards, at.shape.software, Faults(), held)
    assert found == validators.cards(validation.CONTAINER, NODE, facts.boot_id, simulated_machine)
    assert [card["address"] for card in found] == at.addresses
