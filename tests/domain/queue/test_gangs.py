"""Which pods belong together, by annotations of ours and by labels of others."""

from __future__ import annotations

import pytest

from controllers.api.gangs import GANG, GANG_SIZE
from controllers.api.meta import ObjectMeta
from controllers.domain.queue.gangs import Gang, gang_of, may_be_of_gang

KUEUE = {"kueue.x-k8s.io/pod-group-name": "run"}
KUEUE_SIZE = {"kueue.x-k8s.io/pod-group-total-count": "3"}
LWS = {"leaderworkerset.sigs.k8s.io/name": "serve", "leaderworkerset.sigs.k8s.io/group-index": "2"}
LWS_SIZE = {"leaderworkerset.sigs.k8s.io/size": "4"}


def found(annotations: dict[str, str], labels: dict[str, str] | None = None) -> Gang | None:
    return gang_of(ObjectMeta(name="p", annotations=annotations, labels=labels or {}))


def test_ours_kueues_and_leader_worker_sets() -> None:
    assert found({GANG: "run-7", GANG_SIZE: "4"}) == Gang("run-7", 4)
    assert found(KUEUE_SIZE, KUEUE) == Gang("run", 3)
    assert found(LWS_SIZE, LWS) == Gang("serve-2", 4)
    assert found({}) is None


def test_ours_overrules_others_and_one_pod_is_no_gang() -> None:
    assert found({GANG: "leader", GANG_SIZE: "1", **LWS_SIZE}, LWS) is None
    assert found({GANG: "mine", GANG_SIZE: "2", **LWS_SIZE}, LWS) == Gang("mine", 2)


@pytest.mark.parametrize(
    ("annotations", "part"),
    [
        ({GANG: "run"}, f"{GANG_SIZE} is not set"),
        ({GANG_SIZE: "3"}, f"{GANG} is not set"),
        ({GANG: "run", GANG_SIZE: "0"}, "1 to 1024"),
        ({GANG: "run", GANG_SIZE: "1025"}, "'1025'"),
        ({GANG: "run", GANG_SIZE: "٣"}, "1 to 1024"),
        ({GANG: "run", GANG_SIZE: "9" * 400}, "1 to 1024"),
        ({GANG: "Run 7", GANG_SIZE: "2"}, "lower-case letters"),
        ({GANG: "x" * 64, GANG_SIZE: "2"}, "at most 63"),
    ],
)
def test_what_makes_no_gang_is_told(annotations: dict[str, str], part: str) -> None:
    with pytest.raises(ValueError, match="expected") as raised:
        found(annotations)
    assert part in str(raised.value)


def test_what_others_wrote_badly_is_theirs_to_tell() -> None:
    assert found({}, KUEUE) is None
    assert found({"kueue.x-k8s.io/pod-group-total-count": "many"}, KUEUE) is None
    assert found(LWS_SIZE, {"leaderworkerset.sigs.k8s.io/name": "serve"}) is None


@pytest.mark.parametrize(
    ("annotations", "labels", "may"),
    [
        (LWS_SIZE, {"leaderworkerset.sigs.k8s.io/name": "serve"}, True),
        (LWS_SIZE, LWS, True),
        ({"leaderworkerset.sigs.k8s.io/size": "1"}, LWS, False),
        (LWS_SIZE, {}, False),
        ({}, LWS, False),
    ],
)
def test_a_leader_whose_group_is_said_later_may_be_of_a_gang(
    annotations: dict[str, str], labels: dict[str, str], may: bool
) -> None:
    assert may_be_of_gang(ObjectMeta(name="p", annotations=annotations, labels=labels)) is may
