"""Driver pods and check pods on a real kubelet, with images that carry a stub of NVIDIA's program.

What is real: kubelet, containerd, the DaemonSet's controller, the pods as the module builds them, bash, the node agent.
What is played: modules, as files in place of /sys, and the program that loads them.
"""

from __future__ import annotations

import os
import platform
import signal
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from controllers.api import names
from controllers.api.driver_look import DONE, WAIT, Look, Prepared
from controllers.api.driver_look import NODE as NODES_FAULT
from controllers.api.meta import ObjectMeta
from controllers.api.record import adapter
from controllers.domain.driver import files
from controllers.domain.driver.choice import Install
from controllers.domain.driver.variant import Variant
from controllers.driver.node import look as looks
from controllers.driver.node import pod as outcomes
from controllers.driver.pods import build, checks
from controllers.driver.pods.container_names import DRIVER, IMAGE, LOOK, PREPARE
from controllers.driver.records import Pod
from sim.realnode.registry import Registry
from tests.driver.pods.make import driver
from tests.e2e import images
from tests.e2e.bed import NODE, ended
from tests.e2e.driverbed import RUN, DriverBed, end_of
from tools.programs import for_stream

pytestmark = pytest.mark.e2e
VERSION = "580.178.04"
SPEC = driver()
SECONDS = 120.0


def choice(revision: str, *, image: str = images.DRIVER, compiled: bool = True) -> Install:
    kernel = "" if compiled else platform.release()
    return Install(Variant(revision, "ubuntu24.04", kernel), "Compiled" if compiled else "Precompiled", image, VERSION)


ONE, TWO = choice("1111111111"), choice("2222222222")


@pytest.fixture(scope="module")
def machine(place: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DriverBed]:
    if any(not path.is_dir() for path in RUN.rglob("*")):  # kubelet leaves the folders that pods of ours mount
        pytest.skip(f"this machine has a driver of its own: there are files in {RUN}")
    DriverBed.sweep()  # such folders, of a run before
    try:
        with ended(place):
            yield DriverBed(place, tmp_path_factory.mktemp("images") / "driver.tar", for_stream())
    finally:
        DriverBed.sweep()  # last: until it has ended, a kubelet makes the folders of its pods' mounts again


@pytest.fixture
def bed(machine: DriverBed) -> Iterator[DriverBed]:
    """A node with no driver, and none when the test ends."""
    machine.host = Path("/")
    yield machine
    machine.label(None)
    for one in (ONE, TWO):
        machine.delete("daemonset", one.variant.object_name)
        until(lambda one=one: not machine.pods(one.variant.value), "pods do not go")  # type: ignore[misc]
    machine.reboot()


