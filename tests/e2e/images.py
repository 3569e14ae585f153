"""Images made of this machine's own programs: one with a shell and a stub of a driver, one with the node agent."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from sim.module.install import ROOT
from sim.realnode.image import Image, write_images

DRIVER: Final = "registry.local/e2e/driver:1"
AGENT: Final = "registry.local/e2e/agent:1"
PROGRAMS: Final = [
    "bash",
    "cat",
    "flock",
    "ls",
    "mkdir",
    "mount",
    "mv",
    "rm",
    "sleep",
    "tee",
    "timeout",
    "touch",
    "true",
    "umount",
    "uname",
    "wc",
]
# It does what the module relies on in NVIDIA's own (tests/driver/contract), with modules made of files.
STUB: Final = r"""#!/bin/bash
set -eu
modules=/sys/module
case ${1:-} in init) ;; *) exit 2;; esac
exec 3>/run/nvidia/nvidia-driver.pid
flock -n 3 || exit 1
echo $$ >&3
mkdir -p /run/nvidia/validations $modules/nvidia/holders/nvidia_uvm $modules/nvidia/holders/nvidia_modeset
mkdir -p $modules/nvidia_uvm $modules/nvidia_modeset
echo NotReady >/run/nvidia/validations/.driver-daemons-status
echo "$DRIVER_CONFIG_DIGEST" >>$modules/started
if test -e $modules/refuses; then
    rm -r $modules/nvidia $modules/nvidia_uvm $modules/nvidia_modeset
else
    for module in nvidia_uvm nvidia_modeset; do
        test -e $modules/$module/refcnt || echo 0 >$modules/$module/refcnt
        echo live >$modules/$module/initstate
    done
    echo live >$modules/nvidia/initstate
    echo 2 >$modules/nvidia/refcnt
fi
echo Ready >/run/nvidia/validations/.driver-daemons-status
! test -e /run/nvidia/driver/usr || umount -l /run/nvidia/driver
mkdir -p /run/nvidia/driver
mount -t tmpfs driver /run/nvidia/driver
mkdir /run/nvidia/driver/usr
echo "$DRIVER_CONFIG_DIGEST" >/run/nvidia/nvidia-driver.state
sleep infinity &
trap "kill $!; exit 0" TERM
wait
"""
MODPROBE: Final = """#!/bin/bash
echo "modprobe: ERROR: could not insert '$1': No such device" >&2
exit 1
"""
SMI: Final = "#!/bin/bash\ntest -e /sys/module/nvidia/refcnt\n"
PACKAGES: Final = (
    "pydantic",
    "pydantic_core",
    "annotated_types",
    "typing_extensions.py",
    "typing_inspection",
    "prometheus_client",
    "structlog",
)
_LEFT_OUT: Final = frozenset(
    ("site-packages", "test", "idlelib", "tkinter", "ensurepip", "lib2to3", "__pycache__", "turtledemo")
)


def write(archive: Path) -> None:
    """Write both images."""
    folder = "/usr/bin:/bin"
    images = {
        DRIVER: Image("/bin/nvidia-driver", _layer(_shell()), folder),
        AGENT: Image("/bin/python3", _layer(_shell() | _python()), folder),
    }
    write_images(archive, images)


def _shell() -> dict[str, Path | bytes | str]:
    """Files by their paths; a text is where a link leads."""
    found = [Path(path).resolve() for name in PROGRAMS if (path := shutil.which(name))]
    assert len(found) == len(PROGRAMS), "this machine lacks a program"
    made: dict[str, Path | bytes | str] = {f"bin/{path.name}": path for path in found}
    made |= {str(path).lstrip("/"): path for path in _libraries(found)}
    stubs = {"nvidia-driver": STUB, "nvidia-smi": SMI, "modprobe": MODPROBE}
    return made | {"bin/sh": "bash"} | {f"bin/{name}": text.encode() for name, text in stubs.items()}


def _python() -> dict[str, Path | bytes | str]:
    """This interpreter at its own place, what the role imports, and the module's code."""
    base, site = Path(sys.base_prefix), next(Path(path) for path in sys.path if path.endswith("site-packages"))
    real = Path(sys.executable).resolve()
    folder = base / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    files = [
        path
        for path in folder.rglob("*")
        if path.suffix != ".a" and not _LEFT_OUT & set(path.relative_to(folder).parts)
    ]
    made = {str(path).lstrip("/"): path for path in (*files, real)}
    where = str(folder / "site-packages").lstrip("/")
    for name in PACKAGES:
        made |= _below(site / name, f"{where}/{name}")
    for name in ("controllers", "nodeagent"):
        made |= _below(ROOT / name, f"{where}/{name}")
    libraries = _libraries([real, *_shared(made.values())])
    return {**made, **{str(path).lstrip("/"): path for path in libraries}, "bin/python3": str(real)}


def _below(path: Path, place: str) -> dict[str, Path]:
    if path.is_file():
        return {place: path}
    return {f"{place}/{each.relative_to(path)}": each for each in path.rglob("*") if "__pycache__" not in each.parts}


def _shared(files: Iterable[Path]) -> list[Path]:
    return [path for path in files if path.suffix == ".so"]


def _libraries(programs: Iterable[Path]) -> set[Path]:
    """What the loader would bring, by the names under which it looks."""
    said = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    return {Path(path) for path in re.findall(r"(?:=> |^\s+)(/\S+)", said, re.MULTILINE)}


def _layer(files: Mapping[str, Path | bytes | str]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for name, source in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            if isinstance(source, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, source
                tar.addfile(entry)
            elif isinstance(source, bytes) or source.is_file():
                body = source if isinstance(source, bytes) else source.read_bytes()
                entry.size, entry.mode = len(body), 0o755
                tar.addfile(entry, io.BytesIO(body))
    return content.getvalue()
