"""The scripts around NVIDIA's program: what is in use is left alone, and what serves is said to."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from controllers.api.driver_look import NODE, Prepared
from controllers.api.record import adapter
from controllers.domain.driver import files
from controllers.driver.pods import build, checks, inputs
from nodeagent.driver.decide import in_use
from nodeagent.host.modules import KernelModule
from tests.driver.pods.make import AGENT, COMPILED, driver
from tests.driver.pods.shell import DIGEST, Shell

if TYPE_CHECKING:
    from collections.abc import Iterator

MODES = ("Compiled", "Precompiled")
KERNEL = "6.8.0-71-generic"
KERNEL_9_4 = "5.14.0-427.42.1.el9_4.x86_64"


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    made = Shell(tmp_path)
    made.program("nvidia-driver")
    made.program("nvidia-smi")
    made.program("sleep")
    made.program("umount", f"rm -r {made.path(files.ROOT)}")
    return made


def serving(shell: Shell) -> None:
    """A driver that serves, as NVIDIA's program leaves it."""
    shell.module("nvidia", 1, needed_by=("nvidia_uvm",))
    shell.module("nvidia_uvm")
    shell.note(files.DAEMONS, "Ready")
    (shell.path(files.ROOT) / "usr").mkdir(parents=True)


@pytest.mark.parametrize("mode", MODES)
def test_the_wrapper_starts_nvidias_program_on_a_node_without_a_driver(shell: Shell, mode: str) -> None:
    shell.note(files.READY)
    done = shell.run("wrapper", {"DRIVER_MODE": mode})
    assert (done.returncode, shell.calls()) == (0, ["nvidia-driver init"])
    assert shell.text(files.READY) is None


@pytest.mark.parametrize("mode", MODES)
def test_the_wrapper_leaves_alone_what_somebody_computes_on(shell: Shell, mode: str) -> None:
    serving(shell)
    shell.module("nvidia_uvm", 1)
    shell.note(files.MARK, DIGEST)
    shell.note(files.READY)
    shell.run("wrapper", {"DRIVER_MODE": mode})
    assert shell.calls() == ["sleep infinity"]
    assert (shell.text(files.HOLD), shell.text(files.MARK), shell.text(files.READY)) == (DIGEST, DIGEST, None)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("mark", [None, "another", ""])
def test_the_wrapper_holds_nothing_that_this_driver_has_not_loaded(shell: Shell, mode: str, mark: str | None) -> None:
    serving(shell)
    shell.module("nvidia_uvm", 1)
    if mark is not None:
        shell.note(files.MARK, mark)
    shell.run("wrapper", {"DRIVER_MODE": mode})
    shell.run("wrapper", {"DRIVER_MODE": mode, "DRIVER_CONFIG_DIGEST": ""})
    assert [call for call in shell.calls() if "umount" not in call] == ["nvidia-driver init"] * 2
    assert shell.text(files.HOLD) is None


@pytest.mark.parametrize(("mode", "called"), [("Compiled", "nvidia-driver init"), ("Precompiled", "sleep infinity")])
def test_an_open_card_holds_only_what_would_be_unloaded(shell: Shell, mode: str, called: str) -> None:
    """Compiled modules of the same digest are kept by NVIDIA's own program."""
    serving(shell)
    shell.module("nvidia", 2, needed_by=("nvidia_uvm",))
    shell.note(files.MARK, DIGEST)
    shell.run("wrapper", {"DRIVER_MODE": mode})
    assert [call for call in shell.calls() if "umount" not in call] == [called]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("uvm", [None, 0, 1])
@pytest.mark.parametrize("uses", [None, 0, 1, 2, 3])
@pytest.mark.parametrize("needed_by", [(), ("nvidia_uvm",), ("nvidia_modeset", "nvidia_uvm")])
def test_wrapper_and_prepare_have_one_rule(
    shell: Shell, mode: str, uvm: int | None, uses: int | None, needed_by: tuple[str, ...]
) -> None:
    """Else `prepare` would let a container start that then ends again and again."""
    shell.note(files.MARK, DIGEST)
    modules = {}
    if uvm is not None:
        shell.module("nvidia_uvm", uvm)
        modules["nvidia_uvm"] = KernelModule("nvidia_uvm", uses=uvm)
    if uses is not None:
        shell.module("nvidia", uses, needed_by=needed_by)
        modules["nvidia"] = KernelModule("nvidia", uses=uses, needed_by=needed_by)
    shell.run("wrapper", {"DRIVER_MODE": mode})
    held = in_use(modules, compiled=mode == "Compiled")
    assert shell.calls() == ["sleep infinity" if held else "nvidia-driver init"]


