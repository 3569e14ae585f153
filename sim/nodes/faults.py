"""Faults of a simulated node: data in its annotation `sim.gpu.deckhouse.io/fault`.

Several are separated by commas; removing the annotation mends the node. They can be set with
`kubectl annotate node gpu-1 sim.gpu.deckhouse.io/fault=no-driver`. An address is a card's: `0000:3b:00.0`.

The driver and the hardware:

    no-driver               the driver is not loaded: NFD sees no module, discovery reports the cards without
                            what only the driver knows, and no `gpu.driver`; both validators fail, and the
                            exporter answers 503
    old-driver              the driver is 390.157 with CUDA 9.1, wherever a version is told
    no-nvml                 nothing is wrong with the driver, but discovery cannot ask NVML, as the chart installs it:
                            it tells of a card what sysfs and /proc do, and the rest the check of a container
    no-toolkit              `gpu.toolkit` says that the container toolkit is not installed; the check of a
                            container fails, since nobody brings it the cards
    runtime-waits           the toolkit's pod tells that containerd has to be restarted, and asks for its turn
    runtime-reverted        the toolkit's pod tells that containerd did not come back, and has its former file again
    runtime-restarted       the toolkit's pod tells that containerd runs with the handlers: no fault, but the end of one
    no-fabric               the fabric manager of the NVSwitches does not run: NVML tells so of cards from H100 on, and
                            CUDA answers 802; the check of a container fails. Nothing on machines without NVSwitches
    card-lost:<address>     the card fell off the bus: NFD, discovery, validators and exporter do not see it, and
                            its plugin withdraws it

What the exporter's text says of a card:

    xid:<address>=<number>  the gauge of the driver's last error shows the number. DCGM's keeps it until the driver
                            is loaded anew; so does this one, as long as the fault is there: taking it away is that
                            reload, and the gauge shows 0
    hot:<address>=<celsius> the temperature, and it does not waver
    ecc:<address>=<count>   double-bit errors, in the volatile counter and in the aggregate one
    remap:<address>         row remapping has failed
    slow:<address>          clocks are held down by heat: the bits of hardware slowdown and hardware thermal slowdown

How the exporter answers:

    exporter-silent         it takes the request, and a minute later closes the connection without an answer
    exporter-garbage        200 with a page of HTML
    exporter-empty          200 with a text without a card
    exporter-down           503

What runs on the node:

    driver-check-failed     the check of the driver on the host fails: its libraries are of another version
    container-check-failed  the check of a container fails: it got no device
    card-check-failed:<address>
                            the driver did not start that card: both checks pass for the others and name it; where it
                            is the node's only card they fail
    not-ready:<component>   the component's pod cannot pull its image: Pending, ImagePullBackOff. The component is the
                            value of the pods' label `gpu.deckhouse.io/component`
    no-agent                the pod of `nodeagent discover` is not ready, and says nothing new
    mig-fails:<address>     the driver does not divide the card: the MIG manager says what its program said
    mps-dies:<address>      the card's MPS control daemon dies, and does not come up again
    mig-slow:<address>=<seconds>
                            the MIG manager takes so long to change the card
    held:<address>          pod `elsewhere/holder` has the card by nvidia.com/gpu, which another device plugin gave it;
                            kubelet says so as long as the fault is there
    no-ack                  the device plugin changes nothing in `published`: what it offered it goes on offering

A driver that comes from an image (`sim.nodes.driver`): `driver=<kind>` befalls every version, and
`driver@<version>=<kind>`, as `driver@610.57.04=cuda802`, that one alone:

    pull-missing            the registry has no such image, whatever it is
    pull-slow               the image comes after two minutes
    header-missing          the running kernel's headers are nowhere to be had
    insmod-fails            the kernel refuses the module
    hang                    the installation does not come to an end
    wedged-going            a module is being unloaded for ever: nothing helps but a reboot
    disk-full               there is no room where the container runtime keeps its data
    holder-process          process python3, of no pod, holds the driver's devices open
    reboot-in-Installing    the node is rebooted once, half-way through
    card-lost               the driver does not start the last card
    cuda802, cuda803        CUDA answers that the system is not ready, or that driver and library do not fit
    fabric-mismatch         as fault no-fabric
    xid-after-10-s          the first card has error 79 ten seconds after the driver was loaded
    mig-gone                no MIG mode outlives the loading of the driver: cards come back undivided
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from controllers.api.validation import CONTAINER, DRIVER
from controllers.domain.pci import canonical
from sim.nodes import names

SILENT, GARBAGE, EMPTY, DOWN = "silent", "garbage", "empty", "down"
_EXPORTER: Final = {f"exporter-{how}": how for how in (SILENT, GARBAGE, EMPTY, DOWN)}
_CHECKS: Final = {f"{role}-check-failed": role for role in (DRIVER, CONTAINER)}
_FLAGS: Final = (
    "no-driver",
    "old-driver",
    "no-nvml",
    "no-toolkit",
    "runtime-waits",
    "runtime-reverted",
    "runtime-restarted",
    "no-fabric",
    "no-ack",
    "no-agent",
)
_CARDS: Final = ("card-lost", "card-check-failed", "remap", "slow", "mig-fails", "mps-dies", "held")
_NUMBERS: Final = ("xid", "hot", "ecc", "mig-slow")
DRIVER_KINDS: Final = frozenset(
    (
        "pull-missing",
        "pull-slow",
        "header-missing",
        "insmod-fails",
        "hang",
        "wedged-going",
        "disk-full",
        "holder-process",
        "reboot-in-Installing",
        "card-lost",
        "cuda802",
        "cuda803",
        "fabric-mismatch",
        "xid-after-10-s",
        "mig-gone",
    )
)
"""What can befall a driver that comes from an image."""


@dataclass(frozen=True, slots=True)
class Signs:
    """What the exporter's text says of a card that is not well."""

    xid: int = 0
    celsius: int | None = None
    ecc: int = 0
    remap: bool = False
    slow: bool = False


