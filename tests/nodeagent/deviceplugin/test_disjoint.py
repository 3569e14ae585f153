"""Two pools' plugins on one node, in every order of their steps: kubelet is never given one card twice.

A model of the API server (objects with versions, watches that lag) and of two plugins that crash between any
two steps; what they decide is the program's own code.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.api.gpudevice import Published
from controllers.api.record import adapter
from controllers.domain.plugin_settings import PluginSettings
from nodeagent.deviceplugin.devices import card_status, offers
from nodeagent.deviceplugin.devices.offers import DesiredOffer
from nodeagent.deviceplugin.devices.records import Listed, NodeScan
from tests.nodeagent.deviceplugin import make

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.runtime.plan import Merge

CARDS = 2
POOLS = ("a", "b")
SLOTS = (0, 1, 2)  # 0: settings that cannot be read


@dataclass
class Plugin:
    pool: str
    cache: dict[str, GPUDevice]
    wish: DesiredOffer
    shown: tuple[Listed, ...] = ()
    seen: NodeScan = field(default_factory=NodeScan)


class Node:
    def __init__(self) -> None:
        self.truth = {card.name: card for card in map(make.card, range(CARDS))}
        self.plugins = [Plugin(pool, dict(self.truth), DesiredOffer()) for pool in POOLS]

    def configure(self, which: int, slots: int, cards: frozenset[int]) -> None:
        pool = POOLS[which]
        offer, before = PluginSettings(pool, "TimeSlice", slots) if slots else None, self.plugins[which].wish.last
        self.plugins[which].wish = DesiredOffer(offer, frozenset(map(make.name, cards)), offer or before)

    def lose(self, which: int, cards: frozenset[int]) -> None:
        self.plugins[which].seen = NodeScan(lost=frozenset(map(make.address, cards)))

    def told(self, which: int, card: int) -> None:
        """The watch brings a card."""
        name = f"card-{card}"
        self.plugins[which].cache[name] = self.truth[name]

    def crash(self, which: int, _: int) -> None:
        """The socket is closed, and the next one begins with a list of the server's."""
        plugin = self.plugins[which]
        wish = replace(plugin.wish, last=plugin.wish.offer)  # what was read before is forgotten
        self.plugins[which] = Plugin(plugin.pool, dict(self.truth), wish)

    def work(self, which: int, steps: int) -> None:
        """A pass, as far as it gets."""
        plugin = self.plugins[which]
        plugin.shown = offers.listing(plugin.pool, plugin.cache.values(), plugin.wish, plugin.seen)
        self.check()
        cards = list(plugin.cache.values())
        wanted = offers.wanted(plugin.pool, cards, plugin.wish, plugin.seen)
        for write in card_status.writes(plugin.pool, cards, wanted, None)[:steps]:
            self.write(plugin, write)
            self.check()
        if steps > CARDS:
            plugin.shown = offers.listing(plugin.pool, plugin.cache.values(), plugin.wish, plugin.seen)

    def write(self, plugin: Plugin, write: Merge) -> None:
        name, version = write.ref.name, write.resource_version
        now = self.truth[name]
        if now.metadata.resource_version != version:
            return  # 409: the next pass sees more
        told = write.body["status"]["published"]
        published = None if told is None else adapter(Published).validate_python(told)
        meta = replace(now.metadata, resource_version=str(int(version) + 1))
        self.truth[name] = replace(now, metadata=meta, status=replace(now.status, published=published))
        plugin.cache[name] = self.truth[name]

    def check(self) -> None:
        given = [[device for device in plugin.shown if device.healthy] for plugin in self.plugins]
        assert not {d.card for d in given[0]} & {d.card for d in given[1]}, "one card in two lists"
        for plugin, devices in zip(self.plugins, given, strict=True):
            for name in {device.card for device in devices}:
                published = self.truth[name].status.published
                assert published is not None
                assert published.pool == plugin.pool
                assert sum(device.card == name for device in devices) <= published.slots


WHICH, NUMBERS = st.sampled_from([0, 1]), st.frozensets(st.integers(0, CARDS - 1))
STEP = st.one_of(
    st.tuples(st.just("configure"), WHICH, st.sampled_from(SLOTS), NUMBERS),
    st.tuples(st.just("lose"), WHICH, NUMBERS),
    st.tuples(st.just("told"), WHICH, st.integers(0, CARDS - 1)),
    st.tuples(st.just("crash"), WHICH, st.just(0)),
    st.tuples(st.just("work"), WHICH, st.integers(0, CARDS + 1)),
)


@settings(max_examples=1000, deadline=None)
@given(st.lists(STEP, max_size=40))
def test_no_card_is_in_two_lists_and_none_beyond_what_is_published(steps: list[tuple[object, ...]]) -> None:
    node = Node()
    for name, *arguments in steps:
        getattr(node, str(name))(*arguments)
        node.check()


def test_the_model_reaches_what_it_is_about() -> None:
    node = Node()
    for which in (0, 1):
        node.configure(which, 2, frozenset({0, 1}))
    node.work(0, CARDS + 1)
    assert len(node.plugins[0].shown) == 4
    node.work(1, CARDS + 1)
    assert node.plugins[1].shown == (), "its cache is old, and the server refuses it"
    node.configure(0, 2, frozenset({1}))
    node.work(0, CARDS + 1)
    for card in range(CARDS):
        node.told(1, card)
    node.work(1, CARDS + 1)
    assert {device.card for device in node.plugins[1].shown} == {"card-0"}
