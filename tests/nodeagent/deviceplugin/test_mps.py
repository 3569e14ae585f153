"""A card that is shared by MPS is offered while its daemon serves, and loses the daemon when nobody can be on it."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from controllers.api.gpudevice import GPUDevice, MpsDaemon
from controllers.api.meta import ObjectMeta
from controllers.domain.plugin_settings import MpsLimits, PluginSettings, read
from nodeagent.deviceplugin.devices import allocate, decide, offers
from nodeagent.deviceplugin.devices.allocate import AllocationContext, Refused
from nodeagent.deviceplugin.devices.decide import Basis
from nodeagent.deviceplugin.devices.offers import DesiredOffer
from nodeagent.deviceplugin.devices.records import ForeignUsage, Holdings, NodeScan
from nodeagent.host.mpsfiles import Daemons, DaemonState, Phase, WantedDaemon
from tests.kit.objects import pool_ref
from tests.nodeagent.deviceplugin import make

OFFER = PluginSettings(make.POOL, "MPS", 4, limits=MpsLimits("Equal", "25%"))
NAME = make.name(0)
PUBLISHED = OFFER.of(NAME)
WANTED = WantedDaemon(PUBLISHED.config_version, 4, "Equal", "25%")
ASKED = make.asked(OFFER, 0)
NOT_ASKED = DesiredOffer(OFFER, frozenset(), OFFER)
NOW = 0.0
UNTOLD = ForeignUsage(is_current=False)


def card(**status: Any) -> GPUDevice:
    made = make.card(0)
    return replace(made, status=replace(made.status, pool_ref=pool_ref(make.POOL), **status))


def scan(phase: Phase | None = "Ready", *, alive: bool = True, version: str = WANTED.version) -> NodeScan:
    said = (
        {}
        if phase is None
        else {"GPU-0": DaemonState(phase, version, None if phase == "Ready" else "died", WANTED, phase == "Ready")}
    )
    return NodeScan(daemons=Daemons(alive, MappingProxyType(said)))


def basis(asked: DesiredOffer, seen: NodeScan, *pods: Any) -> Basis:
    return Basis(make.POOL, asked, seen, Holdings(), {pod.key: pod for pod in pods})


def test_the_settings_say_the_shares_and_each_share_has_a_version_of_its_own() -> None:
    assert read(make.POOL, OFFER.text()) == OFFER
    others = (MpsLimits("Equal", "Equal"), MpsLimits("4Gi", "25%"), None)
    versions = {replace(OFFER, limits=one).of(NAME).config_version for one in (OFFER.limits, *others)}
    assert len(versions) == 4


@pytest.mark.parametrize(
    ("seen", "offered"),
    [
        (scan(), True),
        (scan(None), False),
        (scan("Down"), False),
        (scan("Stopping"), False),
        (scan(alive=False), False),
        (scan(version="former"), False),
    ],
)
def test_a_card_is_offered_while_its_daemon_serves_with_the_pools_settings(seen: NodeScan, *, offered: bool) -> None:
    for now in (None, PUBLISHED):
        device = card(published=now)
        wanted = offers.wanted(make.POOL, [device], ASKED, seen)[device.name]
        assert wanted == (PUBLISHED if offered else None)
        listed = offers.listing(make.POOL, [device], ASKED, seen)
        assert all(one.healthy is offered for one in listed)
    assert [one.id for one in listed] == [f"GPU-0::{number}" for number in range(4)]


def test_other_modes_need_no_daemon() -> None:
    device = make.card(0)
    seen = scan(None, alive=False)
    assert offers.wanted(make.POOL, [device], make.asked(make.SHARED, 0), seen)[device.name] is not None


@pytest.mark.parametrize("phase", ["Ready", "Down", "Stopping"])
@pytest.mark.parametrize("alive", [True, False])
def test_in_another_mode_a_card_is_offered_once_no_daemon_is_left(phase: Phase, *, alive: bool) -> None:
    """As of a card that was lost or faulted while its pool changed, so that nobody waited for its daemon."""
    asked = make.asked(make.SHARED, 0)
    device, seen = card(mps=MpsDaemon(pool=make.POOL, phase="Stopping")), scan(phase, alive=alive)
    assert offers.wanted(make.POOL, [device], asked, seen)[device.name] is None
    assert not any(one.healthy for one in offers.listing(make.POOL, [device], asked, seen))
    assert dict(decide.daemons([device], basis(asked, seen), NOW)) == {}, "its daemon ends"

    published = card(published=make.SHARED.of(NAME))
    assert offers.wanted(make.POOL, [published], asked, seen)[device.name] is None
    assert not any(one.healthy for one in offers.listing(make.POOL, [published], asked, seen))
    assert dict(decide.daemons([published], basis(asked, seen), NOW)) == {}, "it was not published as MPS"
    assert offers.wanted(make.POOL, [device], asked, scan(None))[device.name] is not None


def test_where_the_state_cannot_be_read_nothing_changes() -> None:
    unknown = NodeScan(daemons=Daemons(alive=True, known=False))
    offered = card(published=PUBLISHED, mps=MpsDaemon(pool=make.POOL, phase="Ready"))
    assert decide.writes([offered], basis(ASKED, unknown), UNTOLD) == ()
    assert all(one.healthy for one in offers.listing(make.POOL, [offered], ASKED, unknown))
    assert decide.writes([card()], basis(ASKED, unknown), UNTOLD) == (), "no card is offered anew"
    leaving = card(mps=MpsDaemon(pool=make.POOL, phase="Stopping"))
    assert decide.writes([leaving], basis(make.asked(make.SHARED, 0), unknown), UNTOLD) == ()


def test_a_card_is_let_go_once_the_role_has_read_that_it_is_not_wanted() -> None:
    told = card(mps=MpsDaemon(pool=make.POOL, phase="Down", reason="not yet"))
    for asked_for, is_read in ((frozenset({"GPU-0"}), True), (frozenset[str](), False)):
        seen = NodeScan(daemons=Daemons(alive=True, asked_for=asked_for, read=is_read))
        (write,) = decide.writes([told], basis(NOT_ASKED, seen), UNTOLD)
        assert write.body["status"]["mps"]["phase"] == "Stopping"
    (write,) = decide.writes([told], basis(NOT_ASKED, NodeScan(daemons=Daemons(alive=True))), UNTOLD)
    assert write.body == {"status": {"mps": None}}


def test_what_comes_of_a_daemon_is_written_with_what_is_offered() -> None:
    (write,) = decide.writes([card(published=PUBLISHED)], basis(ASKED, scan("Down")), UNTOLD)
    down = {"pool": make.POOL, "phase": "Down", "reason": "died", "running": False}
    assert write.body == {"status": {"published": None, "mps": down}}

    told = card(mps=MpsDaemon(pool=make.POOL, phase="Down", reason="died", running=False))
    assert decide.writes([told], basis(ASKED, scan("Down")), UNTOLD) == ()
    (write,) = decide.writes([told], basis(ASKED, scan()), UNTOLD)
    assert write.body["status"]["mps"] == {"pool": make.POOL, "phase": "Ready", "reason": None, "running": True}
    (write,) = decide.writes([told], basis(NOT_ASKED, scan(None)), UNTOLD)
    assert write.body == {"status": {"mps": None}}
    (write,) = decide.writes([told], basis(ASKED, scan(alive=False)), UNTOLD)
    assert "DaemonSet gpu-mps-p does not run" in write.body["status"]["mps"]["reason"]


def test_a_daemon_is_wanted_with_the_card_and_until_nobody_can_be_on_it() -> None:
    def wanted(device: GPUDevice, asked: DesiredOffer, seen: NodeScan, *pods: Any) -> Any:
        return dict(decide.daemons([device], basis(asked, seen, *pods), NOW))

    kept, taken = replace(WANTED, keep=True), (make.held("u"),)
    assert wanted(card(), ASKED, scan(None)) == {"GPU-0": WANTED}
    assert wanted(card(published=PUBLISHED), ASKED, scan()) == {"GPU-0": kept}
    assert wanted(card(published=PUBLISHED), NOT_ASKED, scan()) == {"GPU-0": kept}
    assert wanted(card(allocations=taken), NOT_ASKED, scan()) == {"GPU-0": kept}
    assert wanted(card(reservations=(make.promise("r"),)), NOT_ASKED, scan()) == {"GPU-0": kept}
    assert wanted(card(), NOT_ASKED, scan(), make.pod("u", 1)) == {"GPU-0": kept}, "kubelet has yet to tell of it"
    assert wanted(card(), NOT_ASKED, scan()) == {}
    assert wanted(card(allocations=taken), NOT_ASKED, scan(None)) == {}
    assert wanted(make.card(0), ASKED, scan()) == {}, "it is no member"


def test_a_container_becomes_a_client_of_its_cards_daemon() -> None:
    listed = offers.listing(make.POOL, [card(published=PUBLISHED)], ASKED, scan())
    ground = AllocationContext(make.POOL, {one.id: one for one in listed})
    given = allocate.container_devices(["GPU-0::2"], ground, NodeScan(), "auto")
    assert given.environment["CUDA_MPS_PIPE_DIRECTORY"] == "/run/nvidia/mps/pipe"
    assert given.environment["NVIDIA_VISIBLE_DEVICES"] == "GPU-0"
    assert given.mounts == (
        ("/run/nvidia/mps/p/GPU-0/pipe", "/run/nvidia/mps/pipe"),
        ("/run/nvidia/mps/p/shm", "/dev/shm"),  # noqa: S108
    )
    by_cdi = allocate.container_devices(["GPU-0::2"], ground, NodeScan(), "cdi")
    assert (by_cdi.cdi, by_cdi.mounts) == (("nvidia.com/gpu=GPU-0",), given.mounts)


def test_clients_of_two_cards_in_one_container_are_refused() -> None:
    cards = [
        replace(one, metadata=ObjectMeta(name=one.name), status=replace(one.status, published=OFFER.of(make.name(n))))
        for n, one in ((0, make.card(0)), (1, make.card(1)))
    ]
    states = {f"GPU-{n}": DaemonState("Ready", OFFER.of(make.name(n)).config_version) for n in range(2)}
    seen = NodeScan(daemons=Daemons(alive=True, cards=MappingProxyType(states)))
    listed = offers.listing(make.POOL, cards, make.asked(OFFER, 0, 1), seen)
    ground = AllocationContext(make.POOL, {one.id: one for one in listed})
    with pytest.raises(Refused, match="clients of 2 cards of pool p"):
        allocate.container_devices(["GPU-0::0", "GPU-1::0"], ground, seen, "auto")