def test_numbers_of_daemons_that_are_gone_are_taken_away_before_nvidias_program_ends_them(shell: Shell) -> None:
    """It would end whoever has the number now: the pod shares the host's processes."""
    files_of = {
        "/run/nvidia-fabricmanager/nv-fabricmanager.pid": ("11", "nv-fabricmanage"),
        "/run/nvidia-fabricmanager/nvlsm.pid": ("12", "sshd"),
        "/run/nvidia-topologyd/nvidia-topologyd.pid": ("13", None),
    }
    for path, (pid, comm) in files_of.items():
        shell.note(path, pid)
        if comm is not None:
            shell.note(f"/proc/{pid}/comm", comm)
    shell.run("wrapper")
    assert [shell.text(path) for path in files_of] == ["11", None, None]
    assert shell.calls() == ["nvidia-driver init"]


def test_a_container_that_held_begins_when_the_cards_are_free(shell: Shell) -> None:
    serving(shell)
    shell.note(files.MARK, DIGEST)
    shell.note(files.HOLD, DIGEST)
    shell.run("wrapper")
    assert shell.calls()[-1] == "nvidia-driver init"
    assert shell.text(files.HOLD) is None


@pytest.mark.parametrize("mode", MODES)
def test_a_driver_that_serves_says_so(shell: Shell, mode: str) -> None:
    serving(shell)
    done = shell.run("started", {"DRIVER_MODE": mode, "GDS_ENABLED": "true"})
    assert (done.returncode, done.stdout) == (0, "")
    assert shell.text(files.MARK) == DIGEST
    assert shell.text(files.READY) == "GDRCOPY_ENABLED: false\nGDS_ENABLED: true\nGPU_DIRECT_RDMA_ENABLED: false"
    assert not list(shell.folder.rglob("*.new"))


@pytest.mark.parametrize(
    ("missing", "told"),
    [
        ("daemons", "the driver's daemons do not run: NotReady"),
        ("root", "the driver's root is not mounted"),
        ("nvidia-smi", "nvidia-smi fails"),
    ],
)
def test_a_driver_that_does_not_serve_yet_says_what_is_missing(shell: Shell, missing: str, told: str) -> None:
    serving(shell)
    if missing == "daemons":
        shell.note(files.DAEMONS, "NotReady")
    elif missing == "root":
        (shell.path(files.ROOT) / "usr").rmdir()
        (shell.path(files.ROOT) / "lib/firmware").mkdir(parents=True)
    else:
        shell.program("nvidia-smi", "exit 9")
    done = shell.run("started")
    assert (done.returncode, done.stdout.strip()) == (1, told)
    assert (shell.text(files.MARK), shell.text(files.READY)) == (None, None)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("missing", ["nvidia", "nvidia_uvm"])
def test_a_kernel_that_refuses_a_module_ends_the_container_with_its_words(
    shell: Shell, mode: str, missing: str
) -> None:
    serving(shell)
    shell.path(f"/sys/module/{missing}/refcnt").unlink()
    refusal = f"modprobe: ERROR: could not insert '{missing}': Key was rejected by service"
    shell.program("modprobe", f'echo "{refusal}"; exit 1')
    shell.path("/dev").mkdir()
    with subprocess.Popen(["sleep", "600"]) as program:
        shell.note(files.LOCK, str(program.pid))
        done = shell.run("started", {"DRIVER_MODE": mode})
        assert program.wait(timeout=60) == -9
    assert done.returncode == 1
    assert refusal in (shell.text("/dev/termination-log") or "")
    assert (shell.text(files.MARK), shell.text(files.READY)) == (None, None)


