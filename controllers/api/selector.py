"""LabelSelector, as Kubernetes defines it (meta/v1)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from controllers.api.record import Atomic, record


@record
class LabelSelectorRequirement:
    """One expression of a selector."""

    key: str
    """Label key."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """How the label's value relates to `values`."""
    values: Annotated[tuple[str, ...], Atomic] = ()
    """Values for In and NotIn."""


@record
class LabelSelector:
    """Selects by labels; everything stated must hold, nothing stated matches all."""

    match_labels: dict[str, str] = Field(default_factory=dict)
    """Labels that must have exactly these values."""
    match_expressions: Annotated[tuple[LabelSelectorRequirement, ...], Atomic] = ()
    """Expressions that must hold."""
