"""What is seen on a node: files, specifications, and a driver that is asked through the fake library."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

import pytest

from controllers.api import names
from controllers.runtime.errors import RuntimeFault
from nodeagent.deviceplugin.devices import allocate, cdi
from nodeagent.deviceplugin.devices.allocate import AllocationContext, Refused
from nodeagent.deviceplugin.devices.cdi import MAINS
from nodeagent.deviceplugin.devices.records import Listed, NodeScan
from nodeagent.deviceplugin.scanner import NodeScanner
from nodeagent.host import mpsfiles
from nodeagent.host.driver_probe import DriverProbe, Timing
from nodeagent.host.mpsfiles import DaemonState, WantedDaemon
from nodeagent.host.paths import HostPaths
from sim.hardware import load, sysfs
from sim.nvml import Config, build, environment
from tests.kit.waiting import PATIENCE
from tests.tools.lacking import lacking

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = load().shape("h100-sxm-8")
FIRST, SECOND = (card.address for card in SHAPE.cards[:2])
CARDS = {FIRST: "", SECOND: ""}


class Machine:
    def __init__(self, folder: Path) -> None:
        self.tree = sysfs.write(folder / "machine", SHAPE, node="n")
        self.dev, self.specs = folder / "dev", folder / "cdi"
        self.dev.mkdir()
        self.specs.mkdir()
        places = HostPaths(self.tree.sys, self.tree.proc, self.tree.root)
        self.looker = NodeScanner(
            places, self.dev, (self.specs,), DriverProbe(tuple, Timing(deadline=PATIENCE)), slow_period=0
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the fake driver, for the reader that will be started."""
    if why := lacking("cc"):
        pytest.skip(f"the fake driver library cannot be built: {why}")
    path = tmp_path / "driver.conf"
    for name, value in environment(build(), path).items():
        monkeypatch.setenv(name, value)
    return path


async def test_cards_that_are_not_on_the_bus_are_lost(machine: Machine) -> None:
    machine.tree.pull(FIRST)
    assert (await machine.looker.scan(CARDS)).lost == {FIRST}
    shutil.rmtree(machine.tree.sys / "bus")
    assert (await machine.looker.scan(CARDS)).lost == frozenset(), "a bus that cannot be read tells nothing"


async def test_device_nodes_that_are_there(machine: Machine) -> None:
    for name in ("nvidia1", "nvidiactl", "nvidia77", "zero"):
        (machine.dev / name).touch()
    (machine.dev / "nvidia-caps").mkdir()
    (machine.dev / "nvidia-caps" / "nvidia-cap7").touch()
    seen = await machine.looker.scan({})
    assert seen.nodes == {"nvidia1", "nvidiactl", "nvidia-caps/nvidia-cap7"}
    assert (seen.minors[FIRST], seen.minors[SECOND]) == (0, 1)


async def test_specifications_are_read_anew_when_they_change(machine: Machine) -> None:
    file = machine.specs / "nvidia.yaml"
    file.write_text("kind: nvidia.com/gpu\ndevices: [{name: GPU-1}]\n")
    (machine.specs / "broken.json").write_text("{")
    (machine.specs / "notes.txt").write_text("kind: nvidia.com/gpu\ndevices: [{name: GPU-9}]\n")
    assert (await machine.looker.scan({})).cdi == {"nvidia.com/gpu=GPU-1"}
    file.write_text("kind: nvidia.com/gpu\ndevices: [{name: GPU-1}, {name: GPU-23}]\n")
    assert (await machine.looker.scan({})).cdi == {"nvidia.com/gpu=GPU-1", "nvidia.com/gpu=GPU-23"}
    file.unlink()
    assert (await machine.looker.scan({})).cdi == frozenset()


async def test_instances_and_what_opens_them(machine: Machine, config: Path) -> None:
    Config.of(SHAPE, "n").partitioned(FIRST, ("1g.10gb", 0), ("3g.40gb", 4)).write(config)
    for path, minor in (("gi1/access", 12), ("gi1/ci0/access", 13)):
        file = machine.tree.proc / "driver/nvidia/capabilities/gpu0/mig" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"DeviceFileMinor: {minor}\nDeviceFileMode: 256\n")
    seen = await machine.looker.scan(CARDS)
    small, large = seen.instances[FIRST]
    assert [(m.profile, m.gpu_instance, m.compute_instance) for m in (small, large)] == [
        ("1g.10gb", 1, 0),
        ("3g.40gb", 2, 0),
    ]
    assert small.uuid.startswith("MIG-")
    assert small.uuid != large.uuid
    assert (seen.access[small.uuid], seen.access[large.uuid]) == ((12, 13), ())
    assert seen.instances[SECOND] == ()
    assert seen.unresponsive == frozenset()


