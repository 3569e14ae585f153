"""A revision changes with what would run on a node, and with nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.domain.driver.revision import config_maps_of, revision
from tests.domain.driver.make import spec

MAPS = {"apt": {"local.list": "deb http://a b main"}, "ca": {"ca.crt": "A"}}
NAMED = {"build": {"repositories": {"configMap": "apt"}, "certificates": {"configMap": "ca"}}}
OVERRIDE = {"system": "rhel9", "image": "r/d:1"}
SAME: dict[str, dict[str, Any]] = {
    "who gets it": {"target": {"nodeSelector": {"matchLabels": {"a": "b"}}}},
    "its priority": {"priority": 5},
    "how it comes": {"rollout": {"strategy": "Drain", "paused": True}},
    "what it may use": {"resources": {"requests": {"cpu": "1"}}},
    "a mode, which chooses the image": {"mode": "Compiled"},
    "how the image is pulled": {"image": {"pullPolicy": "Always", "pullSecrets": ["x"]}},
    "defaults that are written out": {"flavour": "Auto", "image": {"repository": "nvcr.io/nvidia"}, "rdma": {}},
    "modules without parameters": {"kernelModules": {"nvidia": {}}},
}
OTHER: dict[str, dict[str, Any]] = {
    "version": {"version": "580.178.05"},
    "type": {"type": "VGPUGuest"},
    "flavour": {"flavour": "Open"},
    "parameters": {"kernelModules": {"nvidia": {"NVreg_X": "1"}}},
    "an override": {"image": {"overrides": [OVERRIDE]}},
    "where images are": {"image": {"repository": "r.example"}},
    "rdma": {"rdma": {"enabled": True}},
    "gds": {"gds": {"enabled": True, "image": "r/fs", "version": "1"}},
    "gdrcopy": {"gdrcopy": {"enabled": True, "image": "r/gdr", "version": "1"}},
    "fabric manager": {"fabricManager": {"config": {"LOG_LEVEL": "4"}}},
    "a proxy, without which nothing is compiled": {"build": {"proxy": {"http": "http://p"}}},
    "a Secret's name": {"build": {"secretEnv": "s"}},
    "a ConfigMap's name": {"build": {"repositories": {"configMap": "apt"}}},
    "a word that asks for it": {"rolloutNonce": "2"},
}


@pytest.mark.parametrize("what", SAME)
def test_it_stays_with(what: str) -> None:
    assert revision(spec(**SAME[what]), {}) == revision(spec(), {})


def test_it_changes_with_each_thing_that_would_run_differently() -> None:
    made = [revision(spec(**({"version": "580.178.04"} | change)), MAPS) for change in OTHER.values()]

    assert len({revision(spec(), MAPS), *made}) == len(OTHER) + 1


def test_it_has_the_content_of_config_maps_not_their_names_alone() -> None:
    """GPU Operator hashes the names, so that an edit never rolls out."""
    edited = MAPS | {"apt": {"local.list": "deb http://c d main"}}
    first = revision(spec(**NAMED), MAPS)

    assert revision(spec(**NAMED), edited) != first
    assert revision(spec(**NAMED), {"ca": MAPS["ca"], "apt": MAPS["apt"], "else": {"x": "y"}}) == first
    assert config_maps_of(spec(**NAMED)) == ("apt", "ca")
    assert config_maps_of(spec()) == ()


def test_orders_that_mean_nothing_change_nothing() -> None:
    one = spec(kernelModules={"nvidia": {"a": "1", "b": "2"}, "nvidia-uvm": {"c": "3"}})
    other = spec(kernelModules={"nvidia-uvm": {"c": "3"}, "nvidia": {"b": "2", "a": "1"}})
    twice = [OVERRIDE, OVERRIDE | {"kernel": "5*"}]

    assert revision(one, {}) == revision(other, {})
    # The first override that fits is taken, so their order means something.
    assert revision(spec(image={"overrides": twice}), {}) != revision(spec(image={"overrides": twice[::-1]}), {})


def test_it_stays_from_version_to_version_of_the_module() -> None:
    """Another value here means that all nodes of every cluster would get their driver anew."""
    assert revision(spec(), {}) == "6b22c4990e"
    assert revision(spec(**NAMED, kernelModules={"nvidia": {"NVreg_X": "1"}}, flavour="Open"), MAPS) == "1ba55200dd"
