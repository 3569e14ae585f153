"""Reasons of the components that are not ready on a node: made from the table of components."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.api.components import COMPONENTS
from controllers.api.conditions import INFRA_DEGRADED
from controllers.api.names import MANAGER_BOOTSTRAP
from controllers.api.reasons.row import Row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controllers.api.component import Component

OWNER: Final = MANAGER_BOOTSTRAP


def _rows(of: Component) -> Iterator[Row]:
    """A component that is not ready yet, and one that is late; InfraDegraded tells no difference."""
    pods = f"-l {names.LABEL_COMPONENT}={of.name} --field-selector spec.nodeName=<node>"
    describe = f"`kubectl -n {names.NAMESPACE} describe pods {pods}`"
    consequence = f": {of.consequence}" if of.consequence else ""
    hint = f"; {of.hint}" if of.hint else ""
    if of.condition == INFRA_DEGRADED:
        meaning = f"{of.subject} is not ready{consequence}"
        yield Row(of.condition, "True", f"{of.not_ready} {of.overdue}", meaning, f"{describe}{hint}")
        return
    meaning, late = f"{of.subject} is not ready yet", "is not ready for longer than `bootstrap.phaseDeadline`"
    yield Row(of.condition, "Unknown", of.not_ready, f"{meaning}{consequence}", f"wait; {describe}{hint}")
    look = f"look at {of.look_at}: " if of.look_at else ""
    yield Row(of.condition, "True", of.overdue, f"{of.subject} {late}{consequence}", f"{look}{describe}{hint}")


ROWS: Final = tuple(row for component in COMPONENTS for row in _rows(component))
