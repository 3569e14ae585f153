"""What is published, against the last that was; and no input that breaks a validator."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controllers.api import validation
from nodeagent.host import procfs
from nodeagent.host.facts.records import Bus, Driver, DriverCard, PciFunction
from nodeagent.host.paths import HostPaths
from nodeagent.validate.checks import cdi, report
from nodeagent.validate.checks.facts import Facts, Library, Node, Specification, Taken
from nodeagent.validate.scanner import NodeScanner

if TYPE_CHECKING:
    from pathlib import Path

VERSION = "580.1.2"
words = st.sampled_from(["", "nvidia", "nouveau", "vfio-pci", VERSION, "999.1", "open", "x", "\x00"])
addresses = st.sampled_from([f"0000:0{n}:00.0" for n in range(4)])
functions = st.builds(
    PciFunction, address=addresses, vendor=st.sampled_from(["10de", "1002"]), device=st.just("2330"),
    class_=st.sampled_from(["030200", "068000"]), driver=words, unreadable=st.sampled_from([(), ("driver",)]),
)  # fmt: skip
cards = st.builds(DriverCard, address=addresses, failed=st.sampled_from([(), ("uuid", "memory_mib"), ("product",)]))
drivers = st.none() | st.builds(Driver, version=words, cards=st.dictionaries(addresses, cards))
majors = st.sampled_from(["nvidia", "nvidia-frontend", "nvidia-uvm"])
nodes = st.sampled_from(["nvidiactl", "nvidia0", "nvidia1", "nvidia-uvm"])
numbers = st.none() | st.integers(0, 300)
found = st.builds(
    Facts,
    bus=st.none() | st.builds(Bus, st.lists(functions, unique_by=lambda f: f.address).map(tuple)),
    nouveau=st.booleans(), module=drivers, form=words,
    taken=st.dictionaries(addresses, st.builds(Taken, minor=numbers, excluded=st.booleans())),
    majors=st.none() | st.dictionaries(majors, st.integers(0, 511)),
    libraries=st.none()
    | st.dictionaries(
        st.sampled_from(["libcuda.so", "libnvidia-ml.so"]),
        st.builds(Library, st.lists(words).map(tuple), words),
    ),
    nodes=st.none()
    | st.dictionaries(nodes, st.builds(Node, numbers, numbers)),
    firmware=st.none() | st.booleans(), driver=drivers, unavailable_reason=words, pending=st.booleans(),
    specification=st.none()
    | st.builds(Specification, st.lists(words).map(tuple), st.lists(words).map(tuple), st.frozensets(st.integers(0, 3)),
                st.frozensets(words)),
    by_cdi=st.booleans(), handler=st.none() | words, boot_id=words,
)  # fmt: skip


@pytest.mark.parametrize("role", validation.ROLES)
@given(facts=found)
def test_whatever_is_found_has_a_verdict_and_a_sentence(role: str, facts: Facts) -> None:
    verdict = report.evaluate(role, facts)
    told = report.attributes(role, facts, verdict)
    assert told[role] in {"ok", "failed", "unknown"}
    assert all(isinstance(value, str) and value for value in told.values())
    assert told == validation.of_role(told, role)
    assert not set(verdict.passed) & set(verdict.failed)
    if told[role] == "ok":
        assert set(verdict.passed) | set(verdict.failed) >= set(facts.held)
        assert verdict.passed
    else:
        assert told[f"{role}.reason"]
        assert told[f"{role}.message"]
        assert told[f"{role}.cards"] == "0"
    assert report.attributes(role, facts, report.evaluate(role, facts)) == told


@given(st.dictionaries(st.text(max_size=8), st.none() | st.text() | st.binary().map(lambda b: b.decode("latin-1"))))
def test_no_specification_breaks_the_reader(files: dict[str, str | None]) -> None:
    made = cdi.read(files)
    assert set(made.files) | set(made.broken) <= set(files)


leaves = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just("/dev/nvidia3")
keys = st.sampled_from(["kind", "devices", "containerEdits", "deviceNodes", "mounts", "path", "hostPath"])
trees = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4))


@given(trees)
def test_no_shape_of_a_specification_breaks_the_reader(tree: Any) -> None:
    import json

    made = cdi.read({"a": json.dumps({"kind": "nvidia.com/gpu", "devices": [tree], "containerEdits": tree})})
    assert made.minors <= {3}


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=60, deadline=None
)
@given(text=st.binary(max_size=80), line=st.sampled_from(["Device Minor: 3", "GPU Excluded: Yes", "Device Minor: -1"]))
def test_garbage_in_procfs_is_no_fact(tmp_path: Path, text: bytes, line: str) -> None:
    card = tmp_path / "driver" / "nvidia" / "gpus" / "0000:01:00.0"
    card.mkdir(parents=True, exist_ok=True)
    (card / "information").write_bytes(text + b"\n" + line.encode() + b"\n")
    for name in ("devices", "driver/nvidia/version"):
        (tmp_path / name).write_bytes(text)
    assert set(procfs.information(tmp_path)) == {"0000:01:00.0"}
    assert procfs.form(tmp_path) in {"", "open", "proprietary"}
    assert all(0 <= number <= 9999 for number in (procfs.majors(tmp_path) or {}).values())
    facts = NodeScanner("container", HostPaths(tmp_path / "sys", tmp_path, tmp_path), None, tmp_path, {})._files()  # type: ignore[arg-type]
    assert report.evaluate("container", facts).result in {"failed", "unknown"}


def test_the_two_modules_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "driver" / "nvidia").mkdir(parents=True)
    file = tmp_path / "driver" / "nvidia" / "version"
    file.write_text("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (x@y)\n")
    assert procfs.form(tmp_path) == "open"
    file.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\n")
    assert procfs.form(tmp_path) == "proprietary"


def said(result: str, **more: str) -> dict[str, str]:
    return {"driver": result, "driver.boot_id": "b", "driver.version": "1"} | {
        f"driver.{k}": v for k, v in more.items()
    }


def test_a_look_that_cannot_tell_leaves_ok_standing_until_the_third() -> None:
    good, blind, silent, seen = said("ok", cards="8"), said("unknown"), 0, []
    last = good
    for _ in range(4):
        last, silent = report.debounce("driver", last, blind, silent)
        seen.append(last["driver"])
    assert seen == ["ok", "ok", "unknown", "unknown"]


def test_a_good_look_in_between_begins_the_count_anew() -> None:
    good, silent = said("ok"), 0
    for new in (said("unknown"), said("unknown"), said("ok"), said("unknown"), said("unknown")):
        last, silent = report.debounce("driver", good, new, silent)
        assert last["driver"] == "ok"


@pytest.mark.parametrize("new", [said("failed"), said("unknown", boot_id="c"), said("unknown", version="2")])
def test_a_failure_counts_at_once_and_nothing_is_bridged_over_a_reboot(new: dict[str, str]) -> None:
    assert report.debounce("driver", said("ok"), new, 0) == (new, 0)


def test_a_card_of_another_vendor_is_not_ours() -> None:
    card = PciFunction("0000:01:00.0", "1002", "74a1", "120000", driver="amdgpu")
    assert Facts(bus=Bus((card,))).cards == ()
    ours = replace(card, vendor="10de", device="2330", class_="030200", driver="nvidia")
    assert Facts(bus=Bus((ours,))).held == ("0000:01:00.0",)


def test_a_reader_gets_what_was_written_and_doubts_the_rest() -> None:
    assert validation.read({}, "driver") is None
    assert validation.read({"container": "ok"}, "driver") is None
    read = validation.read({"driver": "fine", "driver.cards": "many", "driver.cards_failed": ""}, "driver")
    assert read == validation.Validation(result="unknown")
