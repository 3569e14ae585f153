"""What the module relies on in NVIDIA's own programs: the digest, the lock, the files that say how far they are, and
the order in which modules go. They run as they are; skipped where their source is not at hand."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from controllers.api.meta import ObjectMeta
from controllers.domain.driver import files
from controllers.driver.node import pod
from controllers.driver.pods.container_names import DRIVER
from controllers.driver.pods.inputs import script
from controllers.driver.records import ContainerState, ContainerStatus, DriverPodStatus, Pod, Terminated
from nodeagent.driver.decide import Wanted
from nodeagent.driver.kernel import lock
from nodeagent.driver.prepare import Preparation
from nodeagent.host.paths import HostPaths
from tests.driver.contract.sandbox import SECONDS, VERSION, Sandbox, can_enter, source
from tests.nodeagent.driver.node import Time

COMPILED, PRECOMPILED = "ubuntu24.04/nvidia-driver", "ubuntu24.04/precompiled/nvidia-driver"
READ = {
    COMPILED: "589fd9ef10e6b91425aa01910a737b681c471cab5f5be602c7682cd13497d9e1",
    PRECOMPILED: "3b28b9a2e65bd42d1379d5c938bae3f0595f0180a2650c400eb37ad3ee5182b3",
}
"""sha256 of what was read last: commit 06a208ca9747c82b1ba99b76ecdcf2469b0a0207 of 2026-08-17."""
FIRST, SECOND = "1111111111-ubuntu24.04-any", "2222222222-ubuntu24.04-any"
KERNEL_CALLS = ("modprobe", "rmmod")
REFUSAL = "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service"
REFUSES = f"""case "$*" in *nvidia*) echo "{REFUSAL}" >&2; exit 1;; esac"""
LOG_BYTES = 2048
"""Of a container's log that kubelet takes for its message."""
UNLOADED = ["rmmod nvidia-modeset nvidia-uvm nvidia"]


