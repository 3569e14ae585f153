"""What the settings change in a component's first container: arguments, environment, resources. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api.quantity import canonical

if TYPE_CHECKING:
    from controllers.api.component_settings import ComponentResources, ComponentSettings, EnvironmentVariable
    from controllers.components.podspec import Json


def customised(pod: Json, chosen: ComponentSettings) -> Json:
    """The pod with what the settings say of its first container, which is the component; further ones help it."""
    container, *helpers = pod["containers"]
    made = dict(container)
    if chosen.args:
        made["args"] = [*container.get("args", ()), *chosen.args]
    if chosen.env:
        made["env"] = _environment(container.get("env", []), chosen.env)
    if chosen.resources is not None:
        made["resources"] = _resources(chosen.resources)
    return pod | {"containers": [made, *helpers]}


def _environment(ours: list[Json], theirs: list[EnvironmentVariable]) -> list[Json]:
    """Ours with theirs in place of those of the same name, and then the others."""
    wanted = {variable.name: _variable(variable) for variable in theirs}
    names = {variable["name"] for variable in ours}
    return [wanted.get(one["name"], one) for one in ours] + [one for name, one in wanted.items() if name not in names]


def _variable(variable: EnvironmentVariable) -> Json:
    # The API server drops an empty value, and what is there is compared with what we wrote.
    return {"name": variable.name} | ({"value": variable.value} if variable.value else {})


def _resources(chosen: ComponentResources) -> Json:
    kinds = {"requests": chosen.requests, "limits": chosen.limits}
    return {
        kind: {name: canonical(quantity) for name, quantity in quantities.items()}
        for kind, quantities in kinds.items()
        if quantities
    }