async def test_a_card_that_its_driver_does_not_answer_for_is_silent(machine: Machine, config: Path) -> None:
    Config.of(SHAPE, "n").without(FIRST).write(config)
    assert (await machine.looker.scan(CARDS)).unresponsive == {FIRST}


async def test_a_driver_that_says_nothing_makes_no_card_silent(machine: Machine, config: Path) -> None:
    Config.of(SHAPE, "n").also("driver_not_loaded").write(config)
    seen = await machine.looker.scan(CARDS)
    assert (seen.unresponsive, dict(seen.instances)) == (frozenset(), {})


async def divided(machine: Machine, config: Path) -> tuple[Config, NodeScan]:
    """The first card is in two, and that has been seen."""
    made = Config.of(SHAPE, "n").partitioned(FIRST, ("1g.10gb", 0), ("3g.40gb", 4))
    made.write(config)
    file = machine.tree.proc / "driver/nvidia/capabilities/gpu0/mig/gi1/access"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("DeviceFileMinor: 12\nDeviceFileMode: 256\n")
    seen = await machine.looker.scan(CARDS)
    assert len(seen.instances[FIRST]) == 2
    assert seen.remembered == frozenset()
    return made, seen


def same(before: NodeScan, now: NodeScan) -> bool:
    """Whether the first card's instances, and what opens them, are known as before, and as of before."""
    assert now.remembered >= {FIRST}
    return (before.instances[FIRST], dict(before.access)) == (now.instances[FIRST], dict(now.access))


def anew(machine: Machine) -> None:
    """The driver is asked again, which takes its time otherwise."""
    machine.looker.probe.forget()


async def test_instances_of_a_card_that_falls_silent_are_remembered(machine: Machine, config: Path) -> None:
    made, before = await divided(machine, config)
    made.without(FIRST).write(config)
    anew(machine)
    now = await machine.looker.scan(CARDS)
    assert (now.unresponsive, same(before, now)) == ({FIRST}, True)
    made.write(config)
    anew(machine)
    assert await machine.looker.scan(CARDS) == before, "and told again"


async def test_instances_are_remembered_while_the_driver_says_nothing_at_all(machine: Machine, config: Path) -> None:
    made, before = await divided(machine, config)
    made.also("driver_not_loaded").write(config)
    anew(machine)
    now = await machine.looker.scan(CARDS)
    assert (now.unresponsive, same(before, now)) == (frozenset(), True)


async def test_a_silent_card_stays_silent_until_it_is_named(machine: Machine, config: Path) -> None:
    made, before = await divided(machine, config)
    made.without(FIRST).write(config)
    anew(machine)
    await machine.looker.scan(CARDS)
    made.also("driver_not_loaded").write(config)
    anew(machine)
    now = await machine.looker.scan(CARDS)
    assert (now.unresponsive, same(before, now)) == ({FIRST}, True), "an answer that is not whole does not make it well"
    made.write(config)
    anew(machine)
    assert await machine.looker.scan(CARDS) == before


async def test_instances_of_an_unloaded_driver_are_remembered_and_ill(machine: Machine, config: Path) -> None:
    _, before = await divided(machine, config)
    shutil.rmtree(machine.tree.proc / "driver" / "nvidia")
    shutil.rmtree(machine.tree.sys / "module" / "nvidia", ignore_errors=True)
    now = await machine.looker.scan(CARDS)
    assert now.unresponsive == frozenset(CARDS)
    assert dict(now.instances) == {card: before.instances[card] for card in CARDS}


async def test_instances_of_a_lost_card_are_remembered(machine: Machine, config: Path) -> None:
    made, before = await divided(machine, config)
    machine.tree.pull(FIRST)
    made.without(FIRST).write(config)
    anew(machine)
    now = await machine.looker.scan(CARDS)
    assert (now.lost, same(before, now)) == ({FIRST}, True)


