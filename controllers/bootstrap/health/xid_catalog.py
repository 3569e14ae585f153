"""What XIDs, error counters and throttle bits mean: `xid_catalog.toml`, read and checked once at import. Pure."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

if TYPE_CHECKING:
    from collections.abc import Mapping

Effect = Literal["fault", "warn", "app"]


@dataclass(frozen=True, slots=True)
class Meaning:
    """What an error means."""

    name: str
    effect: Effect
    do: str
    """What a person does about it."""
    source: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """The whole table."""

    xids: Mapping[int, Meaning]
    double_bit: Meaning
    remap_failure: Meaning
    remap_pending: Meaning
    throttle: Mapping[str, int]
    """Bits that mean that hardware or heat slows a card, by name."""

    def xid(self, number: int) -> Meaning:
        """What an error number means; one that nobody listed is a warning."""
        return self.xids.get(number) or Meaning("not in the table", "warn", "look it up in NVIDIA's XID catalog")


def read(text: str, file: str = "xid_catalog.toml") -> Table:
    """The table from its TOML; raises ValueError that names the entry."""
    try:
        root = tomllib.loads(text)
        sources = root["sources"]
        return Table(
            MappingProxyType({int(key): _meaning(f"xid {key}", row, sources) for key, row in root["xid"].items()}),
            _meaning("ecc", {"name": "Double-bit ECC error", **root["ecc"]["double_bit"]}, sources),
            _meaning("remap", {"name": "Row remapping has failed", **root["remap"]["failure"]}, sources),
            _meaning("remap", {"name": "A row waits to be remapped", **root["remap"]["pending"]}, sources),
            MappingProxyType({name: _bit(name, row, sources) for name, row in root["throttle"].items()}),
        )
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{file}: not TOML: {error}") from error
    except KeyError as error:
        raise ValueError(f"{file}: {error} is missing") from error
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def _meaning(entry: str, row: Mapping[str, Any], sources: Mapping[str, str]) -> Meaning:
    name, effect, do = row["name"], row["effect"], row["do"]
    if effect not in get_args(Effect):
        raise ValueError(f"{entry}: effect {effect!r} is none of {', '.join(get_args(Effect))}")
    if not name or not do:
        raise ValueError(f"{entry}: name and do must say something")
    if extra := sorted(row.keys() - {"name", "effect", "do", "source"}):
        raise ValueError(f"{entry}: unknown key {', '.join(extra)}")
    return Meaning(name, cast("Effect", effect), do, tuple(_known(entry, row, sources)))


def _bit(entry: str, row: Mapping[str, Any], sources: Mapping[str, str]) -> int:
    bit: int = row["bit"]
    if bit.bit_count() != 1:
        raise ValueError(f"{entry}: {bit:#x} is not one bit")
    _known(entry, row, sources)
    return bit


def _known(entry: str, row: Mapping[str, Any], sources: Mapping[str, str]) -> list[str]:
    if not (names := row["source"]) or any(name not in sources for name in names):
        raise ValueError(f"{entry}: source {names} is not in [sources]")
    return [sources[name] for name in names]


TABLE = read((Path(__file__).parent / "xid_catalog.toml").read_text(encoding="utf-8"))
