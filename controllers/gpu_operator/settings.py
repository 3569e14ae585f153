"""Settings of the module that do what a ClusterPolicy asks of toolkit, GFD, DCGM and its exporter. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controllers.api import components
from controllers.api.image_reference import split_reference
from controllers.api.record import json_name
from controllers.api.settings import parse_settings
from controllers.gpu_operator.credentials import may_be_secret, suspects
from controllers.gpu_operator.reasons import UPSTREAM

if TYPE_CHECKING:
    from controllers.api.component import Component
    from controllers.gpu_operator.remarks import Fields

PARTS: Final = (components.TOOLKIT, components.GFD, components.DCGM, components.EXPORTER)
"""Components that run NVIDIA's own images; each has the name that its setting has as its section."""
OFF_BY_DEFAULT: Final = frozenset({components.DCGM})
"""GPU Operator leaves these off where nobody asks for them, so that `enabled: false` is no wish of anybody's."""
RUNTIME_ENV: Final = ("CONTAINERD_", "CRIO_", "DOCKER_", "RUNTIME")
"""How variables begin by which GPU Operator's toolkit finds the runtime: here the node's agent finds it."""
_LEAKS: Final = "whoever may read the ModuleConfig reads it, and no component takes variables from a Secret"
DRIVER_ROOT: Final = "/run/nvidia/driver"


def of_policy(fields: Fields) -> dict[str, Any]:
    """The settings, without those that are the module's own anyway."""
    known = {one.name: one for one in components.COMPONENTS}
    bootstrap = {_section(known[name]): own for name in PARTS if (own := _component(fields, known[name]))}
    made: dict[str, Any] = {"bootstrap": bootstrap} if bootstrap else {}
    if not fields.flag("cdi.enabled", usual=True):
        made["deviceStrategy"] = "DeviceSpecs"
    if (root := fields.text("hostPaths.driverInstallDir")) not in ("", DRIVER_ROOT):
        made["nodeAgent"] = {"discover": {"driverRoot": root}}
    return made | _compatibility(fields)


def _compatibility(fields: Fields) -> dict[str, Any]:
    """The setting by which metrics of GPU Operator's names are exported, where the module has it."""
    path, wanted = "nodeStatusExporter.enabled", {"monitoring": {"compatibility": True}}
    if not fields.flag(path, usual=False):
        return {}
    if _mistake(wanted):
        fields.remark("NoCounterpart", path, "readiness of nodes is exported under the module's own names", value=True)
        return {}
    return wanted


def _component(fields: Fields, component: Component) -> dict[str, Any]:
    """The settings of one component."""
    at, name = _section(component), component.name
    made: dict[str, Any] = {}
    enabled = fields.flag(f"{at}.enabled", usual=name not in OFF_BY_DEFAULT)
    if not enabled and name not in OFF_BY_DEFAULT:
        for word in ("repository", "image", "version", "env", "args", "resources"):
            fields.take(f"{at}.{word}")
        return {"enabled": False}
    made |= _image(fields, component)
    if env := _env(fields, component):
        made["env"] = env
    if args := _args(fields, at):
        made["args"] = args
    if resources := _resources(fields, at):
        made["resources"] = resources
    return _valid(fields, component, made)


def _section(component: Component) -> str:
    """The component's group of fields in a ClusterPolicy, and of settings here."""
    return json_name(component.setting)


def _image(fields: Fields, component: Component) -> dict[str, Any]:
    """Where the image lies, where that is a registry of people's own; NVIDIA's is the module's choice."""
    at = _section(component)
    repository, image, version = (fields.text(f"{at}.{word}") for word in ("repository", "image", "version"))
    path, usual = split_reference(component.image or "")
    if repository.startswith(UPSTREAM) or not (repository or image):
        if version and version != usual:
            reason = f"the module brings its own version {usual}, of the set that it was tested with"
            fields.remark("Different", f"{at}.version", reason, version)
        return {}
    made = {"repository": repository} if repository else {}
    made |= {"image": image} if image and image != path.rpartition("/")[2] else {}
    if not version or version == usual:
        return made
    if component.minimum is not None and _mistake({"bootstrap": {at: made | {"version": version}}}):
        reason = f"the module needs a newer one: mirror {component.image} to {repository}"
        fields.remark("ToDo", f"{at}.version", reason, version)
        return made
    return made | {"version": version}


def _env(fields: Fields, component: Component) -> list[dict[str, str]]:
    made: list[dict[str, str]] = []
    path = f"{_section(component)}.env"
    for variable in fields.rows(path):
        name, value = str(variable.get("name")), variable.get("value", "")
        if isinstance(value, str) and may_be_secret(name, value):
            reason = f"its value may be a credential, and is left out ({_LEAKS}). If it is none, set bootstrap.{path}"
            fields.remark("ToDo", path, reason, name)
            continue
        if "valueFrom" in variable or not isinstance(value, str):
            reason = "a component's variables have values that stand in the settings"
        elif component.name == components.TOOLKIT and name.startswith(RUNTIME_ENV):
            reason = "the node's agent finds the container runtime by itself"
        elif _mistake({"bootstrap": {_section(component): {"env": [{"name": name, "value": value}]}}}):
            reason = "the variable is the module's own"
        else:
            made.append({"name": name, "value": value})
            continue
        fields.remark("NoCounterpart", path, reason, name)
    return made


def _args(fields: Fields, at: str) -> list[str]:
    """The arguments, all or none: what one of them means hangs on those beside it."""
    found = fields.words(f"{at}.args")
    if not (suspected := suspects(found)):
        return found
    reason = f"they may hold a credential, so that all are left out ({_LEAKS}); set bootstrap.{at}.args by hand"
    fields.remark("ToDo", f"{at}.args", reason, ", ".join(suspected))
    return []


def _resources(fields: Fields, at: str) -> dict[str, dict[str, str]]:
    made: dict[str, dict[str, str]] = {}
    for part in ("requests", "limits"):
        for name, value in fields.group(f"{at}.resources.{part}").items():
            if reason := _mistake({"bootstrap": {at: {"resources": {part: {name: str(value)}}}}}):
                fields.remark("NoCounterpart", f"{at}.resources.{part}.{name}", reason, value)
            else:
                made.setdefault(part, {})[name] = str(value)
    return made


def _valid(fields: Fields, component: Component, made: dict[str, Any]) -> dict[str, Any]:
    """What the module takes; what it would refuse as a whole is left out with the reason."""
    if reason := _mistake({"bootstrap": {_section(component): made}}):
        fields.remark("Refused", _section(component), reason)
        return {}
    return made


def _mistake(settings: dict[str, Any]) -> str:
    """Why the module would refuse settings; empty where it takes them. What it found, maybe a secret, is kept back."""
    try:
        parse_settings(settings)
    except ValueError as error:
        return str(error).partition(" (found ")[0]
    return ""
