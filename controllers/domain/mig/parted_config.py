"""Layouts out of a configuration file of nvidia-mig-parted, as GPU Operator's MIG manager has it in a ConfigMap. Pure.

The format is NVIDIA/mig-parted's api/spec/v1: configurations by name, each a list of entries that say for which cards
(all, or indexes; a filter by PCI ids) MIG mode is on, and how many instances of which profile there are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import yaml

from controllers.domain.catalogue import canonical_profile
from controllers.domain.mig.records import Division

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

VERSION: Final = "v1"
TEXT_MAX: Final = 1 << 20
"""Characters of a file: a ConfigMap holds no more."""
_KEYS: Final = {"device-filter", "devices", "mig-enabled", "mig-devices"}


@dataclass(frozen=True, slots=True)
class PartedLayout:
    """One entry of a configuration: some cards, and how they are divided."""

    name: str
    """Of the configuration; entries of one name belong together."""
    devices: Literal["all"] | tuple[int, ...]
    """Places among the node's NVIDIA cards by PCI address."""
    device_filter: tuple[str, ...]
    """PCI ids of the cards that it is for, as a GPUDevice's `vendor:device` (10de:20b0); empty for every card."""
    mig_enabled: bool
    profiles: Mapping[str, int] = field(default_factory=dict)
    """Instances of each profile, in the driver's spelling."""

    @property
    def division(self) -> Division | None:
        """The same as a pool asks for it; None where the cards are not divided."""
        counted = tuple(sorted(self.profiles.items()))
        return Division(instances=counted) if self.mig_enabled and counted else None


@dataclass(frozen=True, slots=True)
class PartedProblem:
    """What in a file cannot be read, or is no such thing as we know."""

    text: str
    """With its place."""
    left_out: str = ""
    """The configuration that lacks an entry for it; empty where nothing is left out, or the whole file."""

    def __str__(self) -> str:
        """As a message has it."""
        return self.text


@dataclass(frozen=True, slots=True)
class PartedConfig:
    """The configurations of one file of mig-parted's."""

    layouts: tuple[PartedLayout, ...] = ()
    """In the file's order."""
    problems: tuple[PartedProblem, ...] = ()
    is_readable: bool = True
    """Whether it is a configuration at all; where not, the problem says why."""


def read_parted(text: str) -> PartedConfig:
    """The layouts of a file; what cannot be read is left out and named."""
    if len(text) > TEXT_MAX:
        return _unreadable(f"the file has {len(text)} characters; a ConfigMap holds {TEXT_MAX}")
    try:
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text)):
            return _unreadable("the file has YAML aliases (*name); write out what they stand for")
        found = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return _unreadable(f"the file is no YAML: {str(error).splitlines()[0]}")
    if not isinstance(found, dict) or not isinstance(found.get("mig-configs"), dict):
        return _unreadable("the file has no mig-configs")
    problems = [PartedProblem(f"{key}: not known") for key in found if key not in {"version", "mig-configs"}]
    if found.get("version") != VERSION:
        problems.append(PartedProblem(f"version is {found.get('version')!r}, and {VERSION} is read"))
    layouts: list[PartedLayout] = []
    for name, entries in found["mig-configs"].items():
        for at, entry in enumerate(entries if isinstance(entries, list) else [entries]):
            where = f"mig-configs.{name}[{at}]"
            made = _layout(str(name), entry, where, problems)
            if made is not None:
                layouts.append(made)
    return PartedConfig(tuple(layouts), tuple(problems))


def _unreadable(why: str) -> PartedConfig:
    return PartedConfig(problems=(PartedProblem(why),), is_readable=False)


def _layout(name: str, entry: Any, where: str, problems: list[PartedProblem]) -> PartedLayout | None:
    """An entry; None where it cannot be read, which `problems` then says."""
    if not isinstance(entry, dict):
        problems.append(PartedProblem(f"{where}: a mapping is expected, found {entry!r}", name))
        return None
    problems += [PartedProblem(f"{where}.{key}: not known") for key in entry if key not in _KEYS]
    try:
        return PartedLayout(
            name,
            _devices(entry.get("devices")),
            tuple(_filters(entry.get("device-filter"))),
            _enabled(entry.get("mig-enabled")),
            _profiles(entry.get("mig-devices")),
        )
    except ValueError as error:
        problems.append(PartedProblem(f"{where}: {error}", name))
        return None


def _devices(found: Any) -> Literal["all"] | tuple[int, ...]:
    if found == "all":
        return "all"
    if isinstance(found, list) and all(type(each) is int and each >= 0 for each in found):
        return tuple(found)
    raise ValueError(f"devices is {found!r}; all or a list of indexes is expected")


def _filters(found: Any) -> Iterable[str]:
    """PCI ids: mig-parted writes device and vendor as one number, 0x20B010DE."""
    if found is None:
        return
    for each in found if isinstance(found, list) else [found]:
        try:
            number = each if type(each) is int else int(str(each), 0)
        except ValueError as error:
            raise ValueError(f"device-filter is {each!r}; a number such as 0x20B010DE is expected") from error
        if not 0 < number < 1 << 32:
            raise ValueError(f"device-filter is {each!r}; device and vendor have four digits each")
        yield f"{number & 0xFFFF:04x}:{number >> 16:04x}"


def _enabled(found: Any) -> bool:
    if isinstance(found, bool):
        return found
    raise ValueError(f"mig-enabled is {found!r}; true or false is expected")


def _profiles(found: Any) -> dict[str, int]:
    counted: dict[str, int] = {}
    items = None if found is None else found.items() if isinstance(found, dict) else ()
    if items == ():
        raise ValueError(f"mig-devices is {found!r}; profiles with numbers are expected")
    for text, count in items or ():
        name = canonical_profile(str(text))
        if name is None:
            raise ValueError(f"{text!r} is no MIG profile of a GPU")
        if type(count) is not int or count < 0:
            raise ValueError(f"{text} is {count!r}; a number of instances is expected")
        if count:
            counted[name] = counted.get(name, 0) + count
    return counted