@pytest.fixture
def sandbox(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    program = source(getattr(request, "param", COMPILED))
    if why := can_enter(tmp_path):
        pytest.skip(why)
    made = Sandbox(tmp_path / "root", program)
    yield made
    made.close()


precompiled = pytest.mark.parametrize("sandbox", [PRECOMPILED], indirect=True)
both = pytest.mark.parametrize("sandbox", [COMPILED, PRECOMPILED], indirect=True)


def relative(path: str) -> str:
    return path.lstrip("/")


@pytest.mark.parametrize("path", sorted(READ))
def test_the_programs_are_those_that_were_read(path: str) -> None:
    """Where this fails, NVIDIA has changed one: read what changed, run the other tests, and note its digest here."""
    assert hashlib.sha256(source(path).encode()).hexdigest() == READ[path]


@both
def test_a_first_start_loads_the_modules_and_locks_its_file(sandbox: Sandbox) -> None:
    child = sandbox.start(FIRST)
    sandbox.serves(child)
    assert sandbox.modules() == {"nvidia", "nvidia_uvm", "nvidia_modeset"}
    assert [call for call in sandbox.calls(*KERNEL_CALLS) if "nvidia" in call] == [
        "modprobe nvidia",
        "modprobe nvidia-uvm",
        "modprobe nvidia-modeset",
    ]
    assert sandbox.has(relative(f"{files.ROOT}/usr")), "its root is mounted"
    with lock(sandbox.root / relative(files.LOCK)) as had:
        assert not had


def test_where_it_compiles_it_notes_digest_and_daemons(sandbox: Sandbox) -> None:
    sandbox.serves(sandbox.start(FIRST))
    assert sandbox.text(relative(files.STATE)) == FIRST
    assert sandbox.text(relative(files.DAEMONS)) == "Ready"


@precompiled
def test_where_it_does_not_compile_it_notes_neither(sandbox: Sandbox) -> None:
    """So the module has a mark of its own, and asks for daemons only where something is said of them."""
    sandbox.serves(sandbox.start(FIRST))
    assert not sandbox.has(relative(files.STATE))
    assert not sandbox.has(relative(files.DAEMONS))


def test_the_same_digest_again_touches_no_module(sandbox: Sandbox) -> None:
    child = sandbox.start(FIRST)
    sandbox.serves(child)
    sandbox.kill(child)
    sandbox.calls()
    sandbox.write("sys/module/nvidia_uvm/refcnt", "1")
    sandbox.serves(sandbox.start(FIRST))
    assert sandbox.calls(*KERNEL_CALLS) == []
    assert sandbox.text(relative(files.DAEMONS)) == "Ready"


@both
def test_another_digest_unloads_in_one_order(sandbox: Sandbox) -> None:
    child = sandbox.start(FIRST)
    sandbox.serves(child)
    sandbox.kill(child)
    sandbox.calls()
    sandbox.serves(sandbox.start(SECOND))
    assert sandbox.calls("rmmod") == UNLOADED


@both
def test_modules_in_use_end_it_only_after_the_daemons_were_stopped(sandbox: Sandbox) -> None:
    """Why a wrapper looks first: jobs on machines with NVSwitch need the daemons."""
    child = sandbox.start(FIRST)
    sandbox.serves(child)
    daemon = int(sandbox.text("run/nvidia-persistenced/nvidia-persistenced.pid"))
    sandbox.write("sys/module/nvidia_uvm/refcnt", "1")
    sandbox.write("sys/module/nvidia/refcnt", "3")
    (sandbox.root / relative(files.LOCK)).unlink()
    code, said = sandbox.ended(sandbox.start(SECOND))
    assert (code, "driver is in use" in said) == (1, True)
    assert not Path(f"/proc/{daemon}/root").exists() or "Z" in Path(f"/proc/{daemon}/stat").read_text()
    assert sandbox.modules() == {"nvidia", "nvidia_uvm", "nvidia_modeset"}


@both
def test_its_end_unloads_and_frees_its_file(sandbox: Sandbox) -> None:
    child = sandbox.start(FIRST)
    sandbox.serves(child)
    sandbox.calls()
    sandbox.stop()
    sandbox.ended(child)
    assert (sandbox.calls("rmmod"), sandbox.modules()) == (UNLOADED, set())
    assert not sandbox.has(relative(files.LOCK))
    assert not sandbox.has(relative(f"{files.ROOT}/usr"))


@both
def test_its_end_is_refused_while_somebody_computes(sandbox: Sandbox) -> None:
    child = sandbox.start(FIRST)
    sandbox.serves(child)
    sandbox.write("sys/module/nvidia_uvm/refcnt", "1")
    sandbox.write("sys/module/nvidia/refcnt", "3")
    sandbox.stop()
    assert child.stdout is not None
    assert any("driver is in use" in line for line in child.stdout)
    assert child.poll() is None
    assert sandbox.modules() == {"nvidia", "nvidia_uvm", "nvidia_modeset"}


@pytest.mark.parametrize(
    ("sandbox", "program", "does", "reason"),
    [
        (
            COMPILED,
            "apt-get",
            'echo "E: Failed to fetch http://mirror/noble/InRelease" >&2; exit 100',
            "RepositoryUnreachable",
        ),
        (COMPILED, "apt-cache", "true", "HeadersMissing"),
    ],
    indirect=["sandbox"],
)
def test_its_last_words_are_understood(sandbox: Sandbox, program: str, does: str, reason: str) -> None:
    """As kubelet keeps them: the end of what it wrote."""
    sandbox.stub(program, does)
    code, said = sandbox.ended(sandbox.start(FIRST))
    assert code != 0
    ended = Terminated(exit_code=code, reason="Error", message=said[-LOG_BYTES:])
    status = ContainerStatus(name=DRIVER, restart_count=2, last_state=ContainerState(terminated=ended))
    found = pod.outcome(Pod(metadata=ObjectMeta(name="x"), status=DriverPodStatus(container_statuses=(status,))))
    assert found.reason == reason


@both
def test_it_goes_on_to_its_end_though_the_kernel_refuses_its_modules(
    sandbox: Sandbox, request: pytest.FixtureRequest
) -> None:
    """So the start-up probe ends it, with the kernel's words; else nobody would hear of it for 20 minutes."""
    mode = "Precompiled" if request.node.callspec.params["sandbox"] == PRECOMPILED else "Compiled"
    sandbox.stub("modprobe", REFUSES)
    child = sandbox.start(FIRST)
    sandbox.serves(child)
    assert sandbox.modules() == set()
    assert sandbox.has(relative(f"{files.ROOT}/usr"))
    assert probe(sandbox, mode, REFUSES) == 1
    assert child.wait(timeout=SECONDS) != 0
    assert REFUSAL in sandbox.text("tmp/termination-log")


@both
def test_a_second_one_does_not_start_beside_the_first(sandbox: Sandbox) -> None:
    sandbox.serves(sandbox.start(FIRST))
    code, said = sandbox.ended(sandbox.start(SECOND))
    assert (code, "already running" in said) == (1, True)


@both
def test_what_it_leaves_passes_the_modules_own_start_up_probe(sandbox: Sandbox, request: pytest.FixtureRequest) -> None:
    mode = "Precompiled" if request.node.callspec.params["sandbox"] == PRECOMPILED else "Compiled"
    assert probe(sandbox, mode) == 1
    sandbox.serves(sandbox.start(FIRST))
    assert probe(sandbox, mode) == 0
    assert sandbox.text(relative(files.MARK)) == FIRST
    assert sandbox.has(relative(files.READY))


def probe(sandbox: Sandbox, mode: str, modprobe: str = "exit 1") -> int:
    """The module's own start-up probe, beside the program."""
    programs = sandbox.root.parent / "programs"
    programs.mkdir(exist_ok=True)
    for name, does in (("nvidia-smi", "exit 0"), ("modprobe", modprobe)):
        (programs / name).write_text(f"#!/bin/bash\n{does}\n")
        (programs / name).chmod(0o755)
    text = script("started")
    for place in (files.RUN, "/sys/module"):
        text = text.replace(place, str(sandbox.root / relative(place)))
    text = text.replace("/dev/termination-log", str(sandbox.root / "tmp/termination-log"))
    env = {"PATH": f"{programs}:{os.environ['PATH']}", "DRIVER_MODE": mode, "DRIVER_CONFIG_DIGEST": FIRST}
    return subprocess.run(["bash", "-c", text], env=env, check=False, capture_output=True).returncode


@both
def test_prepare_reads_what_it_left(sandbox: Sandbox, request: pytest.FixtureRequest) -> None:
    """Compiled modules of the same digest stay; what is not known to be the same goes when nobody uses it."""
    compiled = request.node.callspec.params["sandbox"] == COMPILED
    child = sandbox.start(FIRST)
    sandbox.serves(child)
    sandbox.kill(child)
    assert prepared(sandbox, FIRST, compiled=compiled) == ("FastPath" if compiled else "Clean")
    assert prepared(sandbox, SECOND, compiled=compiled) == "Clean"
    assert sandbox.modules() == set()
    assert not sandbox.has(relative(files.STATE))


def prepared(sandbox: Sandbox, digest: str, *, compiled: bool) -> str:
    """By the agent's own code; the kernel is the sandbox's `rmmod`."""
    where = HostPaths(sandbox.root / "sys", sandbox.root / "made-up-proc", sandbox.root / "made-up-root")
    wanted, time = Wanted(digest, compiled, VERSION), Time()
    return Preparation(where, sandbox.root / relative(files.RUN), wanted, Rmmod(sandbox), time.clock)().result


class Rmmod:
    """What the kernel does, by files."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.modules = sandbox.root / "sys/module"

    def unload(self, module: str) -> None:
        assert (self.modules / module / "refcnt").read_text().strip() == "0"
        shutil.rmtree(self.modules / module)
        used = self.modules / "nvidia" / "holders" / module
        if used.exists():
            used.rmdir()
            file = self.modules / "nvidia" / "refcnt"
            file.write_text(f"{int(file.read_text()) - 1}\n")

    def unmount(self, path: Path) -> None:
        raise AssertionError(path)
