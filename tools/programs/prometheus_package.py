"""`python -m tools.programs.prometheus_package`: fetch Debian's prometheus and promtool, without installing them.

The package would start a daemon. Here it is only unpacked, into the cache of programs: both programs need nothing
but libc. A newer package takes the place of what is there when the command is run again.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tools.errors import UserError
from tools.programs.cache import Cache, default_root

PACKAGE: Final = "prometheus"
PROGRAMS: Final = ("prometheus", "promtool")
COMMAND: Final = "make monitoring-tools"
MISSING: Final = f"prometheus and promtool are not here: `{COMMAND}` fetches them from Debian"


def find(name: str) -> Path | None:
    """The program of that name: in the PATH, else the newest that was fetched."""
    if (installed := shutil.which(name)) is not None:
        return Path(installed)
    found = (default_root() / "programs").glob(f"{PACKAGE}-*-debian/usr/bin/{name}")
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def fetch() -> Path:
    """Download the package and unpack it; returns where. Raises UserError."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise UserError(
            "apt-get and dpkg-deb are not here",
            expected="Debian or Ubuntu",
            do="put prometheus and promtool of a release of Prometheus (2.42 or newer) into the PATH",
        )
    cache = Cache(default_root())
    version = _run("apt-cache", "show", "--no-all-versions", PACKAGE, fail=False)
    if not version:
        _run("apt-get", "update", "-qq")
        version = _run("apt-cache", "show", "--no-all-versions", PACKAGE)
    key = next(line.partition(" ")[2] for line in version.splitlines() if line.startswith("Version:"))

    def fill(folder: Path) -> None:
        _run("apt-get", "download", "-qq", PACKAGE, cwd=folder)
        (archive,) = folder.glob("*.deb")
        _run("dpkg-deb", "-x", str(archive), str(folder))
        archive.unlink()

    with cache.lock(PACKAGE, lambda: print("waiting for another process that fetches it", file=sys.stderr)):
        return cache.find(PACKAGE, key, "debian") or cache.install(PACKAGE, key, "debian", fill)


def _run(*argv: str, cwd: Path | None = None, fail: bool = True) -> str:
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return done.stdout
    if not fail:
        return ""
    raise UserError(
        f"`{' '.join(argv)}` failed: {done.stderr.strip()}",
        expected="Debian's package lists and mirror",
        do="as root: apt-get update",
    )


def main() -> int:
    """Fetch, and say where."""
    try:
        folder = fetch()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for name in PROGRAMS:
        print(folder / "usr" / "bin" / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
