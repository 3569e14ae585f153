"""What the definitions of the module's first stage promised, as facts of each property; and how they are made again.

    python -m tests.api.first_stage    write first_stage.json; needs the history (git fetch --unshallow)

They are kept as a file so that a shallow clone can compare, too. The first stage is over: its facts change only when
this file learns to read more of a definition.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).resolve().parents[2]
COMMIT: Final = "2c8dc3d"
"""The first stage of the module, whole."""
NAMES: Final = ("gpudevice", "gpunodeinventory", "gpupool")
FACTS: Final = Path(__file__).with_name("first_stage.json")
INSIDE: Final = ("properties", "items", "additionalProperties")
TEXTS: Final = ("description", "x-kubernetes-validations")

Facts = dict[str, dict[str, Any]]
"""Keywords of each property, by its path: `.spec.name`, `.status.nodes[].name`, `.metadata{}` for values of a map."""


def properties(schema: dict[str, Any], path: str = "") -> Facts:
    """The facts of a schema and of all that is in it; its validations are messages by rule."""
    own = {key: value for key, value in schema.items() if key not in (*INSIDE, *TEXTS)}
    if rules := schema.get("x-kubernetes-validations"):
        own["rules"] = {each["rule"]: each["message"] for each in rules}
    found = {path: own}
    for name, inner in schema.get("properties", {}).items():
        found |= properties(inner, f"{path}.{name}")
    for keyword, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(inner := schema.get(keyword), dict):
            found |= properties(inner, path + mark)
        elif inner is not None:
            own[keyword] = inner
    return found


def read(text: str | bytes) -> dict[str, Any]:
    """What is compared of one definition: its names, its scope, the columns and properties of v1alpha1."""
    spec = yaml.safe_load(text)["spec"]
    (version,) = (each for each in spec["versions"] if each["name"] == "v1alpha1")
    return {
        "names": spec["names"],
        "scope": spec["scope"],
        "served": [version["served"], version["storage"], version["subresources"]],
        "columns": version["additionalPrinterColumns"],
        "properties": properties(version["schema"]["openAPIV3Schema"]),
    }


def main() -> None:
    """Write the facts anew, a property in a line."""
    made = {}
    for name in NAMES:
        shown = ["git", "show", f"{COMMIT}:crds/{name}.yaml"]
        made[name] = read(subprocess.run(shown, cwd=ROOT, capture_output=True, check=True).stdout)
    FACTS.write_text(text(made), "utf-8")


def text(made: dict[str, Any]) -> str:
    """JSON that shows in a comparison of two versions which property changed."""
    kinds = []
    for name, told in made.items():
        lines = [f"   {json.dumps(path)}: {json.dumps(facts)}" for path, facts in told["properties"].items()]
        others = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in told.items() if key != "properties"]
        inner = ",\n".join([*others, '  "properties": {\n' + ",\n".join(lines) + "\n  }"])
        kinds.append(f" {json.dumps(name)}: {{\n{inner}\n }}")
    return "{\n" + ",\n".join(kinds) + "\n}\n"


if __name__ == "__main__":
    main()
