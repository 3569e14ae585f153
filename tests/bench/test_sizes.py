"""How much `make bench` measures where nothing is said."""

from __future__ import annotations

from reliability.bench import drivers, roll
from reliability.bench.__main__ import _parser
from reliability.bench.rows import Sizes


def test_the_command_measures_as_much_as_the_sizes_say() -> None:
    args, sizes = _parser().parse_args([]), Sizes(500)

    assert (args.nodes, args.large, args.batch) == (sizes.nodes, sizes.large_nodes, sizes.batch)
    assert (args.bare, args.roll, args.takeover) == (sizes.driver_nodes, sizes.roll_nodes, sizes.takeover_nodes)
    assert max(1, args.roll // 50) == sizes.roll_pools


def test_fleets_are_as_large_as_two_cores_bring_into_service() -> None:
    """The budgets of a thousand nodes are shown then, and judge nothing."""
    sizes = Sizes(500)

    assert max(sizes.driver_nodes, sizes.roll_nodes) == 60
    assert min(drivers.BUDGET_NODES, roll.FULL_NODES) == 1000