async def test_another_cards_instances_are_not_remembered(machine: Machine, config: Path) -> None:
    made, _ = await divided(machine, config)
    made.without(FIRST).write(config)
    anew(machine)
    assert FIRST not in (await machine.looker.scan({FIRST: "GPU-another", SECOND: ""})).instances
    assert FIRST not in (await machine.looker.scan(CARDS)).instances, "once forgotten, forgotten"


async def test_a_driver_that_is_not_asked_tells_nothing(machine: Machine, config: Path) -> None:
    await divided(machine, config)
    seen = await machine.looker.scan(CARDS, ask=False)
    assert (seen.unresponsive, dict(seen.instances), dict(seen.access)) == (frozenset(), {}, {})


MAIN, K3S = MAINS[0], MAINS[1]
DROP_IN = "etc/containerd/conf.d/99-nvidia.toml"
IMPORTS = 'imports = ["/etc/containerd/conf.d/*.toml"]\n'
ON, OFF, SILENT = (
    f'[plugins."io.containerd.grpc.v1.cri"]\n{word}\n' for word in ("enable_cdi=true", "enable_cdi=false", "")
)
NEWER_OFF = '[plugins."io.containerd.cri.v1.runtime"]\nenable_cdi = false'


@pytest.mark.parametrize(
    ("runtime", "files", "does"),
    [
        ("containerd://2.1.4", {}, True),
        ("containerd://2.1.4", {MAIN: "[plugins.x]\nenable_cdi = false"}, False),
        ("containerd://1.7.35", {}, False),
        ("containerd://1.7.35", {MAIN: '[plugins."io.containerd.grpc.v1.cri"]\nenable_cdi = true'}, True),
        ("containerd://1.6.20~ds1", {MAIN: "[plugins.x]\nenable_cdi = true"}, False),
        ("containerd://v2.0.0", {MAIN: "not toml ["}, True),
        ("cri-o://1.31.0", {}, True),
        ("cri-o://1.31.0", {MAIN: OFF}, True),
        ("docker://28.1.0", {}, False),
        ("", {}, False),
        ("containerd://1.7.35", {MAIN: IMPORTS + SILENT, DROP_IN: ON}, True),
        ("containerd://1.7.35", {MAIN: 'imports = ["conf.d/*.toml"]\n', DROP_IN: ON}, True),
        ("containerd://1.7.35", {MAIN: IMPORTS + ON, DROP_IN: OFF}, False),
        ("containerd://1.7.35", {MAIN: IMPORTS + ON, DROP_IN: SILENT}, False),
        ("containerd://1.7.35", {MAIN: SILENT, DROP_IN: ON}, False),
        ("containerd://1.7.35", {MAIN: "imports = 3\n", DROP_IN: ON}, False),
        ("containerd://1.7.35", {K3S: ON}, True),
        ("containerd://2.1.4", {MAIN: IMPORTS + OFF, DROP_IN: ON}, True),
        ("containerd://2.1.4", {MAIN: IMPORTS + OFF, DROP_IN: SILENT}, False),
        ("containerd://2.1.4", {MAIN: IMPORTS, DROP_IN: NEWER_OFF}, False),
        ("containerd://2.1.4", {MAIN: SILENT, DROP_IN: NEWER_OFF}, True),
        ("containerd://2.2.0", {MAIN: SILENT, DROP_IN: NEWER_OFF}, False),
        ("containerd://2.2.0", {DROP_IN: NEWER_OFF}, False),
        ("containerd://2.2.0", {MAIN: "imports = []", DROP_IN: NEWER_OFF}, True),
    ],
)
async def test_whether_the_runtime_applies_cdi(
    machine: Machine, runtime: str, files: dict[str, str], does: bool
) -> None:
    shutil.rmtree(machine.tree.root / "etc" / "containerd", ignore_errors=True)
    for path, content in files.items():
        file = machine.tree.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    machine.looker.runtime = runtime
    assert (await machine.looker.scan({})).runtime_cdi is does


