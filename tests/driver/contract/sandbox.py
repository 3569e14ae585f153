"""A root of its own in which NVIDIA's program runs as it is, with stubs of all that would touch a kernel or a network.

The machine's own programs are there, read-only; /run, /sys, /var, /etc and /drivers are made of files. A mount
namespace of its own goes with the process. Nothing of NVIDIA's is kept: the program is read from a clone that
`GPU_DRIVER_CONTAINER` names.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

VARIABLE: Final = "GPU_DRIVER_CONTAINER"
ORIGIN: Final = "https://github.com/NVIDIA/gpu-driver-container"
VERSION: Final = "580.178.04"
SECONDS: Final = 60.0
_FOLDERS: Final = ("bin", "sbin", "lib", "lib64", "usr", "dev", "proc")
_ENTER: Final = """
set -e
mount --make-rprivate /
for name in bin sbin lib lib64 usr dev; do
    test ! -e /$name || mount --rbind /$name "$0/$name"
done
mount --rbind /proc "$0/proc"
exec chroot "$0" /usr/bin/env -i "$@"
"""
_STUBS: Final = {
    # name: what it does; each says first that it was called
    "modprobe": """
for word; do case $word in -*) ;; *)
    name=${word//-/_}; test ! -e /sys/module/$name || continue
    mkdir -p /sys/module/$name/holders; echo 0 >/sys/module/$name/refcnt; echo live >/sys/module/$name/initstate
    case $name in nvidia_*) mkdir /sys/module/nvidia/holders/$name
        echo $(($(cat /sys/module/nvidia/refcnt) + 1)) >/sys/module/nvidia/refcnt;; esac;;
esac; done""",
    "rmmod": """
for word; do
    name=${word//-/_}; test "$(cat /sys/module/$name/refcnt)" -eq 0 || { echo "$name is in use" >&2; exit 1; }
    rm -r /sys/module/$name
    case $name in nvidia_*) rmdir /sys/module/nvidia/holders/$name
        echo $(($(cat /sys/module/nvidia/refcnt) - 1)) >/sys/module/nvidia/refcnt;; esac
done""",
    "lsmod": "ls /sys/module",
    "mount": 'case "$*" in *--rbind*) mkdir -p /run/nvidia/driver/usr;; esac',
    "umount": "rm -rf /run/nvidia/driver",
    "findmnt": "test ! -e /run/nvidia/driver/usr || echo /run/nvidia/driver",
    "nvidia-smi": 'echo "Driver Version : 580.178.04"',
    "nvidia-installer": 'case "$*" in *recommended*) echo open;; esac',
    "nvidia-persistenced": """
mkdir -p /var/run/nvidia-persistenced
sleep infinity >/dev/null 2>&1 3>&- &
echo $! >/var/run/nvidia-persistenced/nvidia-persistenced.pid""",
    "apt-get": 'case "$*" in *download*) touch linux-image-1.deb;; esac',
    "apt-cache": "echo 'Version: custom'",
    "dpkg": """
kernel=$(uname -r)
mkdir -p lib/modules/$kernel/kernel boot; touch lib/modules/$kernel/modules.order boot/vmlinuz-$kernel""",
    "depmod": "",
    "update-ca-certificates": "",
}
_RUNFILE: Final = f"""#!/bin/sh
echo "runfile $*" >>/calls
case "$*" in *-x*)
    mkdir -p NVIDIA-Linux-x86_64-{VERSION}/kernel-open
    cd NVIDIA-Linux-x86_64-{VERSION}
    touch LICENSE mkprecompiled .manifest
    printf '#!/bin/sh\\necho "nvidia-installer $*" >>/calls\\n' >nvidia-installer
    chmod +x nvidia-installer;;
