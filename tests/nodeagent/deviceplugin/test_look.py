"""What is seen on a node: files, specifications, and a driver that is asked through the fake library."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from nodeagent.deviceplugin import cdi, give
from nodeagent.deviceplugin.give import Ground, Refused
from nodeagent.deviceplugin.look import Looker
from nodeagent.deviceplugin.records import Listed, Seen
from nodeagent.host.ask import Asker, Timing
from nodeagent.host.places import Places
from sim.hardware import load, sysfs
from sim.nvml import Config, build, environment

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = load().shape("h100-sxm-8")
FIRST, SECOND = (card.address for card in SHAPE.cards[:2])


class Machine:
    def __init__(self, folder: Path) -> None:
        self.tree = sysfs.write(folder / "machine", SHAPE, node="n")
        self.dev, self.specs = folder / "dev", folder / "cdi"
        self.dev.mkdir()
        self.specs.mkdir()
        places = Places(self.tree.sys, self.tree.proc, self.tree.root)
        self.looker = Looker(places, self.dev, (self.specs,), Asker((), Timing(deadline=30)), slow_period=0)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the fake driver, for the reader that will be started."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler (cc) to build the fake driver library with")
    path = tmp_path / "driver.conf"
    for name, value in environment(build(), path).items():
        monkeypatch.setenv(name, value)
    return path


async def test_cards_that_are_not_on_the_bus_are_lost(machine: Machine) -> None:
    machine.tree.pull(FIRST)
    assert (await machine.looker.look((FIRST, SECOND))).lost == {FIRST}
    shutil.rmtree(machine.tree.sys / "bus")
    assert (await machine.looker.look((FIRST, SECOND))).lost == frozenset(), "a bus that cannot be read tells nothing"


async def test_device_nodes_that_are_there(machine: Machine) -> None:
    for name in ("nvidia1", "nvidiactl", "nvidia77", "zero"):
        (machine.dev / name).touch()
    (machine.dev / "nvidia-caps").mkdir()
    (machine.dev / "nvidia-caps" / "nvidia-cap7").touch()
    seen = await machine.looker.look(())
    assert seen.nodes == {"nvidia1", "nvidiactl", "nvidia-caps/nvidia-cap7"}
    assert (seen.minors[FIRST], seen.minors[SECOND]) == (0, 1)


async def test_specifications_are_read_anew_when_they_change(machine: Machine) -> None:
    file = machine.specs / "nvidia.yaml"
    file.write_text("kind: nvidia.com/gpu\ndevices: [{name: GPU-1}]\n")
    (machine.specs / "broken.json").write_text("{")
    (machine.specs / "notes.txt").write_text("kind: nvidia.com/gpu\ndevices: [{name: GPU-9}]\n")
    assert (await machine.looker.look(())).cdi == {"nvidia.com/gpu=GPU-1"}
    file.write_text("kind: nvidia.com/gpu\ndevices: [{name: GPU-1}, {name: GPU-23}]\n")
    assert (await machine.looker.look(())).cdi == {"nvidia.com/gpu=GPU-1", "nvidia.com/gpu=GPU-23"}
    file.unlink()
    assert (await machine.looker.look(())).cdi == frozenset()


async def test_instances_and_what_opens_them(machine: Machine, config: Path) -> None:
    Config.of(SHAPE, "n").partitioned(FIRST, ("1g.10gb", 0), ("3g.40gb", 4)).write(config)
    for path, minor in (("gi1/access", 12), ("gi1/ci0/access", 13)):
        file = machine.tree.proc / "driver/nvidia/capabilities/gpu0/mig" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"DeviceFileMinor: {minor}\nDeviceFileMode: 256\n")
    seen = await machine.looker.look((FIRST,))
    small, large = seen.instances[FIRST]
    assert [(m.profile, m.gpu_instance, m.compute_instance) for m in (small, large)] == [
        ("1g.10gb", 1, 0),
        ("3g.40gb", 2, 0),
    ]
    assert small.uuid.startswith("MIG-")
    assert small.uuid != large.uuid
    assert (seen.access[small.uuid], seen.access[large.uuid]) == ((12, 13), ())
    assert seen.instances[SECOND] == ()
    assert seen.silent == frozenset()


async def test_a_card_that_its_driver_does_not_answer_for_is_silent(machine: Machine, config: Path) -> None:
    Config.of(SHAPE, "n").without(FIRST).write(config)
    assert (await machine.looker.look((FIRST, SECOND))).silent == {FIRST}


async def test_a_driver_that_says_nothing_makes_no_card_silent(machine: Machine, config: Path) -> None:
    Config.of(SHAPE, "n").also("driver_not_loaded").write(config)
    seen = await machine.looker.look((FIRST, SECOND))
    assert (seen.silent, dict(seen.instances)) == (frozenset(), {})


@pytest.mark.parametrize(
    ("runtime", "file", "does"),
    [
        ("containerd://2.1.4", "", True),
        ("containerd://2.1.4", "[plugins.x]\nenable_cdi = false", False),
        ("containerd://1.7.35", "", False),
        ("containerd://1.7.35", '[plugins."io.containerd.grpc.v1.cri"]\nenable_cdi = true', True),
        ("containerd://1.6.20~ds1", "[plugins.x]\nenable_cdi = true", False),
        ("containerd://v2.0.0", "not toml [", True),
        ("cri-o://1.31.0", "", True),
        ("docker://28.1.0", "", False),
        ("", "", False),
    ],
)
def test_whether_the_runtime_applies_cdi(runtime: str, file: str, does: bool) -> None:
    assert cdi.applied(runtime, file) is does


@pytest.mark.parametrize("text", ["", "[]", "a: {", "kind: k", "kind: k\ndevices: 3", "kind: k\ndevices: [3]"])
def test_what_is_no_specification_names_nothing(text: str) -> None:
    assert cdi.names(text) == frozenset()


def listed(*uuids: str, healthy: bool = True) -> Ground:
    return Ground("p", {uuid: Listed(uuid, uuid, "card", FIRST, healthy) for uuid in uuids})


def test_names_only_where_every_device_has_one() -> None:
    some = Seen(runtime_cdi=True, cdi=frozenset({"nvidia.com/gpu=a"}))
    assert give.given(["a"], listed("a", "b"), some, give.AUTO).cdi == ("nvidia.com/gpu=a",)
    assert give.given(["a", "b"], listed("a", "b"), some, give.AUTO).environment == {give.VISIBLE: "a,b"}
    assert give.given(["a"], listed("a"), Seen(), give.CDI).cdi == ("nvidia.com/gpu=a",)
    assert give.given(["a"], listed("a"), some, give.DEVICE_SPECS).cdi == ()


def test_instances_come_with_their_capabilities() -> None:
    from nodeagent.host.facts import MigDevice

    ground = Ground(
        "p", {"MIG-a": Listed("MIG-a", "MIG-a", "card", FIRST, instance=MigDevice("MIG-a", "1g.10gb", 1, 0))}
    )
    nodes = frozenset({"nvidia0", "nvidiactl", "nvidia-caps/nvidia-cap12", "nvidia-caps/nvidia-cap13"})
    seen = Seen(minors={FIRST: 0}, nodes=nodes, access={"MIG-a": (12, 13)})
    found = give.given(["MIG-a"], ground, seen, give.AUTO)
    assert found.nodes == (
        "/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia-caps/nvidia-cap13", "/dev/nvidiactl",
    )  # fmt: skip
    assert found.environment == {give.VISIBLE: "MIG-a"}


@pytest.mark.parametrize(
    ("ground", "why"), [(listed("b"), "does not offer device a"), (listed("a", healthy=False), "not healthy")]
)
def test_what_cannot_be_given_is_refused_with_a_sentence(ground: Ground, why: str) -> None:
    with pytest.raises(Refused, match=why):
        give.given(["a"], ground, Seen(), give.AUTO)