async def test_a_runtime_that_could_not_be_read_is_asked_for_again(machine: Machine) -> None:
    said = iter(
        [RuntimeFault("away"), KeyError("nodeInfo"), "containerd://1.7.35", RuntimeFault("away"), "cri-o://1.31.0"]
    )
    known, heard = [], asyncio.Event()

    async def read() -> str:
        known.append(machine.looker.runtime)
        answer = next(said, None)
        if answer is None:
            heard.set()
            return machine.looker.runtime
        if isinstance(answer, Exception):
            raise answer
        return answer

    following = asyncio.create_task(machine.looker.follow_runtime(read, 0.01))
    await asyncio.wait_for(heard.wait(), PATIENCE)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    assert known[:6] == ["", "", "", "containerd://1.7.35", "containerd://1.7.35", "cri-o://1.31.0"]


@pytest.mark.parametrize("text", ["", "[]", "a: {", "kind: k", "kind: k\ndevices: 3", "kind: k\ndevices: [3]"])
def test_what_is_no_specification_names_nothing(text: str) -> None:
    assert cdi.names(text) == frozenset()


def listed(*uuids: str, healthy: bool = True) -> AllocationContext:
    return AllocationContext("p", {uuid: Listed(uuid, uuid, "card", FIRST, healthy) for uuid in uuids})


def test_names_only_where_every_device_has_one() -> None:
    some = NodeScan(runtime_cdi=True, cdi=frozenset({"nvidia.com/gpu=a"}))
    assert allocate.container_devices(["a"], listed("a", "b"), some, allocate.AUTO).cdi == ("nvidia.com/gpu=a",)
    assert allocate.container_devices(["a", "b"], listed("a", "b"), some, allocate.AUTO).environment == {
        names.VISIBLE_DEVICES: "a,b"
    }
    assert allocate.container_devices(["a"], listed("a"), NodeScan(), allocate.CDI).cdi == ("nvidia.com/gpu=a",)
    assert allocate.container_devices(["a"], listed("a"), some, allocate.DEVICE_SPECS).cdi == ()


def test_instances_come_with_their_capabilities() -> None:
    from nodeagent.host.facts.records import MigDevice

    ground = AllocationContext(
        "p", {"MIG-a": Listed("MIG-a", "MIG-a", "card", FIRST, instance=MigDevice("MIG-a", "1g.10gb", 1, 0))}
    )
    nodes = frozenset({"nvidia0", "nvidiactl", "nvidia-caps/nvidia-cap12", "nvidia-caps/nvidia-cap13"})
    seen = NodeScan(minors={FIRST: 0}, nodes=nodes, access={"MIG-a": (12, 13)})
    found = allocate.container_devices(["MIG-a"], ground, seen, allocate.AUTO)
    assert found.nodes == (
        "/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia-caps/nvidia-cap13", "/dev/nvidiactl",
    )  # fmt: skip
    assert found.environment == {names.VISIBLE_DEVICES: "MIG-a"}


@pytest.mark.parametrize(
    ("ground", "why"), [(listed("b"), "does not offer device a"), (listed("a", healthy=False), "not healthy")]
)
def test_what_cannot_be_given_is_refused_with_a_sentence(ground: AllocationContext, why: str) -> None:
    with pytest.raises(Refused, match=why):
        allocate.container_devices(["a"], ground, NodeScan(), allocate.AUTO)


async def test_what_the_mps_role_said_stays_where_its_state_cannot_be_read(machine: Machine, tmp_path: Path) -> None:
    machine.looker.mps = folder = tmp_path / "mps"
    ready = DaemonState("Ready", "v", runs=True)
    folder.mkdir()
    (folder / mpsfiles.STATE).write_text("{half", "utf-8")
    assert not (await machine.looker.with_daemons(NodeScan())).daemons.known, "there was none before"

    await machine.looker.want_daemons({"GPU-0": WantedDaemon("v", 2, "Equal", "Equal")})
    mpsfiles.write_state(folder, {"GPU-0": ready}, 1)
    assert (await machine.looker.with_daemons(NodeScan())).daemons.cards == {"GPU-0": ready}
    (folder / mpsfiles.STATE).write_text("{half", "utf-8")
    said = (await machine.looker.with_daemons(NodeScan())).daemons
    assert (said.known, said.cards, said.is_gone("GPU-1")) == (True, {"GPU-0": ready}, True)