esac
"""


def source(path: str) -> str:
    """A file of the clone at its newest commit; skips the test, and says so, where there is no clone."""
    clone = os.environ.get(VARIABLE)
    if not clone:
        pytest.skip(f"NVIDIA's programs are not here: {VARIABLE} names no clone of {ORIGIN}")
    done = subprocess.run(["git", "-C", clone, "show", f"HEAD:{path}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{VARIABLE}: {done.stderr.strip()}"
    return done.stdout


class Sandbox:
    """The inside of a driver's container."""

    def __init__(self, root: Path, program: str) -> None:
        self.root = root
        for name in (
            *_FOLDERS,
            "stubs",
            "etc/modprobe.d",
            "drivers",
            "run/nvidia",
            "tmp",
            "var/lib",
            "src/lib/modules",
        ):
            (root / name).mkdir(parents=True)
        (root / "sys/module/firmware_class/parameters").mkdir(parents=True)
        (root / "sys/module/firmware_class/parameters/path").write_text("\n")
        (root / "var/run").symlink_to("../run")
        self._script("nvidia-driver", program)
        for name, text in _STUBS.items():
            self.stub(name, text)
        (root / "drivers" / f"NVIDIA-Linux-x86_64-{VERSION}.run").write_text(_RUNFILE)
        self._children: list[subprocess.Popen[str]] = []

    def _script(self, name: str, text: str) -> None:
        file = self.root / "stubs" / name
        file.write_text(text)
        file.chmod(0o755)

    def stub(self, name: str, text: str) -> None:
        """Have a program do something else than usual."""
        self._script(name, f'#!/bin/bash\necho "{name} $*" >>/calls\n{text}\n')

    def start(self, digest: str = "0123456789") -> subprocess.Popen[str]:
        """Start NVIDIA's program, as its container does."""
        env = {
            "PATH": "/stubs:/usr/sbin:/usr/bin:/sbin:/bin",
            "DRIVER_VERSION": VERSION,
            "DRIVER_BRANCH": "580",
            "DRIVER_TYPE": "passthrough",
            "TARGETARCH": "amd64",
            "KERNEL_MODULE_TYPE": "open",
            "DRIVER_CONFIG_DIGEST": digest,
        }
        words = [f"{key}={value}" for key, value in env.items()]
        shell = "cd /drivers && exec nvidia-driver init"
        child = subprocess.Popen(
            [
                "unshare",
                "--mount",
                "--fork",
                "--kill-child",
                "sh",
                "-c",
                _ENTER,
                self.root,
                *words,
                "bash",
                "-c",
                shell,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._children.append(child)
        return child

    def serves(self, child: subprocess.Popen[str]) -> None:
        """Wait until it waits for its end."""
        assert child.stdout is not None
        said = []
        for line in child.stdout:
            said.append(line)
            if line.startswith("Done, now waiting"):
                return
        raise AssertionError("".join(said[-30:]))

    def ended(self, child: subprocess.Popen[str]) -> tuple[int, str]:
        """Its exit status and what it said."""
        said, _ = child.communicate(timeout=SECONDS)
        return child.returncode, said

    def stop(self) -> None:
        """Tell the program to end, as kubelet does: its pid is in its file."""
        os.kill(int(self.text("run/nvidia/nvidia-driver.pid")), signal.SIGTERM)

    def kill(self, child: subprocess.Popen[str]) -> None:
        """End the container at once, with its daemons, as a runtime does."""
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate(timeout=SECONDS)
        pid = self.root / "run/nvidia-persistenced/nvidia-persistenced.pid"
        if pid.exists():
            daemon = int(pid.read_text())
            deadline = time.monotonic() + SECONDS
            while Path(f"/proc/{daemon}").exists() and time.monotonic() < deadline:
                os.kill(daemon, signal.SIGKILL)
                time.sleep(0.01)
            pid.unlink()

    def text(self, path: str) -> str:
        """A file's text, without what surrounds it."""
        return (self.root / path).read_text().strip()

    def has(self, path: str) -> bool:
        """Whether there is such a file."""
        return (self.root / path).exists()

    def write(self, path: str, text: str) -> None:
        """A file."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    def calls(self, *programs: str) -> list[str]:
        """What was called of these programs since the last question."""
        file = self.root / "calls"
        lines = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return [line.strip() for line in lines if line.split()[0] in programs]

    def modules(self) -> set[str]:
        """NVIDIA's modules that are loaded."""
        return {path.name for path in (self.root / "sys/module").iterdir() if path.name.startswith("nvidia")}

    def close(self) -> None:
        """Leave nothing running."""
        for child in self._children:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # its daemons, too, where it has ended already
            child.wait(timeout=SECONDS)
            if child.stdout is not None:
                child.stdout.close()


def can_enter(folder: Path) -> str:
    """Why no root of its own can be had here; empty where it can."""
    if shutil.which("unshare") is None or os.geteuid() != 0:
        return "a root of its own needs root and unshare"
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", 'mount --make-rprivate / && mount --bind "$0" "$0"', folder],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr.strip() if done.returncode else ""
