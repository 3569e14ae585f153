"""A worker has one control plane at a time, and nothing of the last reaches the next."""

from __future__ import annotations

import json
from base64 import b64decode
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING
from urllib.request import Request, urlopen

import psutil
import pytest

from sim import controlplane
from sim.module.install import CRD_FOLDERS, apply_crds
from tests.kit import planes
from tests.kit.worker_plane import WorkerPlane

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from sim.controlplane import ControlPlane

BY_CHANCE = ("/registry/leases/", "/registry/events/", "/registry/masterleases/")


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[WorkerPlane]:
    """A worker's plane of the test's own."""
    numbers = count()

    def folder() -> Path:
        made = tmp_path / str(next(numbers))
        made.mkdir()
        return made

    made = WorkerPlane(folder)
    yield made
    made.clear()


def plays(what: str, told: list[str]) -> Callable[[Path], AbstractContextManager[str]]:
    @contextmanager
    def made(folder: Path) -> Iterator[str]:
        assert list(folder.iterdir()) == []
        told.append(f"{what} begins")
        yield what
        told.append(f"{what} ends")

    return made


def test_who_asks_by_the_same_name_shares_and_another_name_ends_it_first(alone: WorkerPlane) -> None:
    told: list[str] = []
    taken = [alone.take(name, plays(name, told)) for name in ("a", "a", "b", "a")]
    alone.clear()
    assert taken == ["a", "a", "b", "a"]
    assert told == ["a begins", "a ends", "b begins", "b ends", "a begins", "a ends"]


def test_what_fails_while_it_is_made_is_not_taken_for_there(alone: WorkerPlane) -> None:
    @contextmanager
    def broken(folder: Path) -> Iterator[str]:
        raise OSError(folder)
        yield ""

    alone.take("a", plays("a", []))
    for _ in range(2):
        with pytest.raises(OSError, match=r"/[12]$"):
            alone.take("b", broken)
        assert alone.name == ""
    assert alone.take("a", plays("a", told := [])) == "a"
    assert told == ["a begins"]


def test_nothing_of_a_real_one_is_left_when_the_next_comes(alone: WorkerPlane) -> None:
    """By etcd's own keys: the next has none but what a control plane has of itself; no process of the last lives."""
    last = alone.take("last", lambda folder: planes.plane(folder, **planes.ALONE))
    apply_crds(planes.tools(last), *sorted(CRD_FOLDERS[0].glob("nodefeature*.yaml")))
    planes.tools(last).run("create", "namespace", "left-behind")
    everything = keys(last)
    ours = {key for key in everything if "left-behind" in key or "nodefeature" in key}
    assert len(ours) >= 3
    pids = [process.pid for process in controlplane.status(last.dir).processes.values()]

    new = alone.take("new", lambda folder: planes.plane(folder, **planes.ALONE))

    assert keys(new) <= everything - ours
    assert [pid for pid in pids if psutil.pid_exists(pid)] == []
    assert not last.dir.exists()


def keys(plane: ControlPlane) -> set[str]:
    """What is stored, without what an API server keeps of itself under names of chance."""
    everything = {"key": "AA==", "range_end": "AA==", "keys_only": True}
    url = f"http://127.0.0.1:{plane.ports['etcd']}/v3/kv/range"
    with urlopen(Request(url, json.dumps(everything).encode()), timeout=30) as answer:
        found = {b64decode(one["key"]).decode() for one in json.load(answer)["kvs"]}
    return {key for key in found if not key.startswith(BY_CHANCE)}
