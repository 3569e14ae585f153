"""Whatever a node says and a person writes: an answer comes, fits where it is written, and is the same each time."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controllers.api import reasons
from controllers.api.image_reference import split_reference
from controllers.api.system_facts import SystemFacts
from controllers.domain.driver.choice import Blocked, Host, Install
from controllers.domain.driver.images import choose
from controllers.domain.driver.node import Card, DriverNode
from controllers.domain.driver.systems import SYSTEM, system_of
from controllers.domain.driver.variant import Modules, Variant
from tests.domain.driver.make import REVISION, spec

LABEL = re.compile(r"[a-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
KERNELS = (
    "6.8.0-71-generic",
    "6.8.0-" + "7" * 200 + "-generic",
    "5.15.0-160-nvidia",
    "7.0.0-14-azure-fde",
    "6.11.0-9-generic",
    "5.14.0-570.el9.x86_64",
)
texts = st.text(max_size=300)
systems = st.builds(
    system_of,
    st.sampled_from(("ubuntu", "rhel", "rocky", "ol", "debian", "astra", "")) | texts,
    st.sampled_from(("22.04", "24.04", "26.04", "9.6", "12", "")) | texts,
)
kernels = st.sampled_from(KERNELS) | st.text(max_size=253)
cards = st.lists(
    st.builds(
        Card,
        st.sampled_from(("2330", "2342", "2901", "1db4", "ffff")),
        st.none() | st.tuples(st.integers(0, 13), st.integers(0, 9)),
        st.frozensets(st.text(max_size=64), max_size=2),
    ),
    max_size=4,
).map(tuple)
overrides = st.lists(
    st.fixed_dictionaries(
        {"system": systems.filter(bool), "kernel": st.sampled_from(("*", "6.*", *KERNELS)), "image": st.just("r/d:1")}
    ),
    max_size=3,
)
specs = st.fixed_dictionaries(
    {
        "version": st.sampled_from(("580", "580.178.04", "595.91.07", "470.256.02", "610")),
        "mode": st.sampled_from(("Auto", "Host", "Precompiled", "Compiled")),
        "flavour": st.sampled_from(("Auto", "Open", "Proprietary")),
        "type": st.sampled_from(("Datacenter", "VGPUGuest")),
        "image": overrides.map(lambda found: {"overrides": found}),
    }
)


@st.composite
def nodes(draw: Any) -> DriverNode:
    kernel = draw(kernels)
    facts = SystemFacts(
        system=draw(systems),
        kernel=draw(st.just(kernel) | st.just("")),
        secure_boot=draw(st.none() | st.booleans()),
        lockdown=draw(st.sampled_from(("", "none", "integrity"))),
        driver_source=draw(st.sampled_from(("", "host", "container"))),
    )
    elsewhere = draw(st.sampled_from(("", "", "another operator")))
    return DriverNode(kernel, draw(st.none() | st.just(facts)), draw(cards), {}, elsewhere)


@given(specs, nodes(), st.sets(st.sampled_from(("r/d:1",))))
def test_every_node_gets_an_answer_that_can_be_written(
    wanted: dict[str, Any], node: DriverNode, missing: set[str]
) -> None:
    made = spec(**wanted)
    found = choose(made, REVISION, node, missing)

    assert found == choose(made, REVISION, node, missing)
    if isinstance(found, Install):
        assert len(found.variant.value) <= 63
        assert LABEL.fullmatch(found.variant.value)
        tag = split_reference(found.image)[1]
        assert tag is not None
        assert TAG.fullmatch(tag)
        assert found.image not in missing
        assert made.mode in (found.mode, "Auto")
        assert node.facts is None or node.facts.driver_source != "host"
    if isinstance(found, Blocked):
        row = reasons.find("driver", "Blocked", "True", found.reason)
        assert row is not None
        assert found.message[0].islower() or found.message[0].isupper()
    if made.mode == "Host":
        assert isinstance(found, Host)


@given(st.text(max_size=80), st.text(max_size=80))
def test_a_system_is_a_word_of_a_label_or_nothing(os_id: str, version: str) -> None:
    system = system_of(os_id, version)

    assert system == "" or (LABEL.fullmatch(system) and len(system) <= 63)


words = st.text("abz019._-", min_size=1, max_size=63).filter(SYSTEM.fullmatch) | systems.filter(bool)


@given(words, st.just("") | kernels, st.sampled_from(("Open", "Proprietary")))
def test_a_variant_is_a_labels_value_and_its_objects_have_a_name_that_the_api_server_takes(
    system: str, kernel: str, modules: Modules
) -> None:
    made = Variant(REVISION, system, kernel, modules)

    assert LABEL.fullmatch(made.value)
    assert len(made.value) <= 63
    assert all(DNS_LABEL.fullmatch(one) for one in made.object_name.split("."))
    assert made.object_name == f"gpu-driver-{made.value}", "readers of the label go by that"
