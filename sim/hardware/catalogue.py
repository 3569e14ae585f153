"""Reads the catalogue; a mistake in it is one sentence a place, with the file's name.

Reading has no side effects; a catalogue is immutable and may be shared.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sim.hardware.shape import Hex4, Shape
from tools.errors import UserError

T = TypeVar("T", bound=BaseModel)
HERE = Path(__file__).parent


class Bridges(BaseModel):
    """Equal devices of a chipset, of which only the number matters."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    vendor: Hex4
    device: Hex4
    class_: Hex4 = Field(alias="class")
    count: int = Field(gt=0)


class Host(BaseModel):
    """Processor and chipset of a machine."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    vendor_id: str
    family: int
    model: int
    bridges: tuple[Bridges, ...] = ()
    features: str


class System(BaseModel):
    """An operating system of simulated machines; lists are words in one text."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kernel: str
    os_image: str
    release: Mapping[str, str]
    modules: str
    driver_modules: str
    config: str


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Shapes by name, and what they refer to."""

    shapes: Mapping[str, Shape]
    hosts: Mapping[str, Host]
    system: System
    """That of machines that name none."""
    systems: Mapping[str, System] = field(default_factory=dict)
    """By `<ID><VERSION_ID>`, of RHEL and its kin with the major version alone."""

    def system_named(self, name: str) -> System:
        """The system of that name, the usual one for no name; UserError that lists the names there are."""
        if name and name not in self.systems:
            raise UserError(f"no system {name!r}", expected=f"one of {', '.join(sorted(self.systems))}")
        return self.systems[name] if name else self.system

    def shape(self, name: str) -> Shape:
        """The shape of that name; UserError that lists the names there are."""
        if name not in self.shapes:
            raise UserError(f"no node shape {name!r}", expected=f"one of {', '.join(sorted(self.shapes))}")
        return self.shapes[name]


def load(folder: Path = HERE) -> Catalogue:
    """Read `hosts.toml`, `systems.toml` and `shapes/*.toml`; raises UserError that names file, place and mistake."""
    path, kinds = folder / "hosts.toml", folder / "systems.toml"
    raw = _toml(path)
    usual = raw.pop("system", {})
    system = _validated(System, usual, path, "system.")
    systems = {name: _validated(System, usual | value, kinds, f"{name}.") for name, value in _toml(kinds).items()}
    hosts = {name: _validated(Host, value, path, f"{name}.") for name, value in raw.items()}
    shapes = {}
    for file in sorted((folder / "shapes").glob("*.toml")):
        shape = _validated(Shape, {**_toml(file), "name": file.stem}, file)
        if shape.host not in hosts:
            raise UserError(f"{file}: host: no {shape.host!r}", expected=f"one of {', '.join(sorted(hosts))}")
        shapes[shape.name] = shape
    return Catalogue(shapes, hosts, system, systems)


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not TOML: {error}") from error


def _validated(model: type[T], values: Any, path: Path, prefix: str = "") -> T:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        lines = [
            f"{path}: {prefix}{'.'.join(map(str, e['loc']))}: {e['msg']} (found {e['input']!r:.80})"
            for e in error.errors()
        ]
        raise UserError("\n".join(lines), do="mend the catalogue") from error
