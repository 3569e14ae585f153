"""A pool's affinity is read as strictly as the API server reads a pod's, and a mistake is told with its place."""

from __future__ import annotations

from typing import Any

import pytest

from tests.webhook.affinities import RIGHT, WRONG, near, nodes
from tests.webhook.test_fuzz import POOL_AFFINITY
from tests.webhook.test_objects import review, send
from webhook.decision import affinity


@pytest.mark.parametrize("raw", [*RIGHT.values(), POOL_AFFINITY], ids=[*RIGHT, "of other tests"])
def test_what_is_right_is_read(raw: dict[str, Any]) -> None:
    affinity.read(raw)


@pytest.mark.parametrize(("raw", "said"), WRONG.values(), ids=WRONG.keys())
def test_a_mistake_is_told_with_its_place(raw: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=r"^spec\.scheduling\.affinity cannot be read: ") as told:
        affinity.read(raw)
    assert said in str(told.value)


def test_a_key_that_a_selector_names_already_is_told() -> None:
    # The API server refuses it in pods that have the label, as all of a Deployment have.
    for selector in ({"matchLabels": {"app": "x"}}, {"matchExpressions": [{"key": "app", "operator": "Exists"}]}):
        with pytest.raises(ValueError, match="'app' is in both matchLabelKeys and labelSelector"):
            affinity.read(near(matchLabelKeys=["app"], labelSelector=selector))
        affinity.read(near(mismatchLabelKeys=["app"], labelSelector=selector))


def pool(added: Any, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "spec": {"scheduling": {"affinity": added}, **spec}}


def warnings(new: Any, old: Any = None) -> list[str]:
    response = send(review("GPUPool", new, old))
    assert response["allowed"]
    return [text for text in response.get("warnings", ()) if "affinity" in text]


@pytest.mark.parametrize(("raw", "said"), WRONG.values(), ids=WRONG.keys())
def test_the_author_of_a_pool_is_told_at_once(raw: dict[str, Any], said: str) -> None:
    for old in (None, pool(RIGHT["pods"])):
        (text,) = warnings(pool(raw), old)
        assert text.startswith(
            "GPUPool a gives no cards until this is mended: spec.scheduling.affinity cannot be read: "
        )
        assert said in text


def test_affinity_without_terms_is_told_too() -> None:
    (text,) = warnings(pool(nodes()))
    assert text.endswith(
        "spec.scheduling.affinity has no nodeSelectorTerms in its required node affinity, so no node matches"
    )


@pytest.mark.parametrize("raw", RIGHT.values(), ids=RIGHT.keys())
def test_of_what_is_right_and_of_what_was_there_nothing_is_told(raw: dict[str, Any]) -> None:
    assert warnings(pool(raw)) == []
    assert warnings({"metadata": {"name": "a"}, "spec": {}}, pool(raw)) == []
    bad = pool({"nodeAfinity": {}})
    assert warnings(bad | {"spec": bad["spec"] | {"access": {"namespaces": ["x"]}}}, bad) == []
