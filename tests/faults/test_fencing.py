"""The fence is an invariant: each way round it is told of, and the way through it is not."""

from __future__ import annotations

from typing import Any

from controllers.api import names
from tests.faults.test_invariants import allowed, device, pod, told

BY_A = {"published": {"pool": "a", "slots": 1}}
IN_A = {"poolRef": {"name": "a"}}
SERVED = {"allocations": [{"podUID": "u-x", "slots": 1, "pod": "x"}]}
FREE = device()
WHOLE = device(**IN_A, **BY_A, **SERVED)


def of(pool: str) -> dict[str, Any]:
    made = pod("x", "r")
    made["metadata"]["labels"] = {names.LABEL_POOL: pool}
    return made


def test_the_way_of_a_card_from_pool_to_pool_is_well() -> None:
    assert not told(
        ("GPUDevice", device(**IN_A), 0),
        ("ConfigMap", allowed("a", "n-1"), 0),
        ("GPUDevice", device(**IN_A, **BY_A), 0),
        ("Pod", of("a"), 0),
        ("GPUDevice", WHOLE, 0),
        ("ConfigMap", allowed("a"), 0),
        ("GPUDevice", device(**IN_A, **SERVED), 0),
        ("-Pod", of("a"), 0),
        ("GPUDevice", device(**IN_A), 0),
        ("GPUDevice", FREE, 0),
        ("GPUDevice", device(poolRef={"name": "b"}), 0),
        ("ConfigMap", allowed("b", "n-1"), 0),
        ("GPUDevice", device(poolRef={"name": "b"}, published={"pool": "b", "slots": 1}), 0),
    )


def test_a_card_on_the_list_of_a_pool_while_anothers_plugin_publishes_it_is_told() -> None:
    (said,) = told(("GPUDevice", device(**BY_A), 0), ("ConfigMap", allowed("b", "n-1"), 0))

    assert "n-1 is on the list of b, and published by the plugin of a" in said


def test_a_card_that_goes_from_pool_to_pool_with_a_pod_is_told() -> None:
    said = told(("GPUDevice", device(**IN_A, **SERVED), 0), ("GPUDevice", device(poolRef={"name": "b"}, **SERVED), 0))

    assert any("left pool a while pods have it: x" in sentence for sentence in said)
    assert any("in pool b, and serves a pod of a" in sentence for sentence in said)


def test_a_pods_own_label_says_whose_card_it_has() -> None:
    mixed = device(poolRef={"name": "b"}, **SERVED)

    assert "in pool b, and serves a pod of a" in told(("Pod", of("a"), 0), ("GPUDevice", mixed, 0))[0]
    assert not told(("Pod", of("b"), 0), ("GPUDevice", mixed, 0))


def test_a_card_that_leaves_its_pool_while_it_is_published_is_told_at_once() -> None:
    (said,) = told(("GPUDevice", device(**IN_A, **BY_A), 0), ("GPUDevice", device(**BY_A), 1))

    assert "left pool a while its plugin publishes it" in said


def test_another_card_under_the_name_is_another_card() -> None:
    other = device(**BY_A)
    other["metadata"] = other["metadata"] | {"uid": "another"}

    assert not told(("GPUDevice", device(**IN_A, **BY_A), 0), ("GPUDevice", other, 1))


def test_a_card_in_a_pool_and_on_anothers_list_is_told() -> None:
    said = told(("ConfigMap", allowed("a", "n-1"), 0), ("GPUDevice", device(poolRef={"name": "b"}), 0))

    assert "is on the list of a, and in pool b" in said[0]


def test_what_stands_is_told_once() -> None:
    bad = device(poolRef={"name": "a"}, published={"pool": "b", "slots": 1})

    said = told(("GPUDevice", bad, 0), ("GPUDevice", device("n-2"), 1), ("GPUDevice", bad, 2))

    assert sum("is in pool a, and published by the plugin of b" in sentence for sentence in said) == 1