def test_a_module_that_the_kernel_takes_at_last_is_a_driver(shell: Shell) -> None:
    serving(shell)
    shell.path("/sys/module/nvidia_uvm/refcnt").unlink()
    shell.program("modprobe")
    assert shell.run("started").returncode == 0
    assert [call for call in shell.calls() if call.startswith("modprobe")] == [
        "modprobe nvidia",
        "modprobe nvidia-uvm",
        "modprobe nvidia-modeset",
    ]


@pytest.mark.parametrize("mode", MODES)
def test_the_root_of_a_former_container_is_taken_off_before_the_next_one_starts(shell: Shell, mode: str) -> None:
    (shell.path(files.ROOT) / "usr").mkdir(parents=True)
    shell.program("umount", f"rmdir {shell.path(files.ROOT)}/usr")
    shell.run("wrapper", {"DRIVER_MODE": mode})
    assert shell.calls() == [f"umount -l -R {shell.path(files.ROOT)}", "nvidia-driver init"]


@pytest.mark.parametrize("mode", MODES)
def test_daemons_are_not_asked_for_where_nothing_is_said_of_them(shell: Shell, mode: str) -> None:
    """Images of before August 2026 never do, and precompiled ones do not either."""
    serving(shell)
    shell.path(files.DAEMONS).unlink()
    assert shell.run("started", {"DRIVER_MODE": mode}).returncode == 0


@pytest.mark.parametrize("mode", MODES)
def test_what_a_former_container_said_of_its_daemons_is_taken_away(shell: Shell, mode: str) -> None:
    for name in ("wrapper", "stopping"):
        shell.note(files.DAEMONS, "NotReady")
        shell.run(name, {"DRIVER_MODE": mode})
        assert shell.text(files.DAEMONS) is None


def test_a_container_that_holds_counts_as_started_and_not_as_serving(shell: Shell) -> None:
    shell.note(files.HOLD, DIGEST)
    assert shell.run("started").returncode == 0
    assert shell.text(files.READY) is None
    pod = build.daemonset(driver(), COMPILED, AGENT)["spec"]["template"]["spec"]
    (_, _, check) = pod["containers"][0]["readinessProbe"]["exec"]["command"]
    assert not holds(shell, check)
    shell.note(files.READY)
    assert not holds(shell, check)
    shell.path(files.HOLD).unlink()
    assert holds(shell, check)


def holds(shell: Shell, check: str) -> bool:
    return (
        subprocess.run(["sh", "-c", check.replace(files.RUN, str(shell.path(files.RUN)))], check=False).returncode == 0
    )


def test_a_container_that_ends_takes_its_word_back(shell: Shell) -> None:
    serving(shell)
    shell.run("started")
    assert shell.run("stopping", by="sh").returncode == 0
    assert (shell.text(files.MARK), shell.text(files.READY)) == (None, None)
    assert shell.run("stopping", by="sh").returncode == 0


def test_a_container_that_held_leaves_the_mark_to_the_next(shell: Shell) -> None:
    shell.note(files.MARK, DIGEST)
    shell.note(files.HOLD, DIGEST)
    shell.run("stopping", by="sh")
    assert shell.text(files.MARK) == DIGEST


