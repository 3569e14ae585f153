"""How often pages are computed."""

from __future__ import annotations

import pytest

from console.hub import rest


@pytest.mark.parametrize(
    ("took", "expected"),
    [
        pytest.param(0.0, 0.25, id="at most four times a second"),
        pytest.param(0.1, 0.15, id="what computing takes is part of that"),
        pytest.param(0.2, 0.2, id="and at most half of the time"),
        pytest.param(3.0, 3.0, id="however long it takes"),
    ],
)
def test_changes_that_come_together_are_shown_together(took: float, expected: float) -> None:
    assert rest(took) == pytest.approx(expected)