WELL: Final = Signs()


@dataclass(frozen=True, slots=True)
class Faults:
    """What is wrong with a node; cards are named by address."""

    driver: bool = False
    old_driver: bool = False
    no_nvml: bool = False
    """Whether discovery runs without device nodes and library of the driver."""
    toolkit: bool = False
    runtime_waits: bool = False
    """Whether the toolkit's pod asks for the node's turn to restart its container runtime."""
    runtime_reverted: bool = False
    """Whether it had to put the runtime's former file back."""
    runtime_restarted: bool = False
    """Whether the runtime has been restarted, and is well."""
    fabric: bool = False
    """Whether the fabric manager does not run."""
    silent_plugin: bool = False
    no_agent: bool = False
    lost: frozenset[str] = frozenset()
    not_started: frozenset[str] = frozenset()
    """Cards that the driver did not start."""
    failed_checks: frozenset[str] = frozenset()
    """Roles of the validator."""
    not_ready: frozenset[str] = frozenset()
    """Components."""
    exporter: str = ""
    """How the exporter answers, where not as it should."""
    signs: Mapping[str, Signs] = field(default_factory=lambda: MappingProxyType({}))
    held: frozenset[str] = frozenset()
    """Cards that a pod has by another device plugin's resource."""
    mig_fails: frozenset[str] = frozenset()
    """Cards that cannot be divided anew."""
    mps_dies: frozenset[str] = frozenset()
    """Cards whose MPS control daemon dies."""
    mig_slow: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Seconds that it takes to divide a card."""
    image_driver: frozenset[tuple[str, str]] = frozenset()
    """Version, empty for any, and kind of what befalls drivers that come from images."""
    unknown: tuple[str, ...] = ()
    """Words that are none of those above, for the log."""

    def of_driver(self, version: str) -> frozenset[str]:
        """What befalls this version of a driver that comes from an image."""
        return frozenset(kind for which, kind in self.image_driver if which in ("", version))


def of(annotations: Mapping[str, str]) -> Faults:
    """The faults that a node's annotations ask for."""
    words = sorted({word.strip() for word in annotations.get(names.FAULT, "").split(",")} - {""})
    cards = {word: found for word in words if (found := _of_card(word)) is not None}
    pulls = {word: word.removeprefix("not-ready:") for word in words if word.startswith("not-ready:")}
    drivers = {word: kind for word in words if (kind := _of_driver(word)) is not None}
    known = {*cards, *pulls, *drivers, *_FLAGS, *_EXPORTER, *_CHECKS}

    def named(kind: str) -> frozenset[str]:
        return frozenset(address for found, address, _ in cards.values() if found == kind)

    return Faults(
        driver="no-driver" in words,
        old_driver="old-driver" in words,
        no_nvml="no-nvml" in words,
        toolkit="no-toolkit" in words,
        runtime_waits="runtime-waits" in words,
        runtime_reverted="runtime-reverted" in words,
        runtime_restarted="runtime-restarted" in words,
        fabric="no-fabric" in words,
        silent_plugin="no-ack" in words,
        no_agent="no-agent" in words,
        lost=named("card-lost"),
        not_started=named("card-check-failed"),
        failed_checks=frozenset(_CHECKS[word] for word in words if word in _CHECKS),
        not_ready=frozenset(pulls.values()),
        exporter=next((_EXPORTER[word] for word in words if word in _EXPORTER), ""),
        signs=_signs(cards.values()),
        held=named("held"),
        mig_fails=named("mig-fails"),
        mps_dies=named("mps-dies"),
        mig_slow=MappingProxyType({where: number for kind, where, number in cards.values() if kind == "mig-slow"}),
        image_driver=frozenset(drivers.values()),
        unknown=tuple(word for word in words if word not in known),
    )


def _of_driver(word: str) -> tuple[str, str] | None:
    """Version and kind of a fault of drivers from images; None where the word is none."""
    about, _, kind = word.partition("=")
    driver, at, version = about.partition("@")
    return (version, kind) if driver == "driver" and kind in DRIVER_KINDS and bool(at) is bool(version) else None


def _of_card(word: str) -> tuple[str, str, int] | None:
    """Kind, address and number of a fault of one card; None where the word is none."""
    kind, _, rest = word.partition(":")
    text, equals, digits = rest.partition("=")
    address = canonical(text)
    if address is None:
        return None
    if kind in _NUMBERS and digits.isascii() and digits.isdigit():
        return kind, address, int(digits)
    return (kind, address, 0) if kind in _CARDS and not equals else None


def _signs(found: Iterable[tuple[str, str, int]]) -> Mapping[str, Signs]:
    signs: dict[str, Signs] = {}
    for kind, address, number in found:
        one = signs.get(address, WELL)
        if kind == "xid":
            signs[address] = replace(one, xid=number)
        elif kind == "hot":
            signs[address] = replace(one, celsius=number)
        elif kind == "ecc":
            signs[address] = replace(one, ecc=number)
        elif kind == "remap":
            signs[address] = replace(one, remap=True)
        elif kind == "slow":
            signs[address] = replace(one, slow=True)
    return MappingProxyType(signs)