class Packages:
    """Package programs as stubs: what the repositories answer."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        shell.program("uname", f"echo {KERNEL}")
        shell.path("/dev").mkdir()

    def apt(self, *, answers: bool, headers: bool) -> None:
        self.shell.program("apt-get", "exit 0" if answers else "exit 100")
        self.shell.program("apt-cache", "echo Package" if headers else "exit 0")

    def said(self, kernel: str = KERNEL) -> tuple[int, str]:
        done = self.shell.run("repository")
        text = self.shell.text("/dev/termination-log")
        if text is None:
            return done.returncode, ""
        found = adapter(Prepared).validate_json(text)
        assert (found.result, kernel in found.message) == ("Refused", True)
        return done.returncode, found.reason


@pytest.mark.parametrize(
    ("answers", "headers", "said"),
    [
        (True, True, (0, "")),
        (False, True, (0, "")),
        (True, False, (NODE, "HeadersMissing")),
        (False, False, (NODE, "RepositoryUnreachable")),
    ],
)
def test_the_kernels_headers_are_asked_for_with_apt(
    shell: Shell, answers: bool, headers: bool, said: tuple[int, str]
) -> None:
    packages = Packages(shell)
    packages.apt(answers=answers, headers=headers)
    assert packages.said() == said
    assert f"apt-cache show linux-headers-{KERNEL}" in shell.calls()


def test_certificates_of_people_are_trusted_first(shell: Shell) -> None:
    packages = Packages(shell)
    packages.apt(answers=True, headers=True)
    shell.program("update-ca-certificates")
    packages.said()
    assert "update-ca-certificates " not in shell.calls()
    shell.note("/usr/local/share/ca-certificates/house.crt")
    packages.said()
    assert "update-ca-certificates " in shell.calls()


EXTENDED = [f"rhel-9-for-x86_64-{name}-eus-rpms" for name in ("baseos", "appstream")]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("exit 0", (0, "")),
        ("case $* in *=9.4*list*) exit 1;; *) exit 0;; esac", (0, "")),
        ("case $* in *list*) exit 1;; *) exit 0;; esac", (NODE, "HeadersMissing")),
        ("exit 1", (NODE, "RepositoryUnreachable")),
    ],
)
def test_the_kernels_headers_are_asked_for_with_dnf(
    shell: Shell, script: str, said: tuple[int, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As NVIDIA's program for RHEL 9 does: the release is the kernel's, not the host's."""
    packages = Packages(shell)
    shell.program("uname", f'test "$1" = -m && echo x86_64 || echo {KERNEL_9_4}')
    shell.note("/host-etc/os-release", 'ID=rhel\nVERSION_ID="9.6"')
    shell.program("dnf", script)
    hide(shell, monkeypatch)
    assert packages.said(KERNEL_9_4) == said
    calls = [call for call in shell.calls() if call.startswith("dnf")]
    assert calls[:2] == [f"dnf -q config-manager --set-enabled {name}" for name in EXTENDED]
    assert calls[2] == "dnf -q --releasever=9.4 makecache"
    switched_off = [f"dnf -q config-manager --set-disabled {name}" for name in EXTENDED]
    assert (switched_off[0] in calls) is (script == "exit 1")


@pytest.mark.parametrize(
    ("kernel", "release"),
    [
        ("4.18.0-513.9.1.el8_9.x86_64", "8.9"),
        ("5.14.0-570.12.1.el9_6.x86_64", "9.6"),
        ("6.12.0-55.el10_0.aarch64", "10.0"),
        ("5.14.0-570.el9.x86_64", "9"),
    ],
)
def test_a_release_is_the_kernels(shell: Shell, kernel: str, release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = Packages(shell)
    shell.program("uname", f'test "$1" = -m && echo x86_64 || echo {kernel}')
    shell.note("/host-etc/os-release", 'ID=rhel\nVERSION_ID="9.9"')
    shell.program("dnf", "exit 0")
    hide(shell, monkeypatch)
    packages.said(kernel)
    assert f"dnf -q --releasever={release} makecache" in shell.calls()


def hide(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine's own apt is none of the container's."""
    for name in ("bash", "timeout", "ls", "cat", "env"):
        found = next(Path(folder) / name for folder in ("/bin", "/usr/bin") if (Path(folder) / name).exists())
        (shell.bin / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(shell.bin))


def test_an_image_without_a_package_program_that_is_known_is_not_refused(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = Packages(shell)
    hide(shell, monkeypatch)
    assert packages.said() == (0, "")


def test_each_script_is_in_some_pod() -> None:
    built = [build.daemonset(driver(), COMPILED, AGENT), checks.check_pod(driver(), "n", COMPILED, AGENT)]
    scripts = sorted((Path(inputs.__file__).parent / "scripts").glob("*.sh"))
    assert {path.read_text() for path in scripts} <= set(texts(built))
    assert len(scripts) == 4


def texts(value: object) -> Iterator[str]:
    """Every text in an object."""
    if isinstance(value, str):
        yield value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ():
        yield from texts(one)
