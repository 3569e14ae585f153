"""What backs a fact on record: the word of a report, or of GFD's labels, that says it. For "no guess"."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from controllers.api.names import GFD_PREFIX
from controllers.domain.precision import CAPABILITIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

ADDRESS = re.compile(r"0*([0-9a-f]{4,8})(:[0-9a-f]{2}:[01][0-9a-f]\.[0-7])")


@dataclass
class Heard:
    """Everything that anybody has ever said of a node's cards."""

    elements: list[Mapping[str, str]] = field(default_factory=list)
    gfd: list[Mapping[str, str]] = field(default_factory=list)

    def report(self, cards: Iterable[Mapping[str, str]]) -> None:
        """A report of the agent's."""
        self.elements += cards

    def raw(self, report: Mapping[str, Any]) -> None:
        """Whatever was put into the place of one: what in it is an element of cards."""
        try:
            cards = [one["attributes"] for one in report["spec"]["features"]["instances"]["gpu.device"]["elements"]]
        except (KeyError, TypeError):
            return
        self.elements += [one for one in cards if isinstance(one, dict)]

    def labels(self, labels: Mapping[str, str]) -> None:
        """The node's labels."""
        self.gfd.append(labels)

    def check(self, devices: Iterable[Mapping[str, Any]]) -> None:
        """Each fact of each card has been said, of this card or of the whole node, in the words that are on record."""
        for device in devices:
            hardware = device["status"].get("hardware")
            if hardware is not None:
                self._card(hardware)

    def _card(self, hardware: Mapping[str, Any]) -> None:
        address = hardware["pci"]["address"]
        own = [one for one in self.elements if _is(address, one.get("address"))]

        def said(attribute: str, fits: Callable[[str], bool]) -> bool:
            return any(fits(text) for one in own if isinstance(text := one.get(attribute), str))

        def labelled(name: str, fits: Callable[[str], bool]) -> bool:
            return any(fits(labels.get(f"{GFD_PREFIX}gpu.{name}", "")) for labels in self.gfd)

        pci = hardware["pci"]
        for key in ("vendor", "device"):
            assert said(key, partial(_is_hex, pci[key])), key
        assert said("class", lambda text: text.strip().lower().removeprefix("0x").startswith(pci["class"]))
        _verbatim(hardware, "uuid", lambda value: said("uuid", lambda text: text.strip() == value))
        _verbatim(
            hardware,
            "product",
            lambda value: (
                said("product", lambda text: text.strip() == value)
                or labelled("product", lambda text: text.removesuffix("-SHARED") == value)
            ),
        )
        _verbatim(
            hardware,
            "memoryMiB",
            lambda value: (
                said("memory_mib", lambda text: _number(text) == value)
                or labelled("memory", lambda text: _number(text) == value)
            ),
        )
        _verbatim(hardware, "numaNode", lambda value: said("numa_node", lambda text: _number(text) == value))
        if (capability := hardware.get("computeCapability")) is not None:
            for key in ("major", "minor"):
                value = capability[key]
                is_told = partial(_is_number, value)
                assert said(f"compute_{key}", is_told) or labelled(f"compute.{key}", is_told), capability
        # Precision is a table's word about the compute capability, and of nothing else.
        known = CAPABILITIES.get((capability["major"], capability["minor"])) if capability else None
        assert hardware.get("precision") == ({"supported": list(known[1])} if known else None)
        if (mig := hardware.get("mig")) is not None:
            _mig(mig, said)
        for peer in (hardware.get("nvlink") or {}).get("peers", ()):
            assert said("nvlink_peers", partial(_is_among, peer)), peer
        for count in (hardware.get("nvlink") or {}).get("links", ()):
            assert said("nvlink_links", partial(_has_number, count)), count
        assert (root := hardware["pci"].get("root")) is None or said("pci_root", lambda text: text.strip() == root)


def _is_hex(value: str, text: str) -> bool:
    return text.strip().lower().removeprefix("0x") == value


def _is_number(value: int, text: str) -> bool:
    return _number(text) == value


def _has_number(count: int, text: str) -> bool:
    return count in [_number(part) for part in text.split(",")]


def _is_among(address: str, text: str) -> bool:
    return any(_is(address, part) for part in text.split(","))


def _is_part(profile: str, text: str) -> bool:
    return profile in _parts(text)


def _is_counted(instances: str, text: str) -> bool:
    return instances in {_counted(part) for part in _parts(text)}


def _mig(mig: Mapping[str, Any], said: Callable[[str, Callable[[str], bool]], bool]) -> None:
    yes, no = {"true", "enabled", "1"}, {"false", "disabled", "0"}
    assert said("mig_capable", lambda text: text.strip().lower() in (yes if mig["capable"] else no))
    assert not mig["enabled"] or said("mig_mode", lambda text: text.strip().lower() in yes)
    for profile in mig["profilesSupported"]:
        assert said("mig_profiles", partial(_is_part, profile)), profile
    for one in mig["types"]:
        assert said("mig_instances", partial(_is_counted, f"{one['name']}={one['count']}")), one
    kinds = len(mig["types"])
    assert mig["strategy"] == ("none" if not kinds else "single" if kinds == 1 else "mixed")


def _verbatim(hardware: Mapping[str, Any], key: str, backed: Callable[[Any], bool]) -> None:
    if hardware.get(key) is not None:
        assert backed(hardware[key]), f"{key}={hardware[key]!r} was never said"


def _is(address: str, text: object) -> bool:
    found = ADDRESS.fullmatch(text.strip().lower()) if isinstance(text, str) else None
    return found is not None and f"{found[1].lstrip('0').rjust(4, '0')}{found[2]}" == address


def _parts(text: str) -> set[str]:
    return {part.strip().lower() for part in text.split(",")}


def _counted(part: str) -> str:
    """`1g.10gb = 07` as `1g.10gb=7`."""
    name, _, count = part.partition("=")
    return f"{name.strip()}={_number(count)}"


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"\s*[0-9]{1,10}\s*", text) else None
