"""Our NodeFeatureRule: the labels of cards, driver modules, kernel and system that NFD is to set. Pure.

Written for NFD from 0.15 on (`matchName`). How NFD evaluates it, from its sources
(pkg/apis/nfd/nodefeaturerule, pkg/nfd-master):

- A template sees what its term matched: `.pci.device` is a list of attribute maps; attribute
  features are lists of `{Name, Value}`, flags lists of `{Name}`. Every line is `key=value`.
- Each element of `matchAny` runs the template for itself: cards of two vendors would get the
  same numbers. So one term matches what may be a card of any vendor, and the template tells
  cards from integrated displays and counts them, in the length of a string: templates cannot
  add without sprig's functions, which only later versions of NFD have.
- `missingkey=error`: an attribute that the template names has to be required by the term.
- A label that Kubernetes would refuse is dropped and counted as NFD's failure; a regular
  expression on the value lets none of ours come that far. Rules that give the same label
  replace each other's, in their order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pydantic import Field

from controllers.api import names
from controllers.api.meta import KubeObject
from controllers.api.record import record
from controllers.api.resources import NODEFEATURERULE
from controllers.domain.catalogue import VENDORS
from controllers.inventory.rule.expected_labels import DEVICE_ID, KERNEL, OS, SEATS, VALUE, by_weight, drivers
from controllers.runtime.plan import Apply, Plan, Ref

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controllers.domain.catalogue import Vendor

Json = dict[str, Any]
LABELS: Final = {"app.kubernetes.io/name": names.MODULE, "app.kubernetes.io/managed-by": "deckhouse"}
WITHOUT_NFD: Final = 5.0
"""Seconds between two looks at whether the kind is served by now; looking costs no request."""


@record
class NodeFeatureRule(KubeObject):
    """A NodeFeatureRule with its whole spec, to see what somebody else changed in it."""

    spec: dict[str, Any] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ObservedRule:
    """What is known of our rule."""

    rule: NodeFeatureRule | None
    served: bool = True
    """Whether the API server has the kind at all."""


def plan(seen: ObservedRule, vendors: Mapping[str, Vendor] = VENDORS) -> Plan:
    """What to write so that the rule is there as we want it; others' labels on it stay."""
    if not seen.served:
        return Plan(requeue_after=WITHOUT_NFD)
    if seen.rule is not None and (seen.rule.metadata.deletion_timestamp or _as_wanted(seen.rule, vendors)):
        return Plan()
    return Plan((Apply(Ref(NODEFEATURERULE, names.NODE_FEATURE_RULE), manifest(vendors)),))


def _as_wanted(rule: NodeFeatureRule, vendors: Mapping[str, Vendor]) -> bool:
    """Our labels are there, and the rules are ours: their list is one value."""
    return rule.metadata.labels.items() >= LABELS.items() and rule.spec.get("rules") == _rules(vendors)


def manifest(vendors: Mapping[str, Vendor] = VENDORS) -> Json:
    """The object, but for what names it."""
    return {"metadata": {"labels": dict(LABELS)}, "spec": {"rules": _rules(vendors)}}


def _rules(vendors: Mapping[str, Vendor]) -> list[Json]:
    kernel = [
        _value(f"deckhouse.system.kernel-{key}", "kernel.version", key, f"kernel.version.{key}") for key in KERNEL
    ]
    system = [_value(f"deckhouse.system.os-{key.lower()}", "system.osrelease", key, f"os.{key.lower()}") for key in OS]
    return [_cards(vendors), *(_driver(vendor) for vendor in by_weight(vendors)), *kernel, *system]


def _cards(vendors: Mapping[str, Vendor]) -> Json:
    """The cards of all vendors, numbered through."""
    classes = {kind for vendor in vendors.values() for kind in vendor.classes}
    seat = f'{names.PREFIX}device.{{{{ printf "%02d" (len $n) }}}}'
    lines = [
        '{{ $n := "" }}{{ range .pci.device }}' + f"{{{{ if {_any(_is_of(v) for v in vendors.values())} }}}}",
        f"{{{{ if lt (len $n) {SEATS} }}}}",
        *(f"{seat}.{key}={{{{ .{key} }}}}" for key in ("vendor", "device", "class")),
        '{{ end }}{{ $n = printf "%s|" $n }}{{ end }}{{ end }}{{ if $n }}',
        f"{names.LABEL_PRESENT}=true",
        f"{names.LABEL_DEVICE_COUNT}={{{{ len $n }}}}",
        "{{ end }}",
    ]
    return {
        "name": "deckhouse.gpu.cards",
        "labelsTemplate": "\n".join(lines) + "\n",
        "matchFeatures": [_pci(vendors, classes)],
    }


def _is_of(vendor: Vendor) -> str:
    """A template's condition: the element is a card of a vendor."""
    parts = [f'(eq .vendor "{vendor.id}")', f"(eq .class {_quoted(vendor.classes)})"]
    if vendor.integrated:
        parts.append(f"(not (eq .device {_quoted(vendor.integrated)}))")
    if vendor.devices:
        parts.append(f"(eq .device {_quoted(vendor.devices)})")
    return f"and {' '.join(parts)}"


def _any(conditions: Iterable[str]) -> str:
    return "or " + " ".join(f"({condition})" for condition in conditions)


def _driver(vendor: Vendor) -> Json:
    """The loaded modules; of a driver that serves integrated displays too, only beside a card."""
    rule: Json = {"name": f"deckhouse.gpu.{vendor.name}-driver"}
    lines = [
        "{{ range .kernel.loadedmodule }}",
        f"{names.PREFIX}driver.module.{{{{ .Name }}}}=true",
        f"{{{{ if eq .Name {_quoted(drivers(vendor))} }}}}",
        f"{names.PREFIX}driver.name={{{{ .Name }}}}",
        "{{ end }}{{ end }}",
    ]
    terms = [{"feature": "kernel.loadedmodule", "matchName": _in(vendor.modules)}]
    if vendor.has_displays:
        found = (
            f'{{{{ $n := "" }}}}{{{{ range .pci.device }}}}{{{{ if {_is_of(vendor)} }}}}{{{{ $n = "|" }}}}{{{{ end }}}}'
        )
        lines = [found + "{{ end }}{{ if $n }}", *lines, "{{ end }}"]
        terms.append(_pci([vendor.id], vendor.classes))
    return {**rule, "labelsTemplate": "\n".join(lines) + "\n", "matchFeatures": terms}


def _value(name: str, feature: str, key: str, label: str) -> Json:
    """One element of an attribute feature, where it may be a label's value."""
    template = f"{{{{ range .{feature} }}}}{names.PREFIX}{label}={{{{ .Value }}}}{{{{ end }}}}\n"
    term = {"feature": feature, "matchExpressions": {key: _regexp(VALUE)}}
    return {"name": name, "labelsTemplate": template, "matchFeatures": [term]}


def _pci(vendors: Iterable[str], classes: Iterable[str]) -> Json:
    """What may be a card, with the attributes that templates name."""
    wanted = {"vendor": _in(vendors), "class": _in(classes), "device": _regexp(DEVICE_ID)}
    return {"feature": "pci.device", "matchExpressions": wanted}


def _in(values: Iterable[str]) -> Json:
    return {"op": "In", "value": sorted(values)}


def _regexp(pattern: str) -> Json:
    return {"op": "InRegexp", "value": [pattern]}


def _quoted(words: Iterable[str]) -> str:
    return " ".join(f'"{word}"' for word in sorted(words))
