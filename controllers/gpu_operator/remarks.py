"""Remarks of an import: what was not taken over, and what people have to do beside it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from controllers.explain.faults import UsageError
from controllers.gpu_operator.known import is_known, leaves

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.gpu_operator.reasons import Reasons

Kind = Literal["Unknown", "NoCounterpart", "Refused", "Different", "ToDo"]
"""Unknown: no field of GPU Operator 26.7, or nothing that mig-parted knows. NoCounterpart: nothing here does this.

Refused: cannot be as it is there. Different: taken over, with another effect. ToDo: what a person does."""
SHOWN_MAX: Final = 60
"""Characters of a value that a remark repeats."""


_KINDS: Final = (
    *((bool, "true or false"), (dict, "a group of fields"), (list, "a list of others"), (str, "a text")),
    (int | float, "a number"),
)


@dataclass(frozen=True, slots=True)
class Remark:
    """A remark on one field, or on one object."""

    kind: Kind
    about: str
    """The object with the field's path below spec, as `ClusterPolicy cluster-policy: driver.args`."""
    reason: str
    value: str = ""
    """The value that it has there, shortened; empty where that may be a secret or says nothing."""


@dataclass(slots=True)
class Fields:
    """The spec of one object, of which is known what was taken; raises UsageError where a value is of another type."""

    about: str
    """`<kind> <name>`."""
    spec: Mapping[str, Any]
    remarks: list[Remark] = field(default_factory=list)
    _taken: set[str] = field(default_factory=set)

    def take(self, path: str) -> Any:
        """The value at a path, which is then taken over; None where there is none."""
        self._taken.add(path)
        return self._at(path)

    def has(self, path: str) -> bool:
        """Whether there is something at a path, which is not taken by that."""
        return self._at(path) is not None

    def _at(self, path: str) -> Any:
        here: Any = self.spec
        for key in path.split("."):
            if not isinstance(here, dict):
                return None
            here = here.get(key)
        return here

    def text(self, path: str) -> str:
        """A text; empty where there is none. Numbers that a file forgot to quote are texts, too."""
        found = self.take(path)
        if isinstance(found, bool) or not isinstance(found, str | int | float | None):
            raise self._mistake(path, "a text", found)
        return "" if found is None else str(found)

    def flag(self, path: str, usual: bool) -> bool:
        """The truth value at a path; `usual` where there is none."""
        found = self.take(path)
        if not isinstance(found, bool | None):
            raise self._mistake(path, "true or false", found)
        return usual if found is None else found

    def number(self, path: str, usual: int) -> int:
        """The whole number at a path; `usual` where there is none."""
        found = self.take(path)
        if isinstance(found, bool) or not isinstance(found, int | None):
            raise self._mistake(path, "a whole number", found)
        return usual if found is None else found

    def group(self, path: str) -> Mapping[str, Any]:
        """Fields or labels by name; empty where there are none."""
        found = self.take(path)
        if not isinstance(found, dict | None):
            raise self._mistake(path, "a group of fields", found)
        return found or {}

    def rows(self, path: str) -> list[Mapping[str, Any]]:
        """The list of groups of fields at a path; empty where there is none."""
        found = self.take(path)
        if not isinstance(found, list | None) or not all(isinstance(one, dict) for one in found or ()):
            raise self._mistake(path, "a list of groups of fields", found)
        return found or []

    def words(self, path: str) -> list[str]:
        """The list of texts at a path; empty where there is none."""
        found = self.take(path)
        if not isinstance(found, list | None) or not all(isinstance(one, str) for one in found or ()):
            raise self._mistake(path, "a list of texts", found)
        return found or []

    def remark(self, kind: Kind, path: str, reason: str, value: Any = None) -> None:
        """Say something of a field, which is taken then."""
        self._taken.add(path)
        self.remarks.append(Remark(kind, f"{self.about}: {path}", reason, _shown(value)))

    def _mistake(self, path: str, expected: str, found: Any) -> UsageError:
        # Never the value: it may be a secret of an environment that was put in another form.
        is_other = next((word for kind, word in _KINDS if isinstance(found, kind)), "what it is")
        return UsageError(f"{self.about}: spec.{path} should be {expected}, not {is_other}.")

    def rest(self, fields: frozenset[str], reasons: Reasons) -> list[Remark]:
        """The remarks, with those on what was not taken: unknown fields, and others by the table of reasons."""
        for path, value in leaves(self.spec):
            if any(path == taken or path.startswith(f"{taken}.") for taken in self._taken):
                continue
            if not is_known(path, fields):
                self.remark("Unknown", path, "GPU Operator 26.7 has no such field, so nobody knows what it asks for")
            elif value not in (None, "", [], {}) and (reason := reasons.reason(path, value)):
                self.remark("NoCounterpart", path, reason, value if reasons.may_be_shown(path) else None)
        return self.remarks


def _shown(value: Any) -> str:
    text = "" if value is None else str(value).lower() if isinstance(value, bool) else " ".join(str(value).split())
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"
