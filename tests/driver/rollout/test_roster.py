"""What is counted of a fleet: as nodes change one by one it stays what a count from the start comes to."""

from __future__ import annotations

from controllers.driver.world import World
from tests.driver.rollout.cluster import RolledOut
from tests.driver.world import NEXT


def counted(world: World) -> tuple[object, ...]:
    return (*world.roster.totals(), world.decisions.nodes_of("main"), world.decisions.nodes_of("other"))


def test_nodes_are_counted_anew_one_by_one_as_from_the_start() -> None:
    made = RolledOut()
    made.fleet(4, waves=[50, 100])
    most_out, lost = 0, "n2"
    assert counted(made.process()) == counted(made.view())

    made.retarget(NEXT)
    for turn in range(30):
        for key in made.all_keys():
            made.reconcile(*key)
            assert counted(made.process()) == counted(made.view())
            most_out = max(most_out, made.process().roster.totals()[0].planned)
        made.outside()
        made.now += 30
        if turn == 5:
            made.drop_node(lost)
        elif turn == 10:
            made.driver("other", priority=5)

    world = made.process()
    cluster, pools = world.roster.totals()
    assert most_out > 0
    assert (cluster.nodes, {name: group.nodes for name, group in pools.items()}) == (3, {"a": 3})
    assert (world.decisions.nodes_of("main"), world.decisions.nodes_of("other")) == (set(), {"n0", "n1", "n3"})
