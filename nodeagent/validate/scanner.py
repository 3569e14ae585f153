"""Reads the facts of one validation: the host's files, the container's own `/dev`, NVML and CUDA in children."""

from __future__ import annotations

import asyncio
import os
import re
import stat
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.validation import CUDA as CUDA_KEY
from controllers.api.validation import DRIVER, key
from controllers.domain.driver import files
from nodeagent.host import hostfiles, library, procfs, sysfs, toolkit
from nodeagent.host.driverroot import DriverRoot
from nodeagent.host.facts.records import COMPLETED
from nodeagent.validate.checks import cdi, marks
from nodeagent.validate.checks.cuda import NOT_READY
from nodeagent.validate.checks.facts import CUDA, LIBRARIES, NOUVEAU, Facts, Library, Node, Specification, Taken

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from nodeagent.host.driver_probe import DriverProbe
    from nodeagent.host.facts.records import Toolkit
    from nodeagent.host.paths import HostPaths
    from nodeagent.validate.cuda_trials import Trials

CDI_FOLDERS = ("etc/cdi", "var/run/cdi", "run/cdi")
CDI_MAX = 4 * 1024 * 1024
FABRIC_GRACE = 180.0  # seconds; the fabric of eight cards takes about one minute
FIRMWARE_FOLDERS = ("usr/lib/firmware", "lib/firmware")
FIRMWARE_PATH = "module/firmware_class/parameters/path"
_CAP = re.compile(r"nvidia-cap([0-9]{1,7})")
_VERSION = re.compile(r"[0-9]+\.[0-9]+(?:\.[0-9]+)?")


@dataclass
class NodeScanner:
    """Looks at one node for one role, again and again."""

    role: str
    paths: HostPaths
    probe: DriverProbe
    own: Path = Path("/")
    """The container's own root; libraries and device nodes are looked for there by role `container`."""
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    trials: Trials | None = None
    """What tries CUDA, where that is wanted."""
    fabric_grace: float = FABRIC_GRACE
    """Seconds that NVLink's fabric may take to come up, from the first look that finds it is not ready."""
    _unready_since: float | None = None

    def recall(self, told: Mapping[str, str]) -> None:
        """Take up what an earlier process of this role published."""
        if self.trials is not None:
            self.trials.recall(told.get(key(self.role, CUDA_KEY), ""))

    async def close(self) -> None:
        """End every question that is under way."""
        await self.probe.close()
        if self.trials is not None:
            await self.trials.close()

    async def scan(self) -> Facts:
        """Everything that can be known now."""
        facts = await asyncio.to_thread(self._files)
        if facts.module is None:
            self.probe.forget()
            return facts
        answer = await self.probe.answer(facts.version, _fingerprint(facts), facts.module.load)
        told = replace(facts, driver=answer.driver, unavailable_reason=answer.reason, pending=answer.pending)
        if self.trials is not None:
            told = await self._tried(told, self.trials)
        return replace(told, fabric_due=self._is_overdue(told))

    async def _tried(self, facts: Facts, trying: Trials) -> Facts:
        """With what comes of CUDA on the cards for which NVML answers."""
        if facts.driver is None or facts.module is None:
            return replace(facts, cuda={})
        cards = marks.wanted(facts.driver.cards, facts.held, facts.boot_id, facts.module)
        answers = await trying.answers(cards, facts.version, _fingerprint(facts))
        noted = trying.marks(cards) if answers.keys() == cards.keys() else ""
        return replace(facts, cuda=answers, tried=tuple(cards), cuda_marks=noted)

    def _is_overdue(self, facts: Facts) -> bool:
        """Whether the fabric is not ready, and has not been for as long as it may take."""
        cards = facts.driver.cards if facts.driver is not None else {}
        here = [cards[address] for address in facts.held if address in cards]
        unfinished = any(card.fabric not in ("", COMPLETED) and not card.mig_enabled for card in here)
        if not unfinished and all(answer.code != NOT_READY for answer in (facts.cuda or {}).values()):
            self._unready_since = None
            return False
        now = time.monotonic()
        self._unready_since = now if self._unready_since is None else self._unready_since
        return now - self._unready_since >= self.fabric_grace

    def _files(self) -> Facts:
        places, host = self.paths, self.paths.root
        module = procfs.read(places.proc, places.sys)
        believed = procfs.believed(places.proc, places.sys)
        root = places.driver() if self.role == DRIVER else DriverRoot(path=self.own, devices=self.own)
        try:
            bus = sysfs.scan(places.sys)
        except sysfs.ScanError:
            bus = None
        tools = toolkit.read(host)
        return Facts(
            bus=bus,
            nouveau=(places.sys / "module" / NOUVEAU).exists(),
            module=module,
            form=procfs.form(places.proc) if believed else "",
            taken=_all_taken(places.proc) if believed or module is None else None,
            majors=procfs.majors(places.proc),
            layout=procfs.layout(places.proc) if module is not None else (),
            access=procfs.access(places.proc) if module is not None else frozenset(),
            caps=_caps(root.devices / "dev" / "nvidia-caps"),
            root=root,
            sought=str(places.driver_root),
            holds=self.role == DRIVER and hostfiles.inside(host, files.HOLD) is not None,
            libraries=libraries(root.path),
            nodes=nodes(root.devices / "dev"),
            firmware=self._firmware(module.version, root) if module is not None and self.role == DRIVER else None,
            specification=_specification(host),
            by_cdi=self.environment.get(names.VISIBLE_DEVICES) == names.NO_DEVICES,
            handler=_handler(tools),
            boot_id=procfs.boot_id(places.proc),
        )

    def _firmware(self, version: str, root: DriverRoot) -> bool | None:
        """Whether some firmware of the version is there; None where no folder of firmware can be seen."""
        more = hostfiles.text(self.paths.sys, FIRMWARE_PATH, sysfs.FILE_MAX).strip()
        folders = (*FIRMWARE_FOLDERS, *((more,) if more.startswith("/") else ()))
        roots = dict.fromkeys((root.path, self.paths.root))
        found = [path for each in roots for folder in folders if (path := hostfiles.inside(each, folder))]
        if not found:
            return None
        return any(name.startswith("gsp_") for path in found for name in _names(path / "nvidia" / version))


