"""What a pod asks for: the scheduler's formula."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.api.kube import Pod, PodSpec
from controllers.api.record import adapter
from controllers.domain import quantities
from controllers.domain.request import effective, lasting, pools_of, whole

R = "gpu.deckhouse.io/a"


def spec(containers: list[Any], init: list[Any] = ()) -> PodSpec:
    def container(ask: Any) -> dict[str, Any]:
        restart = {"restartPolicy": "Always"} if isinstance(ask, str) else {}
        return {"name": "c", "resources": {"limits": {R: str(ask)}}, **restart}

    body = {"containers": [container(c) for c in containers], "initContainers": [container(c) for c in init]}
    return adapter(PodSpec).validate_python(body)


@pytest.mark.parametrize(
    ("containers", "init", "expected"),
    [
        ([1], [], 1),
        ([1, 2], [], 3),
        ([1], [4], 4),  # init containers run before, not beside
        ([3], [1, 2], 3),
        ([1], ["2"], 3),  # a sidecar runs beside
        ([1], ["2", 4], 6),  # an init container runs beside the sidecars before it
        ([1], [4, "2"], 4),  # and not beside those after it
        ([0], [], None),  # nothing needed
    ],
)
def test_formula(containers: list[Any], init: list[Any], expected: int | None) -> None:
    assert effective(spec(containers, init)).get("a") == expected


@pytest.mark.parametrize(
    ("containers", "init", "expected"),
    [
        ([1, 2], [], 3),
        ([1], [4], 1),  # kubelet never tells of an init container that ends
        ([1], ["2", 4], 3),  # and does of a sidecar
        ([0], [2], 0),
    ],
)
def test_what_kubelet_tells_of(containers: list[Any], init: list[Any], expected: int) -> None:
    assert lasting(spec(containers, init)).get("a", 0) == expected


ASKS = {"limits": {R: "1"}}


@pytest.mark.parametrize(
    ("label", "resources", "expected"),
    [
        (None, {}, set()),
        (None, {"limits": {"cpu": "1", "nvidia.com/gpu": "1"}}, set()),
        ("a", ASKS, {"a"}),
        (None, ASKS, {"a"}),
        ("b", ASKS, {"a", "b"}),
        ("b", {"limits": {R: "0"}}, {"b"}),
        (None, {"limits": {R: "0"}}, set()),
        ("", {}, set()),
        ("b", {"limits": {R: "no number"}}, {"b"}),
        (None, {"limits": {R: "no number"}}, set()),
    ],
)
@pytest.mark.parametrize("kind", ["containers", "initContainers"])
def test_a_pod_concerns_the_pools_that_it_asks_for_and_the_one_that_admitted_it(
    label: str | None, resources: Any, expected: set[str], kind: str
) -> None:
    meta = {"name": "p", "labels": {"gpu.deckhouse.io/pool": label} if label is not None else {}}
    made = {"metadata": meta, "spec": {kind: [{"name": "c", "resources": resources}]}}
    assert pools_of(adapter(Pod).validate_python(made)) == expected


def test_requests_count_where_limits_are_missing_and_both_count_once() -> None:
    both = {"requests": {R: "2"}, "limits": {R: "2"}}
    only = {"requests": {R: "1"}}
    made = adapter(PodSpec).validate_python({"containers": [{"resources": both}, {"resources": only}]})

    assert effective(made) == {"a": 3}


def test_quantity_0_and_other_resources_ask_for_nothing() -> None:
    resources = {"limits": {R: "0", "gpu.deckhouse.io/b": "1", "cpu": "1", "nvidia.com/gpu": "1"}}
    made = adapter(PodSpec).validate_python({"containers": [{"resources": resources}]})

    assert effective(made) == {"b": 1}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3", 3), ("2000m", 2), ("1k", 1000), ("1Ki", 1024), (4, 4), ("2.0", 2), ("1e3", 1000), ("2E2", 200),
        ("1E", 10**18), ("0.5k", 500), ("+1", 1), ("1.", 1), ("0", 0), (0, 0), ("-0", 0), ("3000000u", 3),
    ],
)  # fmt: skip
def test_quantities(text: str | int, expected: int) -> None:
    assert whole(text) == expected


NO_NUMBERS = ["", "1.5", "100m", "-1", "one", "1X", "NaN", "Infinity", "m", -1]
NO_NUMBERS += ["1_0", "\uff11", "1km", "1ki", "1e", "1e300000"]  # Python would take the first two


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_what_is_no_number_of_cards_is_refused_in_words(text: str | int) -> None:
    with pytest.raises(ValueError, match="not a whole number of cards"):
        whole(text)


def test_a_quantity_of_megabytes_costs_nothing() -> None:
    """A stranger at the webhook's port may send one; 16,000 digits and a bad letter once took four seconds."""
    began = time.process_time()
    with pytest.raises(ValueError, match="1000001 characters, 64 are allowed") as told:
        whole("1" * 1_000_000 + "x")
    assert len(str(told.value)) < 200
    assert quantities._QUANTITY.fullmatch("1" * 100_000 + "x") is None
    assert time.process_time() - began < 1.0


@given(st.text(max_size=20))
def test_any_text_is_a_number_or_a_sentence(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert whole(text) >= 0