def until(true: Callable[[], Any], why: str, seconds: float = SECONDS) -> None:
    """Ask kubelet's word in the API server again and again."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, why
        time.sleep(0.2)


def bring(bed: DriverBed, one: Install) -> None:
    """The DaemonSet as the module builds it, and the node's label."""
    made = build.daemonset(SPEC, one, images.AGENT)
    made["spec"]["template"]["spec"] = bed.here(made["spec"]["template"]["spec"])
    meta = {**made["metadata"], "name": one.variant.object_name, "namespace": names.NAMESPACE}
    bed.apply({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": meta, "spec": made["spec"]})
    bed.label(one.variant.value)


def the_pod(bed: DriverBed, one: Install) -> Pod:
    found = bed.pods(one.variant.value)
    return found[0] if found else Pod(metadata=ObjectMeta(name=""))


def serves(bed: DriverBed, one: Install) -> Pod:
    until(lambda: the_pod(bed, one).ready, "the driver does not serve")
    return the_pod(bed, one)


def prepared(pod: Pod) -> tuple[int, Prepared]:
    code, message = end_of(pod.container(PREPARE)) or (0, "")
    return code, adapter(Prepared).validate_json(message)


def process_of(container_id: str) -> int:
    """The first process of a container: the one whose parent is in none of its own."""
    name = container_id.rpartition("/")[2]
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if name in (folder / "cgroup").read_text():
                found.append(int(folder.name))
    return min(found)


def test_a_check_says_what_is_on_the_node_and_changes_nothing(bed: DriverBed) -> None:
    pod = check(bed, ONE)
    code, message = end_of(pod.container(LOOK)) or (-1, "")
    assert code == DONE, str(pod.status)
    found = adapter(Look).validate_json(message)
    assert (found.kernel, found.gpus, found.host_driver) == (platform.release(), 4, "")
    assert found.boot_id
    assert found.free_mib, "by the mounts that containerd gave the container"
    assert end_of(pod.container(IMAGE)) == (DONE, "")
    assert not list(RUN.glob("*"))


def check(bed: DriverBed, one: Install, spec: Any = SPEC, done: Callable[[Pod], object] | None = None) -> Pod:
    """Run a check pod until it is done, and delete it."""
    name = checks.check_name(NODE, one)
    made = checks.check_pod(spec, NODE, one, images.AGENT)
    meta = {"name": name, "namespace": names.NAMESPACE, "labels": made["metadata"]["labels"]}
    bed.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": bed.here(made["spec"])})
    until(lambda: (done or (lambda pod: pod.finished))(the_pod(bed, one)), f"no end of {name}")
    found = the_pod(bed, one)
    bed.delete("pod", name)
    return found


def test_an_image_that_no_registry_has_is_told_and_the_node_is_looked_at_all_the_same(bed: DriverBed) -> None:
    registry = Registry()
    try:
        missing = choice("3333333333", image=f"{registry.name}/nvidia/driver:580.178.04-ubuntu24.04")

        def told(pod: Pod) -> bool:
            return bool(looks.verdict(pod, missing, SPEC.spec, NODE).reason) and bool(end_of(pod.container(LOOK)))

        pod = check(bed, missing, done=told)
        assert looks.verdict(pod, missing, SPEC.spec, NODE).reason == "ImageMissing"
        code, message = end_of(pod.container(LOOK)) or (-1, "")
        assert (code, adapter(Look).validate_json(message).gpus) == (DONE, 4)
    finally:
        registry.close()


@pytest.mark.parametrize("spec", [{"build": {"secretEnv": "nobody"}}, {"licensing": {"secretName": "nobody"}}])
def test_a_secret_that_is_not_there_is_told_before_anything_starts(bed: DriverBed, spec: dict[str, Any]) -> None:
    wants = driver(**spec)

    def told(pod: Pod) -> bool:
        return bool(looks.verdict(pod, ONE, wants.spec, NODE).reason)

    pod = check(bed, ONE, wants, told)
    verdict = looks.verdict(pod, ONE, wants.spec, NODE)
    assert (verdict.reason, "nobody" in verdict.message) == ("SecretMissing", True)


def test_a_driver_comes_onto_a_bare_node_and_says_when_it_serves(bed: DriverBed) -> None:
    bring(bed, ONE)
    pod = serves(bed, ONE)
    code, said = prepared(pod)
    assert (code, said.result) == (DONE, "Clean")
    assert Path(files.MARK).read_text().strip() == ONE.variant.value
    assert "GDS_ENABLED: false" in Path(files.READY).read_text()
    assert (Path(files.ROOT) / "usr").is_dir(), "what the container mounts is the host's as well"
    assert bed.started() == [ONE.variant.value]
    bed.label(None)
    until(lambda: not bed.pods(ONE.variant.value), "the pod stays")
    assert not Path(files.MARK).exists(), "it has taken its word back"
    assert not Path(files.READY).exists()


@pytest.mark.slow("three containers of a driver, each of which kubelet has to start and to ask whether it serves")
def test_a_driver_whose_container_dies_under_a_pod_that_computes_holds_and_is_mended_when_it_has_ended(
    bed: DriverBed,
) -> None:
    bring(bed, ONE)
    pod = serves(bed, ONE)
    bed.module("nvidia_uvm", 1)
    os.kill(process_of(bed.raw(pod.name, DRIVER)["containerID"]), signal.SIGKILL)
    until(lambda: bed.raw(pod.name, DRIVER).get("restartCount") == 1, "the container is not started again")
    until(lambda: Path(files.HOLD).exists(), "it does not hold")
    until(lambda: bed.raw(pod.name, DRIVER)["started"], "it does not count as started")
    until(lambda: not the_pod(bed, ONE).ready, "it counts as serving")
    assert bed.started() == [ONE.variant.value], "NVIDIA's program was not started a second time"
    assert bed.raw(pod.name, DRIVER)["ready"] is False
    assert (bed.modules / "nvidia_uvm/refcnt").read_text().strip() == "1"

    bed.delete("pod", pod.name)  # by mistake, while the pod still computes
    until(lambda: the_pod(bed, ONE).name not in ("", pod.name), "no pod follows")
    until(lambda: (bed.raw(the_pod(bed, ONE).name, DRIVER) or {}).get("started"), "it does not start")
    code, said = prepared(the_pod(bed, ONE))
    assert (code, said.result) == (DONE, "FastPath")
    assert bed.started() == [ONE.variant.value], "still nobody was disturbed"

    bed.module("nvidia_uvm", 0)
    bed.delete("pod", the_pod(bed, ONE).name)
    until(lambda: len(bed.started()) == 2, "it is not mended")
    serves(bed, ONE)
    assert not Path(files.HOLD).exists()


@pytest.fixture
def card(bed: DriverBed) -> Iterator[int]:
    """A card that this process has open."""
    path = Path("/dev/nvidia0")
    if path.exists():
        pytest.skip("this machine has a card")
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    opened = os.open(path, os.O_RDONLY)
    yield opened
    with suppress(OSError):
        os.close(opened)
    path.unlink()


@pytest.mark.slow("prepare waits a minute for who looks at a card for a moment")
def test_who_has_a_card_open_is_named_and_nothing_is_begun_until_it_is_closed(bed: DriverBed, card: int) -> None:
    bed.module("nvidia", 1)
    bring(bed, TWO)
    until(lambda: end_of(the_pod(bed, TWO).container(PREPARE)), "prepare does not end")
    code, said = prepared(the_pod(bed, TWO))
    assert (code, said.reason) == (WAIT, "DevicesHeld")
    assert str(os.getpid()) in said.message
    found = outcomes.outcome(the_pod(bed, TWO))
    assert (found.reason, found.fault) == ("DevicesHeld", None), "it may yet pass"
    assert bed.started() == []
    os.close(card)
    bed.reboot()
    serves(bed, TWO)


def test_a_host_with_a_driver_of_its_own_keeps_it(bed: DriverBed) -> None:
    bed.host = bed.other / "root"
    library = bed.host / "usr/lib64/libnvidia-ml.so.1"
    library.parent.mkdir(parents=True, exist_ok=True)
    library.touch()
    bed.module("nvidia")
    bring(bed, TWO)
    until(lambda: end_of(the_pod(bed, TWO).container(PREPARE)), "prepare does not end")
    code, said = prepared(the_pod(bed, TWO))
    assert (code, said.reason) == (NODES_FAULT, "HostDriver")
    assert bed.started() == []


def test_a_kernel_that_refuses_the_module_is_told_by_the_last_words_of_the_driver(bed: DriverBed) -> None:
    (bed.modules / "refuses").touch()
    bring(bed, TWO)
    until(lambda: outcomes.outcome(the_pod(bed, TWO)).fault, "it does not count as failed")
    found = outcomes.outcome(the_pod(bed, TWO))
    assert (found.reason, found.fault) == ("ModuleLoad", "revision")
    assert "could not insert" in found.message
