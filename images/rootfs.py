"""Gathers a root file system that holds Python, a virtual environment, a program, and nothing else.

`python3 rootfs.py --venv /opt/venv --app /app /rootfs`, run in an image's build stage by the interpreter that the
virtual environment was made with. What it takes: that interpreter, its standard library less what only a developer
needs, the shared libraries that the dynamic linker names for all of them, and names for two users. So the image has
no shell, no package manager and no compiler, whatever base it was made from. Linux with glibc; the standard library
only.
"""

from __future__ import annotations

import argparse
import compileall
import os
import py_compile
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

DEVELOPERS = (
    *("__pycache__", "config-*", "dist-packages", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "site-packages"),
    *("_ctypes_test*", "_curses*", "_dbm*", "_gdbm*", "_test*", "_tkinter*", "_xx*", "readline*"),
    *("test", "tests", "tkinter", "turtle.py", "turtledemo", "venv"),
)
"""Parts of the standard library that stay behind, as patterns of names."""
OPENED_LATER = ("libdl.so.2", "libgcc_s.so.1", "libm.so.6", "libpthread.so.0", "librt.so.1")
"""Libraries that nothing here is linked with: threads open libgcc_s, and the driver's library wants the others."""
FILES = ("/etc/ssl/openssl.cnf", "/etc/ld.so.conf", "/etc/ld.so.conf.d")
"""No public certificate authorities: who signed the API server's certificate comes with a pod's token."""
WRITTEN = {
    "etc/passwd": "root:x:0:0:root:/:/nologin\nmodule:x:64535:64535:module:/:/nologin\n",
    "etc/group": "root:x:0:\nmodule:x:64535:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
BIN = Path("/usr/bin")
_NAMED = re.compile(r"(/\S+) \(0x[0-9a-f]+\)")


class Root:
    """A root file system in a folder; paths are given as they are outside."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("bin", "lib", "lib64", "sbin"):
            if (link := Path("/", name)).is_symlink():  # a merged /usr
                (folder / name).symlink_to(link.readlink())
                self.at(link.resolve()).mkdir(parents=True, exist_ok=True)

    def at(self, path: Path) -> Path:
        """Where a path is inside, its folder's links followed."""
        return self.folder / (path.parent.resolve() / path.name).relative_to("/")

    def take(self, path: Path) -> None:
        """Copy a file, or a link and what it points to."""
        here = self.at(path)
        if here.exists() or here.is_symlink():
            return
        here.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            here.symlink_to(path.readlink())
            self.take(path.parent / path.readlink())
        else:
            shutil.copy2(path, here)

    def take_tree(self, folder: Path, *, without: tuple[str, ...] = (), links: bool = True) -> None:
        """Copy a folder; with `links` false what they point to is copied in their place."""
        shutil.copytree(
            folder,
            self.at(folder),
            symlinks=links,
            ignore=shutil.ignore_patterns(*without),
            ignore_dangling_symlinks=True,
            dirs_exist_ok=True,
        )


def libraries(programs: list[Path]) -> set[Path]:
    """The shared libraries that the dynamic linker loads for these, itself among them."""
    found: set[Path] = set()
    for program in programs:
        told = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False).stdout
        if "not found" in told:
            raise SystemExit(f"{program} lacks a library:\n{told}")
        found.update(Path(path) for path in _NAMED.findall(told))
    return found


def gather(root: Root, venv: Path, app: Path, programs: Path | None, without: list[str]) -> None:
    """Fill the root; `without` are packages of the virtual environment that are not needed, as `package/subpackage`."""
    stdlib = Path(sysconfig.get_path("stdlib"))
    root.take_tree(stdlib, without=DEVELOPERS, links=False)
    root.take_tree(venv, without=("__pycache__", "activate*", "Activate*"))
    root.take_tree(app, without=("__pycache__",))
    site = next(root.at(venv).glob("lib/python*/site-packages"))
    for name in without:
        shutil.rmtree(site / name)  # an error where a release has moved it: it would come back unseen
    brought = sorted(programs.iterdir()) if programs else []
    link(root, venv, stdlib, brought)
    for program in brought:
        root.at(BIN).mkdir(parents=True, exist_ok=True)
        shutil.copy2(program, root.at(BIN) / program.name)
    describe(root)
    for folder in (stdlib, venv, app):
        # A read-only root cannot keep what Python compiles; a hash that is not checked makes builds equal.
        compileall.compile_dir(
            root.at(folder),
            quiet=2,
            stripdir=str(root.folder),
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )


def link(root: Root, venv: Path, stdlib: Path, programs: list[Path]) -> None:
    """Take the interpreter, and the libraries that it, all compiled modules and other programs want."""
    interpreter = venv / "bin" / "python3"
    root.take(interpreter.parent / interpreter.readlink())
    linked = [interpreter.resolve(), *programs, *root.at(stdlib).rglob("*.so"), *root.at(venv).rglob("*.so*")]
    needed = {path for path in libraries(linked) if not path.is_relative_to(root.folder)}
    libc = next(path for path in needed if path.name.startswith("libc.so"))
    for path in sorted({*needed, *(libc.parent / name for name in OPENED_LATER)}):
        root.take(path)


def describe(root: Root) -> None:
    """Take or write what libraries look for in /etc; then tell the dynamic linker what is there."""
    for name in FILES:
        path = Path(name)
        if path.is_dir():
            root.take_tree(path)
        elif path.exists():
            root.take(path)
    for name, text in WRITTEN.items():
        (root.folder / name).write_text(text)
    (root.folder / "tmp").mkdir()
    (root.folder / "tmp").chmod(0o1777)  # as it should be, whatever the umask
    subprocess.run(["ldconfig", "-r", str(root.folder)], check=True, env={**os.environ, "PATH": "/usr/sbin:/sbin"})


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--venv", type=Path, required=True, help="virtual environment, made without pip")
    parser.add_argument("--app", type=Path, required=True, help="folder of the program's packages")
    parser.add_argument("--programs", type=Path, help=f"folder of other programs, for {BIN}; may be empty")
    parser.add_argument("--without", action="append", default=[], help="a package of it that is not needed; repeatable")
    parser.add_argument("root", type=Path, help="folder to make")
    args = parser.parse_args()
    args.root.mkdir(mode=0o755)
    gather(Root(args.root), args.venv, args.app, args.programs, args.without)


if __name__ == "__main__":
    main()
