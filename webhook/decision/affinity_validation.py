"""Validation of `spec.scheduling.affinity` of a GPUPool: as strict as the API server is with a pod's. Pure.

What passes here ends up in pods. The API server would refuse them for a mistake that their authors did not make, after
cards were reserved for them, and it drops a field that it does not know without a word.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictInt, ValidationError, model_validator

from controllers.api.gpupool import LABEL_KEY, LABEL_KEY_MAX, LABEL_VALUE
from controllers.api.names import LABEL_VALUE_MAX
from controllers.api.record import json_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SUBDOMAIN: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
SUBDOMAIN_MAX: Final = 253
FOUND_MAX: Final = 80
EXPECTED: Final = {
    "model_type": "expected an object",
    "dict_type": "expected an object",
    "tuple_type": "expected a list",
    "string_type": "expected a text",
    "int_type": "expected a whole number",
    "extra_forbidden": "there is no such field",
    "missing": "is missing",
}
"""The text of an error where pydantic's is not for readers."""


def first_error(raw: Mapping[str, Any]) -> str | None:
    """The first mistake in an affinity, with its place; None where there is none."""
    try:
        _Affinity.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        return f"{_path(first['loc'])}: {_explain(first['type'], first['msg'], first['input'])}"
    return None


def _path(loc: tuple[int | str, ...]) -> str:
    """`nodeAffinity.terms[0].key`, as the API server writes it."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc if part != "[key]")
    return "".join(parts).lstrip(".") or "it"


def _explain(kind: str, told: str, found: object) -> str:
    if kind in EXPECTED:
        return EXPECTED[kind]
    if kind == "value_error":
        return told.removeprefix("Value error, ")
    return f"expected {told.removeprefix('Input should be ')}, found {repr(found)[:FOUND_MAX]}"


def _spelled(what: str, pattern: str, most: int) -> Callable[[str], str]:
    """A check of a text."""
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        if len(text) > most or not compiled.fullmatch(text):
            msg = f"{text[:FOUND_MAX]!r} is no {what}"
            raise ValueError(msg)
        return text

    return check


Key = Annotated[str, AfterValidator(_spelled("label key", LABEL_KEY, LABEL_KEY_MAX))]
Value = Annotated[str, AfterValidator(_spelled("value of a label", LABEL_VALUE, LABEL_VALUE_MAX))]
NodeName = Annotated[str, AfterValidator(_spelled("name of a node", SUBDOMAIN, SUBDOMAIN_MAX))]
Namespace = Annotated[
    str, AfterValidator(_spelled("name of a namespace", "[a-z0-9]([-a-z0-9]*[a-z0-9])?", LABEL_VALUE_MAX))
]
Weight = Annotated[StrictInt, Field(ge=1, le=100)]


class _Form(BaseModel):
    """A part of it."""

    model_config = ConfigDict(alias_generator=json_name, extra="forbid", frozen=True)


class _Expression(_Form):
    key: Key
    operator: str
    values: tuple[Value, ...] | None = None

    @model_validator(mode="after")
    def _counted(self) -> Self:
        count = len(self.values or ())
        msg = ""
        if self.operator in {"In", "NotIn"} and not count:
            msg = f"operator {self.operator} needs values"
        elif self.operator in {"Exists", "DoesNotExist"} and count:
            msg = f"operator {self.operator} takes no values"
        elif self.operator in {"Gt", "Lt"} and count != 1:
            msg = f"operator {self.operator} takes one value"
        if msg:
            raise ValueError(msg)
        return self


class _NodeExpression(_Expression):
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: tuple[Value, ...] = ()


class _PodExpression(_Expression):
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]


class _FieldExpression(_Form):
    key: Literal["metadata.name"]
    operator: Literal["In", "NotIn"]
    values: tuple[NodeName, ...]

    @model_validator(mode="after")
    def _counted(self) -> Self:
        if len(self.values) != 1:
            msg = f"an expression about {self.key} takes one value"
            raise ValueError(msg)
        return self


class _NodeTerm(_Form):
    match_expressions: tuple[_NodeExpression, ...] = ()
    match_fields: tuple[_FieldExpression, ...] = ()


class _PreferredNodes(_Form):
    weight: Weight
    preference: _NodeTerm


class _RequiredNodes(_Form):
    node_selector_terms: tuple[_NodeTerm, ...] = ()


class _NodeAffinity(_Form):
    required_during_scheduling_ignored_during_execution: _RequiredNodes | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[_PreferredNodes, ...] | None = None


class _Selector(_Form):
    match_labels: dict[Key, Value | None] | None = None
    match_expressions: tuple[_PodExpression, ...] | None = None

    def names(self) -> frozenset[str]:
        """The labels that it asks for."""
        return frozenset(self.match_labels or ()) | {one.key for one in self.match_expressions or ()}


class _PodTerm(_Form):
    topology_key: Key
    label_selector: _Selector | None = None
    namespaces: tuple[Namespace, ...] | None = None
    namespace_selector: _Selector | None = None
    match_label_keys: tuple[Key, ...] | None = None
    mismatch_label_keys: tuple[Key, ...] | None = None

    @model_validator(mode="after")
    def _selecting(self) -> Self:
        same, other = frozenset(self.match_label_keys or ()), frozenset(self.mismatch_label_keys or ())
        selected = self.label_selector.names() if self.label_selector is not None else frozenset()
        msg = ""
        if (same or other) and self.label_selector is None:
            msg = "matchLabelKeys and mismatchLabelKeys need a labelSelector"
        elif both := same & other:
            msg = f"{min(both)!r} is in both matchLabelKeys and mismatchLabelKeys"
        elif both := same & selected:
            msg = f"{min(both)!r} is in both matchLabelKeys and labelSelector"
        if msg:
            raise ValueError(msg)
        return self


class _PreferredPods(_Form):
    weight: Weight
    pod_affinity_term: _PodTerm


class _Pods(_Form):
    required_during_scheduling_ignored_during_execution: tuple[_PodTerm, ...] | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[_PreferredPods, ...] | None = None


class _Affinity(_Form):
    node_affinity: _NodeAffinity | None = None
    pod_affinity: _Pods | None = None
    pod_anti_affinity: _Pods | None = None
