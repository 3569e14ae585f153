"""The promises of the work queue, against a model that is too simple to be wrong."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from controllers.runtime.workqueue import WorkQueue

KEYS = st.sampled_from(["a", "b", "c", "d"])
BASE, CAP = 0.5, 8.0


class Model(RuleBasedStateMachine):
    """Which keys must be worked on, who works on what, and when a key comes by itself."""

    taken = Bundle("taken")

    def __init__(self) -> None:
        super().__init__()
        self.queue = WorkQueue(base_backoff=BASE, max_backoff=CAP)
        self.now = 100.0
        self.wanted: list[str] = []  # waits for a worker, in order
        self.again: set[str] = set()  # added while somebody works on it
        self.working: set[str] = set()
        self.due: dict[str, float] = {}
        self.failures: dict[str, int] = {}

    def want(self, key: str) -> None:
        if key in self.working:
            self.again.add(key)
        elif key not in self.wanted:
            self.wanted.append(key)

    @rule(key=KEYS)
    def add(self, key: str) -> None:
        self.queue.add(key)
        self.want(key)

    @rule(key=KEYS, delay=st.floats(0, 20))
    def add_at(self, key: str, delay: float) -> None:
        self.queue.add_at(key, self.now + delay)
        self.due[key] = min(self.due.get(key, float("inf")), self.now + delay)

    @rule(key=KEYS, at_least=st.sampled_from([0.0, 3.0, 20.0]), at_most=st.sampled_from([1.0, 60.0]))
    def fail(self, key: str, at_least: float, at_most: float) -> None:
        delay = self.queue.add_failed(key, self.now, at_least=at_least, at_most=at_most)

        count = self.failures.get(key, 0)
        assert delay == max(at_least, min(BASE * 2**count, CAP, at_most))
        self.failures[key] = count + 1
        self.due[key] = min(self.due.get(key, float("inf")), self.now + delay)

    @rule(key=KEYS)
    def forget(self, key: str) -> None:
        self.queue.forget(key)
        self.failures.pop(key, None)

    @rule(seconds=st.floats(0, 15))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(target=taken)
    def take(self) -> str | None:
        for due, key in sorted((due, key) for key, due in self.due.items() if due <= self.now):
            assert self.due[key] == due
            del self.due[key]
            self.want(key)

        key = self.queue.take(self.now)

        assert key == (self.wanted.pop(0) if self.wanted else None)
        assert key not in self.working, "two workers on one key"
        if key is not None:
            self.working.add(key)
        return key

    @rule(key=consumes(taken))
    def done(self, key: str | None) -> None:
        if key is None:
            return
        self.queue.done(key)
        self.working.remove(key)
        if key in self.again:
            self.again.remove(key)
            self.wanted.append(key)

    @invariant()
    def counts(self) -> None:
        assert len(self.queue) == len(self.wanted)
        assert self.queue.busy == len(self.working)
        assert self.queue.next_due() == min(self.due.values(), default=None)

    def teardown(self) -> None:
        """Nothing is lost: everything that is wanted is handed out in the end."""
        for key in self.working:
            self.queue.done(key)
        missing = set(self.wanted) | self.again | set(self.due)
        while (key := self.queue.take(float("inf"))) is not None:
            self.queue.done(key)
            missing.discard(key)
        assert not missing


Model.TestCase.settings = settings(max_examples=300, stateful_step_count=40, deadline=None)
TestWorkQueue = Model.TestCase


@given(failures=st.integers(0, 10_000))
def test_backoff_stays_within_its_bounds(failures: int) -> None:
    """However often a key fails: no overflow, never less than the base nor more than the cap."""
    queue = WorkQueue()
    queue._failures["a"] = failures
    assert 0.005 <= queue.add_failed("a", 0.0) <= 60.0
