"""An image's archive for those who need one built, kept in the cache of programs as long as nothing of it changes.

Built on the root file system of Debian's packages, which is made once and kept too: who wants the newest packages runs
`make images BASE=debian`.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tools.images import base, daemon
from tools.images.build import TAGS, build_one
from tools.images.lock import ROOT
from tools.programs.cache import Cache, default_root
from tools.programs.golang import host_platform

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.programs import Progress

SOURCES: Final = {"control-plane": ("controllers", "webhook", "console"), "node-agent": ("controllers", "nodeagent")}
"""Packages that an image is made of, at the least."""
KEPT: Final = 3
"""Archives of an image that stay in the cache: of this checkout, and of others that are at work."""


def lacking(image: str) -> str:
    """Why the archive cannot be had here, and what to do; empty where it can."""
    if Cache(default_root()).find(_name(image), _key(image), base.SUITE):
        return ""
    why = base.lacking() or daemon.lacking()
    return f"the image {image} cannot be built here: {why}; run: {daemon.INSTALL}" if why else ""


def ensure(image: str, progress: Progress) -> Path:
    """The archive, as `docker save` writes it, built where it is not in the cache: a minute or two; UserError."""
    cache, name, key = Cache(default_root()), _name(image), _key(image)
    with cache.lock(name, lambda: progress.note(f"another process is building the image {image}")):
        if (found := cache.find(name, key, base.SUITE)) is None:
            root = _base(cache, progress)
            with progress.task(f"building the image {image}"):
                found = cache.install(name, key, base.SUITE, lambda folder: _build(image, root, folder))
        for old in sorted(found.parent.glob(f"{name}-*"), key=lambda path: path.stat().st_mtime)[:-KEPT]:
            if old != found:
                shutil.rmtree(old)
    return found / f"{image}.tar"


def _name(image: str) -> str:
    return f"image-{image}"


def _base(cache: Cache, progress: Progress) -> Path:
    with cache.lock("image-base", lambda: progress.note("another process is making the images' base")):
        _, arch = host_platform()
        if (found := cache.find("image-base", arch, base.SUITE)) is None:
            with progress.task("making the images' base of Debian's packages"):
                found = cache.install("image-base", arch, base.SUITE, lambda folder: base.make(folder / "root.tar"))
    return found / "root.tar"


def _build(image: str, root: Path, folder: Path) -> None:
    with tempfile.TemporaryDirectory() as data, daemon.connected(Path(data)) as client:
        build_one(client, image, base.debian(client, root))
        with (folder / f"{image}.tar").open("wb") as file:
            file.writelines(client.images.get(TAGS[image]).save(named=True))


def _key(image: str) -> str:
    digest = hashlib.sha256(" ".join(host_platform()).encode())
    for path in _files(image):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _files(image: str) -> Iterator[Path]:
    yield from sorted((ROOT / "images" / image).iterdir())
    yield ROOT / "images" / "rootfs.py"
    for package in SOURCES[image]:
        yield from sorted(p for p in (ROOT / package).rglob("*") if p.is_file() and "__pycache__" not in p.parts)