def libraries(root: Path) -> dict[str, Library] | None:
    """The driver's libraries below a root, empty where it has none; None where it does not show its `/usr`."""
    if hostfiles.inside(root, "usr") is None:
        return None
    found = {name: _library(root, name) for name in LIBRARIES}
    return found if any(known.versions or known.linked for known in found.values()) else {}


def _library(root: Path, name: str) -> Library:
    versions: set[str] = set()
    linked = ""
    for folder in library.FOLDERS:
        if (path := hostfiles.inside(root, folder)) is None or not path.is_dir():
            continue
        versions.update(filter(None, (_version(file, name) for file in _names(path))))
        target = hostfiles.inside(root, f"{folder}/{name}.1")
        linked = linked or (_version(target.name, name) if target is not None else "")
    return Library(tuple(sorted(versions)), linked)


def _version(file: str, name: str) -> str:
    """The version behind a library's name; empty where the file is another."""
    rest = file.removeprefix(f"{name}.")
    return rest if rest != file and _VERSION.fullmatch(rest) else ""


def nodes(folder: Path) -> dict[str, Node] | None:
    """The driver's files in a `/dev`; None where there is no such folder."""
    if not folder.is_dir():
        return None
    return {name: _node(folder / name) for name in _names(folder) if name.startswith("nvidia")}


def _caps(folder: Path) -> frozenset[int]:
    """N of the `nvidia-capN` there."""
    return frozenset(int(found[1]) for name in _names(folder) if (found := _CAP.fullmatch(name)))


def _node(path: Path) -> Node:
    try:
        found = path.stat()
    except OSError:
        return Node()
    if not stat.S_ISCHR(found.st_mode):
        return Node()
    return Node(os.major(found.st_rdev), os.minor(found.st_rdev))


def _specification(root: Path) -> Specification | None:
    """What the host's CDI files say; None where none of their folders' parents can be seen."""
    if not any(hostfiles.inside(root, parent) for parent in ("etc", "var/run", "run")):
        return None
    files: dict[str, str | None] = {}
    for folder in dict.fromkeys(path for name in CDI_FOLDERS if (path := hostfiles.inside(root, name)) is not None):
        for name in _names(folder):
            if name.endswith((".yaml", ".json")):
                files[f"/{folder.relative_to(root) / name}"] = hostfiles.text(folder, name, CDI_MAX) or None
    return cdi.read(files)


def _all_taken(proc: Path) -> dict[str, Taken]:
    return {address: _taken(told) for address, told in procfs.information(proc).items()}


def _handler(tools: Toolkit | None) -> str | None:
    """The runtime's handler; None where the host's configuration cannot be read, or not all of it."""
    if tools is None or ("runtime_handler" in tools.failed and not tools.runtime_handler):
        return None
    return tools.runtime_handler


def _taken(told: Mapping[str, str]) -> Taken:
    minor = told.get("Device Minor", "")
    number = int(minor) if re.fullmatch("[0-9]{1,4}", minor) else None
    return Taken(number, excluded=told.get("GPU Excluded", "").lower() == "yes")


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - as names, which need not be paths any more
    except OSError:
        return []


def _fingerprint(facts: Facts) -> Hashable:
    """What can be seen without asking the driver, and changes when its answer does."""
    cuda = (facts.libraries or {}).get(CUDA)
    load = facts.module.load if facts.module is not None else ""
    return facts.held, tuple(sorted(facts.nodes or ())), cuda, load, facts.layout, facts.root.library
