"""The store against a server: random histories, watched late, cut off, listed again.

The server keeps a history of revisions, as etcd does. The watch tells it in order, as late as
it likes, and forgets (410) at any time; our own writes are offered to the store when their
answers come, before or after the watch tells of them. What the store holds must be, always:
what the watch has told, with those of our writes laid over it that it has not reached, or
of whose object it lost the change.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

from controllers.api.kube import ConfigMap
from controllers.api.meta import ObjectMeta
from controllers.runtime.store import Store, version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controllers.runtime.list_buffer import ListBuffer

NAMES_OF_ALL = ["a", "b", "c"]
NAMES = st.sampled_from(NAMES_OF_ALL)
VALUES = st.sampled_from(["1", "2"])
Told = tuple[ConfigMap | None, ConfigMap | None]


def words(item: ConfigMap) -> tuple[str, ...]:
    return (item.data["v"], f"uid-{item.metadata.uid}")


class Server(RuleBasedStateMachine):
    """One kind at a server, its watch, and the store that follows it."""

    answers = Bundle("answers")

    def __init__(self) -> None:
        super().__init__()
        self.revision = 1000
        self.restores = 0
        self.objects: dict[str, ConfigMap] = {}
        self.history: list[tuple[int, str, ConfigMap, bool]] = []
        self.told = 1000  # revision up to which the watch has told
        self.watched: dict[str, ConfigMap] = {}  # the state at that revision
        self.ours: dict[str, ConfigMap] = {}  # offered, and the watch is not there yet
        self.has_lost = False  # a change, of which only a list tells
        self.store: Store[ConfigMap] = Store("ConfigMap")
        self.store.index("words", words)
        self.asked: set[str] = set()
        self.calls: list[Told] = []
        self.mirror: dict[str, ConfigMap] = {}  # what somebody knows who only heard the handlers
        self.store.subscribe(self.heard)
        self.store.replace([], 1000)
        self.listing: tuple[ListBuffer[ConfigMap], list[ConfigMap], int] | None = None  # gathered, left, at a revision
        self.telling: Iterator[None] | None = None

    # --- the server ---------------------------------------------------------------------

    def commit(self, name: str, obj: ConfigMap | None) -> None:
        self.revision += 1
        if obj is None:
            gone = self.objects.pop(name)
            gone = replace(gone, metadata=replace(gone.metadata, resource_version=str(self.revision)))
            self.history.append((self.revision, name, gone, True))
        else:
            self.objects[name] = obj
            self.history.append((self.revision, name, obj, False))

    def write(self, name: str, value: str) -> ConfigMap:
        """Create or change; a write that changes nothing makes no revision, as at the API server."""
        old = self.objects.get(name)
        if old is not None and old.data["v"] == value:
            return old
        uid = old.metadata.uid if old else str(self.revision + 1)
        meta = ObjectMeta(name=name, uid=uid, resource_version=str(self.revision + 1))
        made = ConfigMap(metadata=meta, data={"v": value})
        self.commit(name, made)
        return made

    @rule(name=NAMES, value=VALUES)
    def somebody_writes(self, name: str, value: str) -> None:
        self.write(name, value)

    @rule(name=NAMES)
    def somebody_touches(self, name: str) -> None:
        """A change of fields that nobody here reads."""
        if (old := self.objects.get(name)) is not None:
            meta = replace(old.metadata, resource_version=str(self.revision + 1))
            self.commit(name, replace(old, metadata=meta))

    @rule(name=NAMES)
    def somebody_deletes(self, name: str) -> None:
        if name in self.objects:
            self.commit(name, None)

    @rule()
    def another_kind_changes(self) -> None:
        self.revision += 1

    @rule(target=answers, name=NAMES, value=VALUES)
    def we_write(self, name: str, value: str) -> tuple[int, ConfigMap]:
        return self.restores, self.write(name, value)

    @rule(target=answers, name=NAMES)
    def we_write_outside_the_selectors(self, name: str) -> tuple[int, ConfigMap]:
        """The watch will never tell of it."""
        self.revision += 1
        meta = ObjectMeta(name=f"out-{name}", uid=str(self.revision), resource_version=str(self.revision))
        return self.restores, ConfigMap(metadata=meta, data={"v": "0"})

    # --- what reaches the store ---------------------------------------------------------

    @rule(answer=consumes(answers))
    def our_answer_comes(self, answer: tuple[int, ConfigMap]) -> None:
        """No answer outlives a restore: for that the API server is stopped."""
        restores, obj = answer
        if restores != self.restores:
            return
        self.store.on_own_write(obj)
        current = self.ours.get(obj.name)
        known = self.watched.get(obj.name)
        is_wanted = version(obj) > self.told or known is not None
        if is_wanted and all(other is None or version(obj) > version(other) for other in (current, known)):
            self.ours[obj.name] = obj

    def arrive(self, revision: int) -> None:
        self.told = max(self.told, revision)
        self.ours = {name: obj for name, obj in self.ours.items() if version(obj) > self.told or self.is_lost(obj)}

    def is_lost(self, obj: ConfigMap) -> bool:
        """Whether the watch knows an older version of what we wrote."""
        known = self.watched.get(obj.name)
        return known is not None and version(known) < version(obj)

    @precondition(lambda self: self.listing is None and self.telling is None)
    @precondition(lambda self: any(r > self.told for r, *_ in self.history))
    @rule(count=st.integers(1, 4))
    def watch_tells(self, count: int) -> None:
        for revision, name, obj, deleted in [e for e in self.history if e[0] > self.told][:count]:
            self.store.on_watch_event(obj, deleted=deleted)
            if deleted:
                self.watched.pop(name, None)
            else:
                self.watched[name] = obj
            self.arrive(revision)

    @precondition(lambda self: self.listing is None and self.telling is None)
    @precondition(lambda self: any(r > self.told for r, *_ in self.history))
    @rule()
    def watch_loses_a_change(self) -> None:
        """It may not; where it does, of what we write ourselves nothing is lost, and the next list brings the rest."""
        revision, name, _, deleted = next(event for event in self.history if event[0] > self.told)
        if not deleted and name in self.watched:
            self.has_lost = True
            self.store.advance(revision)
            self.arrive(revision)

    @precondition(lambda self: self.listing is None and self.telling is None)
    @rule()
    def bookmark(self) -> None:
        """Everything up to the newest event that was told, or to now when all was."""
        pending = [r for r, *_ in self.history if r > self.told]
        at = pending[0] - 1 if pending else self.revision
        self.store.advance(at)
        self.arrive(at)

    @precondition(lambda self: self.listing is None and self.telling is None)
    @rule()
    def too_old_so_list_again(self) -> None:
        self.store.replace(list(self.objects.values()), self.revision)
        self.watched = dict(self.objects)
        self.arrive(self.revision)

    @precondition(lambda self: self.listing is None and self.telling is None)
    @rule()
    def a_long_list_begins(self) -> None:
        """Beside it we go on writing, and nobody sees it."""
        self.listing = (self.store.new_buffer(), list(self.objects.values()), self.revision)

    @precondition(lambda self: self.listing is not None)
    @rule(count=st.integers(1, 2))
    def it_goes_on(self, count: int) -> None:
        assert self.listing is not None
        buffer, left, at = self.listing
        for obj in left[:count]:
            buffer.put(replace(obj, data=dict(obj.data)))  # decoded anew
        self.listing = (buffer, left[count:], at)

    @precondition(lambda self: self.listing is not None)
    @rule()
    def it_is_refused_half_way(self) -> None:
        self.listing = None

    @precondition(lambda self: self.listing is not None)
    @rule()
    def it_ends(self) -> None:
        self.it_goes_on(len(NAMES_OF_ALL))
        assert self.listing is not None
        buffer, _, at = self.listing
        listed = dict(buffer.items)
        self.store.take(buffer, at)
        self.listing, self.telling = None, self.store.tell(portion=1)
        self.watched = listed
        self.arrive(at)

    @precondition(lambda self: self.telling is not None)
    @rule()
    def some_of_what_it_changed_is_told(self) -> None:
        assert self.telling is not None
        if next(self.telling, "all") == "all":
            self.telling = None

    @precondition(lambda self: self.listing is None and self.telling is None)
    @rule(back=st.integers(1, 5))
    def restored_from_a_backup(self, back: int) -> None:
        """The history is set back: what was written since never happened, and numbers come again."""
        self.restores += 1
        self.revision = min(self.told, self.revision) - back
        self.history = [e for e in self.history if e[0] <= self.revision]
        state: dict[str, ConfigMap] = {}
        for _, name, obj, deleted in self.history:
            if deleted:
                state.pop(name, None)
            else:
                state[name] = obj
        self.objects = state
        self.store.replace(list(state.values()), self.revision)
        self.watched, self.ours, self.told = dict(state), {}, self.revision

    # --- what must hold ------------------------------------------------------------------

    def heard(self, old: ConfigMap | None, new: ConfigMap | None) -> None:
        assert old != new, "called though nothing that is read has changed"
        key = (old or new).key  # type: ignore[union-attr]
        assert self.mirror.get(key) == old, "a change was not told"
        if new is None:
            del self.mirror[key]
        else:
            self.mirror[key] = new

    @invariant()
    def store_is_the_watch_and_our_newer_writes(self) -> None:
        expected = self.watched | self.ours
        assert {item.key: item for item in self.store} == expected
        assert {item.key: version(item) for item in self.store} == {k: version(o) for k, o in expected.items()}
        assert len(self.store) == len(expected)

    @invariant()
    def handlers_know_everything(self) -> None:
        """But for what the last list has changed and they are yet to be told."""
        now = {item.key: item for item in self.store}
        late = {key: old for key, old in self.store._untold.items() if old != now.get(key)}
        assert {key: old for key, old in (now | late).items() if old is not None} == self.mirror
        assert not late or self.telling is not None

    @invariant()
    def indexes_agree_with_the_items(self) -> None:
        expected: dict[str, list[ConfigMap]] = {word: [] for word in self.asked}
        for item in sorted(self.store, key=lambda item: item.key):
            for word in words(item):
                expected.setdefault(word, []).append(item)
        self.asked |= expected.keys()  # what is under a word no more was answered once, and may be remembered
        for word, items in expected.items():
            found = self.store.by("words", word)
            assert [(item, version(item)) for item in found] == [(item, version(item)) for item in items]
            assert self.store.count("words", word) == len(items)
        assert {word for word, items in expected.items() if items} == set(self.store.index_values("words"))

    def teardown(self) -> None:
        """Once the watch has told everything, the store is the server, and no ghost is left."""
        for _ in self.telling or ():
            pass
        for _, _, obj, deleted in [e for e in self.history if e[0] > self.told]:
            self.store.on_watch_event(obj, deleted=deleted)
        self.store.advance(self.revision)
        if self.has_lost:
            self.store.replace(list(self.objects.values()), self.revision)
        assert {item.key: item for item in self.store} == self.objects
        assert not self.store._offered


Server.TestCase.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
TestStore = Server.TestCase


def _config(version_: int, value: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name="a", uid="u", resource_version=str(version_)), data={"v": value})


@pytest.mark.parametrize("is_answer_first", [True, False])
def test_what_we_wrote_is_not_set_back_where_the_watch_lost_it(*, is_answer_first: bool) -> None:
    store: Store[ConfigMap] = Store("ConfigMap")
    store.on_watch_event(_config(5, "before"))

    if is_answer_first:
        store.on_own_write(_config(7, "ours"))
    store.advance(9)
    if not is_answer_first:
        store.on_own_write(_config(7, "ours"))
    assert [item.data["v"] for item in store] == ["ours"]

    store.on_watch_event(_config(10, "after"))
    assert [item.data["v"] for item in store] == ["after"]


def test_what_we_wrote_and_somebody_deleted_does_not_come_back() -> None:
    store: Store[ConfigMap] = Store("ConfigMap")
    store.on_watch_event(_config(5, "before"))
    store.on_watch_event(_config(8, "ours"), deleted=True)

    store.on_own_write(_config(7, "ours"))

    assert not list(store)


def test_a_handler_that_fails_does_not_keep_others_from_hearing() -> None:
    store: Store[ConfigMap] = Store("ConfigMap")
    heard: list[str] = []

    def bad(_: ConfigMap | None, new: ConfigMap | None) -> None:
        raise ValueError(new)

    store.subscribe(bad)
    store.subscribe(lambda _, new: heard.append(new.name if new else "gone"))

    store.on_watch_event(ConfigMap(metadata=ObjectMeta(name="a", resource_version="5"), data={}))

    assert heard == ["a"]


def test_an_index_can_be_added_to_a_full_store() -> None:
    store: Store[ConfigMap] = Store("ConfigMap")
    store.on_watch_event(ConfigMap(metadata=ObjectMeta(name="a", uid="u", resource_version="5"), data={"v": "1"}))

    store.index("words", words)

    assert [item.name for item in store.by("words", "1")] == ["a"]
    assert store.by("words", "2") == []


def test_a_list_that_brings_nothing_new_holds_nothing_twice() -> None:
    store: Store[ConfigMap] = Store("ConfigMap")
    known = [ConfigMap(metadata=ObjectMeta(name=name, resource_version="5"), data={"v": "1"}) for name in "ab"]
    store.replace(known, 5)
    turnover = store.change_count
    store.replace([replace(known[0], data={"v": "1"}), replace(known[1], data={"v": "2"})], 7)

    assert store.get("a") is known[0]
    assert store.get("b") is not known[1]
    assert store.change_count == turnover + 1
