"""A roll-out from the change of a GPUDriver to its end, with the nodes' own plans."""

from __future__ import annotations

import pytest

from controllers.api import names
from controllers.domain.clock import stamp
from tests.driver.rollout.cluster import RolledOut
from tests.driver.world import NEXT, VERSION

BAD = (1, "modprobe: ERROR: could not insert 'nvidia': the kernel refuses it")


def passing(made: RolledOut, rounds: int = 40) -> list[list[str]]:
    """Time goes on until nobody is at work; who was out of service, each time all had settled."""
    out = []
    for _ in range(rounds):
        made.settle()
        out.append(made.out())
        if all(made.phase(name) is None for name in made.nodes()) and not made.rollout().waiting:
            return out
        made.now += 61
    raise AssertionError({name: (made.phase(name), made.rollout().waiting.get(name)) for name in made.nodes()})


@pytest.fixture
def six() -> RolledOut:
    """Six nodes of one kind."""
    made = RolledOut()
    made.fleet(6, waves=[50, 100], maxUnavailable={"nodes": "2", "perPool": "100%"})
    return made


def test_six_nodes_get_another_version_in_waves_and_nobody_else_is_touched(six: RolledOut) -> None:
    six.retarget(NEXT)
    passing(six)

    assert {six.version(name) for name in six.nodes()} == {NEXT}
    waves = [six.objects["GPUNodeInventory", name]["status"]["lastDriverWork"]["wave"] for name in six.nodes()]
    assert sorted(waves) == [0, 1, 1, 2, 2, 2]
    six.now += 90_000
    six.settle()
    assert not any(six.planned(*key).writes for key in six.all_keys())


def test_no_more_are_out_than_may_be(six: RolledOut) -> None:
    for name in six.nodes():
        six.users.add(name)  # pods stay, so that nodes stay out for a while
    six.outside()
    six.retarget(NEXT)
    most = 0
    for _ in range(40):
        six.settle()
        most = max(most, len(six.out()))
        six.now += 61
        if six.out():
            six.users.discard(six.out()[0])
            six.outside()
    assert most == 2
    passing(six, rounds=200)
    assert {six.version(name) for name in six.nodes()} == {NEXT}


def test_a_version_that_is_not_in_the_registry_is_asked_for_ever_more_seldom_and_nobody_loses_a_driver(
    six: RolledOut,
) -> None:
    six.absent = NEXT
    six.retarget(NEXT)
    tries = []
    for _ in range(5):
        six.settle()
        work = six.work("n0") or {}
        assert (work["phase"], work["reason"]) == ("Blocked", "ImageMissing")
        tries.append(work["attempt"])
        six.now += 1801
    assert tries == [1, 2, 3, 4, 5]
    assert six.told("Blocked") == ("True", "ImageMissing")
    assert {six.version(name) for name in six.nodes()} == {VERSION}
    six.settle()
    six.absent = ""
    six.now += 1
    six.merge("Node", "n0", {"metadata": {"annotations": {names.DRIVER_RETRY: "true"}}})
    passing(six)
    assert names.DRIVER_RETRY not in six.objects["Node", "n0"]["metadata"]["annotations"]
    assert {six.version(name) for name in six.nodes()} == {NEXT}


def test_a_bad_version_hits_its_canary_alone_which_goes_back(six: RolledOut) -> None:
    six.breaks[NEXT] = BAD
    six.retarget(NEXT)
    for _ in range(10):
        six.settle()
        six.now += 61

    assert [six.phase(name) for name in six.nodes()].count("RolledBack") == 1
    assert {six.version(name) for name in six.nodes()} == {VERSION}
    assert all(six.in_service(name) for name in six.nodes())
    assert set(six.rollout().waiting.values()) == {"RevisionBad"}
    assert six.told("Halted")[0] == "True"
    (halted,) = [one for one in six.status()["conditions"] if one["type"] == "Halted"]
    assert "those on which it failed get the former one back" in halted["message"]


def test_a_bad_version_that_is_mended_and_resumed_goes_on(six: RolledOut) -> None:
    six.breaks[NEXT] = BAD
    six.retarget(NEXT)
    for _ in range(10):
        six.settle()
        six.now += 61
    six.breaks = {}
    six.merge("GPUDriver", "main", {"metadata": {"annotations": {names.RESUME: "true"}}})
    passing(six)

    assert {six.version(name) for name in six.nodes()} == {NEXT}


def test_the_former_version_is_wanted_again_midway(six: RolledOut) -> None:
    six.retarget(NEXT)
    six.settle()
    assert [six.version(name) for name in six.nodes()].count(NEXT) == 1
    six.retarget(VERSION)
    passing(six)

    assert {six.version(name) for name in six.nodes()} == {VERSION}


def test_the_status_tells_waves_reasons_costs_and_when_it_ends(six: RolledOut) -> None:
    six.retarget(NEXT)
    six.settle()
    status = six.status()
    stratum = status["strata"][0]
    assert (stratum["wave"], stratum["started"], stratum["finished"]) == (0, 1, 0)
    words = [(node["phase"], node.get("reason")) for node in status["nodes"]]
    assert sorted(words, key=str) == [*[("Outdated", "AwaitingProof")] * 5, ("Soaking", None)]
    assert six.told("Progressing") == ("True", "NodesAtWork")
    assert status["state"] == "Soaking"
    assert status["eta"] > stamp(six.now)
    before = status["eta"]
    six.now += 20
    six.settle()
    assert six.status()["eta"] == before, "it does not move while nodes soak"

    passing(six)
    assert "eta" not in six.status()
    assert six.status()["strata"][0]["finished"] == 6


def test_what_nodes_were_out_for_is_told_by_the_hour(six: RolledOut) -> None:
    six.users.update(six.nodes())
    six.outside()
    six.retarget(NEXT)
    six.settle()
    six.now += 300
    six.users.clear()
    six.outside()
    passing(six)

    assert sum(one["gpuSeconds"] for one in six.status()["spent"]) >= 300


def test_a_pause_gives_nodes_back_and_ends_by_itself(six: RolledOut) -> None:
    for name in six.nodes():
        six.users.add(name)
    six.outside()
    six.retarget(NEXT)
    six.settle()
    assert len(six.out()) == 1
    until = stamp(six.now + 900)
    six.merge("GPUDriver", "main", {"metadata": {"annotations": {names.PAUSE: until}}})
    six.settle()
    assert six.out() == []
    assert {six.version(name) for name in six.nodes()} == {VERSION}

    six.users.clear()
    six.outside()
    six.now += 901
    passing(six)
    assert {six.version(name) for name in six.nodes()} == {NEXT}


def test_a_pool_narrows_the_roll_out_of_its_nodes(six: RolledOut) -> None:
    opens = stamp(six.now + 86_400 - 3600)[11:16]
    six.pool(disruption={"windows": [{"from": opens, "to": "23:59"}]})
    six.retarget(NEXT)
    six.settle()

    assert set(six.rollout().waiting.values()) <= {"AwaitingWindow", "AwaitingProof"}
    assert six.out() == []


def test_a_word_tells_the_wave(six: RolledOut) -> None:
    said = set()
    for name in six.nodes():
        six.users.add(name)  # pods stay for a while, so that nodes are seen on their way
    six.outside()
    six.retarget(NEXT)
    for _ in range(60):
        six.settle()
        said.add(six.status()["state"])
        six.now += 61
        if six.out():
            six.users.discard(six.out()[0])
            six.outside()

    assert said >= {"Rolling canary", "Rolling 1/2", "Rolling 2/2", "Ready"}
