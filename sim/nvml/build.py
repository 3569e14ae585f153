"""Compiles the libraries once for each state of their sources, into the cache of programs."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
from pathlib import Path

from tools.errors import UserError
from tools.programs.cache import Cache, default_root
from tools.programs.progress import Progress, Silent

SOURCES = Path(__file__).parent / "library"
CUDA_SOURCES = Path(__file__).parent / "cuda"
SONAME = "libnvidia-ml.so.1"
CUDA_SONAME = "libcuda.so.1"
SHARED = ("address.c", "config.c", "faults.c", "keys.c", "lists.c")
"""Of the sources those that read the file, which both libraries do."""
FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror")
LINK = ("-shared", "-Wl,-z,defs")
LIBRARIES = ("-lpthread", "-lm")


def build(progress: Progress | None = None, *, extra: tuple[str, ...] = ()) -> Path:
    """The path of `libnvidia-ml.so.1`, made where the cache does not have it; beside it lies `libcuda.so.1` alone.

    `extra` are further flags of the compiler, as `-fsanitize=address`; they make another entry of
    the cache. Raises UserError where there is no C compiler or it refuses.
    """
    progress = progress or Silent()
    compiler = _compiler()
    cache = Cache(default_root())
    key = _key(compiler, extra)
    found = cache.find("nvml", key, _variant())
    if found is not None:
        return found / SONAME

    def fill(folder: Path) -> None:
        with progress.task("build the fake NVML and CUDA libraries"):
            _compile(compiler, extra, folder / SONAME, _files(SOURCES))
            shared = [SOURCES / name for name in SHARED]
            _compile(compiler, extra, folder / CUDA_SONAME, [*shared, *_files(CUDA_SOURCES)])

    with cache.lock("nvml", lambda: progress.note("another process builds the fake NVML library")):
        found = cache.find("nvml", key, _variant()) or cache.install("nvml", key, _variant(), fill)
    return found / SONAME


def _variant() -> str:
    return f"{platform.system()}-{platform.machine()}".lower()


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.c"))


def _key(compiler: list[str], extra: tuple[str, ...]) -> str:
    """What the result depends on: sources, command, flags."""
    digest = hashlib.sha256(repr((compiler, FLAGS, LINK, LIBRARIES, SHARED, extra)).encode())
    for path in sorted([*SOURCES.glob("*.[ch]"), *_files(CUDA_SOURCES)]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _compiler() -> list[str]:
    """The command of `CC`, which may carry flags, or `cc`."""
    command = shlex.split(os.environ.get("CC", "")) or ["cc"]
    if shutil.which(command[0]) is None:
        raise UserError(
            f"the fake NVML library is not built yet, and there is no C compiler {command[0]!r}",
            expected="a C11 compiler and libc's headers, as `cc` or named in CC",
            do="run: apt-get install gcc libc6-dev",
        )
    return command


def _compile(compiler: list[str], extra: tuple[str, ...], into: Path, files: list[Path]) -> None:
    done = subprocess.run(
        [*compiler, *FLAGS, *extra, *LINK, f"-Wl,-soname,{into.name}", "-o", str(into), *map(str, files), *LIBRARIES],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise UserError(
            f"{compiler[0]} does not compile {SOURCES}:\n{done.stderr.strip()[-2000:]}",
            do="see that gcc (or clang) and libc6-dev are installed and of one release",
        )
